"""A device's part in plain experiments: one relay, single packages at random times, no guarantee.

``rounds`` says which rounds it believes, fetched and checked; ``membership`` is its session, its packages and its
askings, for the host.
"""
