"""Sealing and signing: what a device sends is opened by the gateway alone, and the answer by that device alone.

Pure: no I/O, no clock, no dice of its own; random bytes come in as an argument. The doors are

- ``oblivious``: Oblivious HTTP (RFC 9458), bytes to bytes: key configurations, capsules, their answers;
- ``binary_http``: requests and responses as bytes (RFC 9292), which is what stands inside a capsule;
- ``hpke``: the encryption below (RFC 9180), base mode with exporter;
- ``signing``: Ed25519 envelopes, a payload with its purpose and its signatures;
- ``merkle``: trees of RFC 6962, their proofs; ``notes``: signed text in C2SP's form, and cosignatures of witnesses;
- ``kem``: its keys, X25519 and a post-quantum hybrid; ``kdf``: its key derivation.
"""
