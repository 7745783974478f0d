"""Packages: one size, one encoding, nothing that is not asked for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import LocalProtocolError, MalformedMessageError, RefusedPackageError
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm.learning.losses import Loss
from secvm.learning.package import (
    Cohort,
    NullPackage,
    Package,
    ParticipationPackage,
    TestPackage,
    TrainPackage,
)
from secvm.protocol.codec import PACKAGE_BYTES, AddressedPackage, ExperimentId, check_package, decode, encode

LABELS = st.integers(0, 4095)
PACKAGES: st.SearchStrategy[Package] = st.one_of(
    st.builds(TrainPackage, model=LABELS, bin_index=st.integers(0, 2**24), sign=st.sampled_from([-1, 1])),
    st.builds(TestPackage, true_class=LABELS, predicted_class=LABELS),
    st.builds(ParticipationPackage, cohort=st.sampled_from(Cohort), class_index=LABELS),
    st.builds(NullPackage),
)
ADDRESSED = st.builds(
    AddressedPackage,
    experiment_id=st.binary(min_size=16, max_size=16).map(ExperimentId),
    round_number=st.integers(1, 2**20 - 1),
    package=PACKAGES,
)
ID = ExperimentId(bytes(range(16)))


@given(ADDRESSED)
def test_decoding_gives_back_what_was_encoded(addressed: AddressedPackage) -> None:
    data = encode(addressed)
    assert len(data) == PACKAGE_BYTES
    assert decode(data) == addressed


@given(ADDRESSED)
def test_truncated_and_extended_encodings_are_refused(addressed: AddressedPackage) -> None:
    data = encode(addressed)
    for wrong in (*(data[:n] for n in range(PACKAGE_BYTES)), data + b"\0", data * 2):
        with pytest.raises(MalformedMessageError) as caught:
            decode(wrong)
        assert caught.value.problem == "wrong-size"


@pytest.mark.parametrize(
    "package",
    [
        TrainPackage(model=4096, bin_index=0, sign=1),
        TrainPackage(model=0, bin_index=2**24 + 1, sign=1),
        TrainPackage(model=0, bin_index=-1, sign=1),
        TrainPackage(model=0, bin_index=0, sign=0),  # type: ignore[arg-type]  # what a careless caller does
        TestPackage(true_class=0, predicted_class=4096),
        ParticipationPackage(cohort=Cohort.TEST, class_index=-1),
    ],
)
def test_package_that_no_experiment_has_a_place_for_is_not_encoded(package: Package) -> None:
    with pytest.raises(LocalProtocolError):
        encode(AddressedPackage(ID, 1, package))


@pytest.mark.parametrize("round_number", [0, -1, 2**20])
def test_rounds_that_cannot_be_are_not_encoded(round_number: int) -> None:
    with pytest.raises(LocalProtocolError):
        encode(AddressedPackage(ID, round_number, NullPackage()))
    with pytest.raises(LocalProtocolError):
        encode(AddressedPackage(ExperimentId(b"short"), 1, NullPackage()))


EXPERIMENT = Experiment(n_bins=10, labels=("a", "b", "c"), rule=Pegasos(), budget=5)


REGRESSION = Experiment(n_bins=10, labels=("age",), rule=Pegasos(), loss=Loss("pinball"), budget=5)


@pytest.mark.parametrize(
    ("package", "asked", "problem"),
    [
        (TrainPackage(model=3, bin_index=0, sign=1), {}, "unknown-model"),
        (TrainPackage(model=2, bin_index=11, sign=1), {}, "bin-out-of-range"),
        (TestPackage(true_class=3, predicted_class=0), {}, "unknown-class"),
        (TestPackage(true_class=0, predicted_class=3), {}, "unknown-class"),
        (TestPackage(true_class=0, predicted_class=0), {"experiment": REGRESSION}, "unknown-class"),
        (ParticipationPackage(cohort=Cohort.TEST, class_index=3), {}, "unknown-class"),
        (NullPackage(), {"round_number": 3}, "wrong-round"),
        (NullPackage(), {"experiment_id": ExperimentId(bytes(16))}, "unknown-experiment"),
    ],
)
def test_package_that_is_not_of_this_round_or_experiment_is_refused_by_name(
    package: Package, asked: dict[str, Any], problem: str
) -> None:
    told: dict[str, Any] = {"experiment_id": ID, "experiment": EXPERIMENT, "round_number": 2, **asked}
    with pytest.raises(RefusedPackageError) as caught:
        check_package(AddressedPackage(ID, 2, package), **told)
    assert caught.value.problem == problem


@given(PACKAGES)
def test_what_passes_the_check_can_be_counted(package: Package) -> None:
    addressed = AddressedPackage(ID, 1, package)
    try:
        checked = check_package(addressed, experiment_id=ID, experiment=EXPERIMENT, round_number=1)
    except RefusedPackageError:
        return
    aggregate.empty_tally(EXPERIMENT).count([checked])
