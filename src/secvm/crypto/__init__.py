"""Sealing, signing, public randomness: what a device sends the gateway alone opens, and the answer that device alone.

Pure: no I/O, no clock, no dice of its own; random bytes come in as an argument. The doors are

- ``oblivious``: Oblivious HTTP (RFC 9458), bytes to bytes: key configurations, capsules, their answers;
- ``binary_http``: requests and responses as bytes (RFC 9292), which is what stands inside a capsule;
- ``hpke``: the encryption below (RFC 9180), base mode with exporter;
- ``signing``: Ed25519 envelopes, a payload with its purpose and its signatures;
- ``beacon``: public randomness, verified (``nist_pulse``, ``drand``), and the salt that follows from it;
- ``merkle``: trees of RFC 6962, their proofs; ``notes``: signed text in C2SP's form, and cosignatures of witnesses;
- ``kem``: its keys, X25519 and a post-quantum hybrid; ``kdf``: its key derivation.
"""
