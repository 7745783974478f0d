"""Sealing, signing, public randomness: what a device sends the gateway alone opens, and the answer that device alone.

Pure: no I/O, no clock, no dice of its own; random bytes come in as an argument. The doors are

- ``sealing.oblivious``: Oblivious HTTP (RFC 9458), bytes to bytes: key configurations, capsules, their answers;
- ``sealing.binary_http``: requests and responses as bytes (RFC 9292), which is what stands inside a capsule;
- ``sealing.layers``: the two seals of a capsule that travels by two relays; ``sealing.hpke``: the encryption below;
- ``signing``: Ed25519 envelopes, a payload with its purpose and its signatures;
- ``beacons.sources``: public randomness, verified, and the salt that follows from it;
- ``merkle``: trees of RFC 6962, their proofs; ``notes``: signed text in C2SP's form, and cosignatures of witnesses;
- ``tokens``: anonymous one-use tokens (RFC 9497); ``locking``: a secret under a passphrase.
"""
