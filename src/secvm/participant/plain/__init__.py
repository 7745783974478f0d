"""A device's part in plain experiments: one relay, single packages at random times, no guarantee.

==================== ==================================================================================
rounds               which rounds it believes, fetched and checked
turns                its session: told, stored, then acted upon
preparing            a round's packages, computed once the person agrees
hearing              asks for manifests, looks at the log
membership           one experiment: all of this, put together for the host
==================== ==================================================================================
"""
