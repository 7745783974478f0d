"""Parts declare their settings once: ranges, defaults and names are those of the declaration."""

from fractions import Fraction

import pytest

from secvm.errors import BadExperimentError
from secvm.learning import declared
from secvm.learning.aggregate.descent import RULES, AskedDescent, Pegasos, Swift
from secvm.learning.declared import shown
from secvm.learning.losses import LOSSES
from secvm.privacy import target


@pytest.mark.parametrize("kind", [*RULES.built_in.values(), *LOSSES.built_in.values(), target.PrivacyTarget])
def test_every_declared_default_is_in_its_range_and_comes_back(kind: type[declared.Declared]) -> None:
    for numbers in (False, True):
        part = kind.read({}, numbers=numbers)
        assert (
            kind.read({name: value for name, value in part.content().items() if value is not None}) == part or numbers
        )
    assert all(setting.sentence.rstrip("…").strip() for setting in kind.settings())


def test_a_number_as_the_label_has_defaults_of_its_own_unless_one_is_given() -> None:
    asked = AskedDescent.read({"rule": "pegasos", "averaging": 3})
    assert asked.rule == Pegasos(averaging=3)
    expected = Pegasos(lambda_=Fraction(1, 100), averaging=3, step_cap=Fraction(1, 10))
    assert asked.rule_for(numbers=True) == expected
    assert AskedDescent.read({}).rule_for(numbers=True) == Swift()


@pytest.mark.parametrize("bad", [{"averaging": "5/2"}, {"averaging": True}, {"lambda": None}, {"lambda": []}, {"λ": 1}])
def test_what_does_not_fit_is_refused_by_its_name(bad: dict[str, object]) -> None:
    with pytest.raises(BadExperimentError, match=next(iter(bad))):
        Pegasos.read(bad)


def test_numbers_are_shown_short() -> None:
    assert [shown(Fraction(text)) for text in ("1/1000000", "7/10", "1/3", "100")] == ["1e-6", "0.7", "1/3", "100"]
    assert len(shown(Fraction(10**300))) < 50
