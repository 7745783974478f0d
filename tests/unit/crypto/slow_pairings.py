"""py_ecc, the slow and plain implementation of pairings, without what it does to everybody else.

On import it raises Python's limit of recursion a hundredfold, and a deeply nested document then overflows the stack of
the interpreter's own JSON reader instead of being refused.
"""

import sys

_LIMIT = sys.getrecursionlimit()

from py_ecc.bls.hash_to_curve import hash_to_G1  # noqa: E402  (after the limit is noted)
from py_ecc.bls.point_compression import compress_G1, decompress_G1, decompress_G2  # noqa: E402
from py_ecc.bls.typing import G1Compressed, G2Compressed  # noqa: E402
from py_ecc.fields import optimized_bls12_381_FQ12 as FQ12  # noqa: E402
from py_ecc.optimized_bls12_381.optimized_curve import G2, neg  # noqa: E402
from py_ecc.optimized_bls12_381.optimized_pairing import final_exponentiate, pairing  # noqa: E402

sys.setrecursionlimit(_LIMIT)

__all__ = [
    "FQ12",
    "G2",
    "G1Compressed",
    "G2Compressed",
    "compress_G1",
    "decompress_G1",
    "decompress_G2",
    "final_exponentiate",
    "hash_to_G1",
    "neg",
    "pairing",
]
