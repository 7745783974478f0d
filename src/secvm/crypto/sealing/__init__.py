"""Encryption to one receiver: key encapsulation, HPKE, the two layers of a capsule, Oblivious HTTP and binary HTTP."""
