"""How few bytes a tally travels in, and a whole round beside it: measured as ``./secvm bench tally`` does."""

from fractions import Fraction

from benchmarks.tally import V1_BYTES, drawn_tally, round_bytes
from secvm.learning.cover_law import Noise, RelayCover
from secvm.protocol.documents.blobs import encode_tally

BINS = 10_000
#: What the planner comes to for ε = 1, δ = 1e-6 and 10,000 people, rounded; the rest as large as it may be.
ODDS = Fraction(89, 16)
COVER = RelayCover(
    train=Noise(cells=2 * (BINS + 1), shape=Fraction(15), odds=ODDS),
    participation=Noise(cells=4, shape=Fraction(15), odds=ODDS),
    test=Noise(cells=4, shape=Fraction(15), odds=ODDS),
    parts=9,
    packages=1_980_000,
)


def test_a_covered_tally_travels_in_little_more_than_its_entropy() -> None:
    tally, experiment, entropy = drawn_tally(BINS, 10_000, COVER)
    data = encode_tally(tally, experiment)
    # The seed is fixed; another one changes the size by some tens of bytes.
    assert entropy < len(data) < 1.04 * entropy
    assert 8.5 * len(data) < 160_064


def test_a_plain_tally_travels_in_a_fifteenth() -> None:
    tally, experiment, _ = drawn_tally(BINS, 10_000, None)
    assert 15 * len(encode_tally(tally, experiment)) < 160_064


def test_a_round_is_a_sixth_of_version_1_with_all_its_padding() -> None:
    tally, experiment, _ = drawn_tally(BINS, 10_000, COVER)
    found = round_bytes(len(encode_tally(tally, experiment)))
    assert found["padded_bytes"] <= V1_BYTES / 6
    assert sum(found["content"].values()) == found["content_bytes"] < found["padded_bytes"]
