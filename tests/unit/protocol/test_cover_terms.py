"""The field ``privacy``: plain, or cover with all its numbers, and never more than can be kept."""

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.learning.cover import Cover
from secvm.learning.cover_noise import CoverNoise
from secvm.learning.experiment import Experiment
from secvm.learning.losses import Loss
from secvm.privacy.accountant import Adjacency
from secvm.privacy.shuffle_dp import plan
from secvm.protocol.cover_terms import CoverTerms
from secvm.protocol.documents import encode_document
from secvm.protocol.experiment_document import ExperimentDocument, HashedBins, Relay
from secvm.protocol.stating import epsilon_of, mechanism_of
from tests.unit.protocol.helpers import RELAY, covered_document, document

RATIOS = st.fractions(min_value=Fraction(1, 1000), max_value=Fraction(3), max_denominator=1000)


@st.composite
def covers(draw: st.DrawFn, experiment: Experiment, train_share: Fraction) -> Cover:
    def noise(cells: int) -> CoverNoise:
        return CoverNoise(cells=cells, share=draw(RATIOS), odds=draw(RATIOS), cap=draw(st.integers(0, 500)))

    labels = len(experiment.labels)
    return Cover(
        train=noise(2 * experiment.models.n_models * (experiment.n_bins + 1)),
        participation=noise(2 * labels),
        test=None if experiment.loss.regression else noise(labels**2),
        real_cap=draw(st.integers(1, 300)),
        train_share=train_share,
    )


@given(data=st.data())
def test_every_cover_comes_back_whole(data: st.DataObject) -> None:
    number = data.draw(st.booleans())
    labels = ("n",) if number else tuple("abcd")[: data.draw(st.integers(2, 4))]
    share = data.draw(st.fractions(min_value=Fraction(1, 100), max_value=1, max_denominator=100))
    plain = Experiment(
        n_bins=data.draw(st.integers(1, 50)),
        labels=labels,
        loss=Loss("pinball") if number else Loss("hinge"),
        multiclass=data.draw(st.sampled_from(["ovr", "ovo"])),
        features_per_person=data.draw(st.integers(1, 20)),
    )
    cover = data.draw(covers(plain, share))
    experiment = replace(plain, cover=cover, budget=max(2, cover.budget + data.draw(st.integers(0, 3))))
    terms = CoverTerms(
        epsilon=data.draw(RATIOS),
        delta=Fraction(1, data.draw(st.integers(2, 10**9))),
        participants=data.draw(st.integers(100, 10**6)),
        gamma=data.draw(st.fractions(min_value=Fraction(1, 100), max_value=1, max_denominator=100)),
    )
    published = covered_document(experiment=experiment, train_share=share, floor=5, privacy=terms)
    again = ExperimentDocument.from_bytes(published.data)
    assert again == published
    assert again.experiment.cover == cover
    assert again.privacy == terms


def changed(path: str, value: object) -> bytes:
    content: Any = json.loads(covered_document().data)
    inner = content
    *outer, name = path.split(".")
    for step in outer:
        inner = inner[step]
    if value is KeyError:
        del inner[name]
    else:
        inner[name] = value
    return encode_document(content)


FIELDS = ("delta", "epsilon", "gamma", "kind", "participants", "participation", "real_cap", "test", "train")
PATHS = [
    *(f"privacy.{name}" for name in FIELDS),
    *(f"privacy.{kind}.{name}" for kind in ("participation", "test", "train") for name in ("cap", "odds", "share")),
]


@pytest.mark.parametrize("path", PATHS)
def test_every_field_of_cover_is_needed_and_has_its_type(path: str) -> None:
    for value in (KeyError, None, {}, {"x": 1}, [None], "", "x", "01", "-1", -1, True, "1" * 100):
        with pytest.raises(MalformedMessageError):
            ExperimentDocument.from_bytes(changed(path, value))


