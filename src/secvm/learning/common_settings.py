"""Settings that every experiment has, whatever its rule and loss: bins, hashes, and the share that trains."""

from __future__ import annotations

from fractions import Fraction

from secvm.learning.declared import Setting

#: The range reduction uses 32 bits of the hash: at 2^24 bins the likeliest bin is 0.4 % likelier than the rarest. The
#: bias is one bin more.
MAX_BINS = 2**24
#: An update has one unit per hash; more than a handful only blurs (paper, appendix A.1).
MAX_HASHES = 16
#: Packages of one participant in one round; privacy.md's heaviest setting needs about 2,500.
MAX_BUDGET = 2**16
#: Where nobody says which share of the devices trains.
USUAL_TRAIN_SHARE = Fraction(7, 10)

BINS = Setting(
    name="bins",
    sentence="Bins of features, the bias not counted: fewer hide more, more learn more.",
    default=None,
    is_whole=True,
    at_least=1,
    at_most=MAX_BINS,
)
HASHES = Setting(
    name="hashes", sentence="Bins of one feature.", default=1, is_whole=True, at_least=1, at_most=MAX_HASHES
)
BUDGET = Setting(
    name="budget",
    sentence="B: packages that every device sends in every round; without it, as many as nearly every update needs.",
    default=None,
    is_whole=True,
    optional=True,
    at_least=2,
    at_most=MAX_BUDGET,
)
TRAIN_SHARE = Setting(
    name="train_share",
    sentence="Probability with which a device trains; the others test the model.",
    default=USUAL_TRAIN_SHARE,
    above=0,
    at_most=1,
)
