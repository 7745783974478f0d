"""The witness: knows only the log. It cosigns what has grown out of what it saw, and imports nothing of learning.

- ``decision``: what is asked, what was seen, and what follows: cosign or refuse. Pure.
- ``store.WitnessStore``: what was cosigned, durably, before anybody is answered; and forks, as evidence.
- ``settings.WitnessSettings``: which logs, also where a network of witnesses says so.
- ``server.WitnessDoors``, ``main.WitnessService``: the process around them (c2sp.org/tlog-witness).
"""
