"""The paper's claims, recomputed: which hold and which do not."""

from xml.etree import ElementTree as ET

import pytest

from secvm_lab.paper import lemmas


def test_claims_hold_and_fail_as_recomputed() -> None:
    assert [one.holds for one in lemmas.claims()] == [True, True, True, False, False, False, True]


def test_the_exact_mode_never_exceeds_one_and_the_printed_floor_does() -> None:
    found = lemmas.jumps()
    exact = [one for _, _, one in found]
    assert exact == sorted(exact, reverse=True)
    assert max(exact) <= 1 < max(printed for _, printed, _ in found)


def test_the_bound_is_tiny_where_the_label_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lemmas, "SIZES", (1_000, 34_615))
    seen: list[int] = []
    few, paper = lemmas.curve(seed=1, on_point=seen.append)
    assert seen == [1, 2]
    assert few.exact_log10 < -99_000
    assert few.auc > 0.999
    assert few.played > 0.99
    assert paper.auc == pytest.approx(0.88, abs=0.01)
    drawn = lemmas.draw([few, paper])
    assert ET.fromstring(drawn).tag.endswith("svg")
    assert "\u2212173,415" in drawn
