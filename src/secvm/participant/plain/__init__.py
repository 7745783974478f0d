"""A device's part in plain experiments: one relay, single packages at random times, no guarantee.

==================== ==================================================================================
rounds               which rounds it believes, fetched and checked
turns                its session: told, stored, then acted upon
preparation          a round's packages, computed once the person agrees
membership           its askings, and one experiment put together for the host
==================== ==================================================================================
"""
