"""How many bits of the dice each draw of ``twitter_words`` uses: numbers alone, for those who have no numba.

They stand beside the kernel that is compiled with them: the folder of its machine code is named by the files of this
one.
"""

from __future__ import annotations

#: A word's die: which cell of the law, where in it, and the coin between the two words of a pair.
CELL_BITS, PLACE_BITS, COIN_BITS = 12, 31, 21
#: Bits after the point of a cell's edge.
POINT_BITS = 10
#: A lean, and a length, is one of 2^12, all equally likely.
QUANTILE_BITS = 12
#: A strength of 1, in bits.
STRENGTH_BITS = 16
#: Dice are counted in 64 bits, the person in the upper ones: so many throws a person has.
THROW_BITS = 24