@pytest.mark.parametrize("path", ["privacy.x", "privacy.train.x", "privacy.train.cells", "privacy.test.x"])
def test_left_over_fields_of_cover_are_refused(path: str) -> None:
    with pytest.raises(MalformedMessageError, match="holds what it should not"):
        ExperimentDocument.from_bytes(changed(path, 1))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"presence": False}, "by presence"),
        ({"relays": ()}, "one relay, in mode round"),
        ({"modes": (None,)}, "one relay, in mode round"),
        ({"modes": ("forward",)}, "one relay, in mode round"),
        ({"modes": ("interval",)}, "one relay, in mode round"),
        ({"modes": ("round", "round")}, "one relay, in mode round"),
        ({"floor": 1}, "at least the number of labels"),
    ],
)
def test_cover_is_refused_where_it_cannot_be_kept(changes: dict[str, Any], sentence: str) -> None:
    good = covered_document(test=True)
    if "presence" in changes:
        changes = {"features": replace(good.features, presence=False)}
    if "modes" in changes:
        changes = {
            "relays": tuple(
                Relay(f"https://r{i}.example/", RELAY.public, mode) for i, mode in enumerate(changes["modes"])
            )
        }
    with pytest.raises(LocalProtocolError, match=sentence):
        _ = replace(good, **changes).data


def test_cover_without_a_bound_on_features_is_refused() -> None:
    with pytest.raises(MalformedMessageError, match="bound on the features"):
        ExperimentDocument.from_bytes(changed("learning.features_per_participant", None))


def test_budget_below_the_caps_is_refused() -> None:
    budget = covered_document().budget
    with pytest.raises(MalformedMessageError, match=f"need a budget of {budget}"):
        ExperimentDocument.from_bytes(changed("learning.budget", budget - 1))
    assert ExperimentDocument.from_bytes(changed("learning.budget", budget + 1)).budget == budget + 1


def test_cover_and_its_terms_go_together() -> None:
    good = covered_document()
    with pytest.raises(LocalProtocolError, match="planned for"):
        _ = replace(good, privacy=None).data
    with pytest.raises(LocalProtocolError, match="planned for"):
        _ = document(privacy=good.privacy).data
    with pytest.raises(LocalProtocolError, match="another share"):
        _ = replace(good, train_share=Fraction(1, 2)).data


def test_mode_of_a_relay_is_told_or_left_out() -> None:
    for mode in (None, "forward", "interval", "round"):
        relay: Any = Relay("https://relay.example/", RELAY.public, mode)
        data = document(relays=(relay,)).data
        assert ExperimentDocument.from_bytes(data).relays == (relay,)
        assert (b'"mode"' in data) == (mode is not None)


def test_floor_is_about_people_and_not_about_cover() -> None:
    plain, good = document(floor=10), covered_document(floor=10)
    cover = good.experiment.cover
    assert cover is not None
    assert plain.reaches_floor([5, 5])
    assert not plain.reaches_floor([5, 4])
    # Ten people of ten sevenths as many devices, and the cover of all of them.
    devices = 10 / good.train_share
    expected = 10 + 2 * devices * cover.participation.share * cover.participation.odds
    assert not good.reaches_floor([5, 5])
    assert expected == 20
    assert not good.reaches_floor([0, 19])
    assert good.reaches_floor([0, 20])


def test_what_is_planned_is_what_a_document_is_worth() -> None:
    made = plan(
        epsilon=2,
        delta=1e-6,
        rounds=4,
        features=5,
        hashes=2,
        bins=16,
        participants=2000,
        gamma=Fraction(1, 2),
        labels=2,
        train_share=Fraction(7, 10),
    )
    experiment = Experiment(n_bins=16, labels=("a", "b"), features_per_person=5, budget=made.budget, cover=made.cover)
    of = covered_document(
        experiment=experiment,
        binning=HashedBins(bins=16, hashes=2, salt=bytes(16)),
        rounds=4,
        privacy=CoverTerms(epsilon=Fraction(2), delta=Fraction(1, 10**6), participants=2000, gamma=Fraction(1, 2)),
    )
    again = ExperimentDocument.from_bytes(of.data)
    assert again.privacy is not None
    assert mechanism_of(again) == made.mechanism
    honest = again.privacy.honest
    assert epsilon_of(again, delta=1e-6, honest=honest) == made.achieved <= 2
    assert epsilon_of(again, delta=1e-6, honest=honest, adjacency=Adjacency.LABEL_FLIP) > made.achieved
    with pytest.raises(LocalProtocolError, match="no cover"):
        mechanism_of(document())
