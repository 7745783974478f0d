"""Signs and winners."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadExperimentError
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.contribution import evaluate_person
from secvm.learning.label_models import LabelModels
from secvm.learning.package import TestPackage
from tests.unit.learning.helpers import some_weights


def predicted(models: LabelModels, *rows: list[int]) -> list[int]:
    winners: list[int] = models.predict(np.array(rows, dtype=np.int64)).tolist()
    return winners


def test_two_labels_share_one_model_and_label_one_is_positive() -> None:
    for kind in ("ovr", "ovo"):
        models = LabelModels(2, kind)
        assert models.n_models == 1
        assert models.signs.tolist() == [[-1], [1]]


def test_score_zero_predicts_label_one() -> None:
    assert predicted(LabelModels(2), [-1], [0], [1]) == [0, 1, 1]


def test_one_vs_rest_has_one_positive_label_per_model() -> None:
    assert LabelModels(3).signs.tolist() == [[1, -1, -1], [-1, 1, -1], [-1, -1, 1]]


def test_one_vs_rest_takes_the_largest_and_the_first_of_equals() -> None:
    assert predicted(LabelModels(3), [1, 5, 2], [-9, -9, -9], [0, 7, 7]) == [1, 0, 1]


def test_one_vs_one_has_one_model_per_pair_and_leaves_out_the_others() -> None:
    models = LabelModels(3, "ovo")
    assert models.pairs.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert models.signs.tolist() == [[-1, -1, 0], [1, 0, -1], [0, 1, 1]]


@given(st.integers(3, 6), st.data())
def test_one_vs_one_is_the_winner_of_a_count_by_hand(n: int, data: st.DataObject) -> None:
    models = LabelModels(n, "ovo")
    row = data.draw(st.lists(st.integers(-3, 3), min_size=models.n_models, max_size=models.n_models))
    standing = {c: [0, 0, -c] for c in range(n)}
    i = 0
    for low in range(n):
        for high in range(low + 1, n):
            standing[high if row[i] >= 0 else low][0] += 1
            standing[high][1] += row[i]
            standing[low][1] -= row[i]
            i += 1
    assert predicted(models, row) == [max(range(n), key=lambda c: standing[c])]


def test_one_label_is_a_number_and_has_one_model() -> None:
    models = LabelModels(1)
    assert models.signs.tolist() == [[1]]
    assert predicted(models, [-7]) == [0]


@pytest.mark.parametrize(("n_labels", "kind"), [(0, "ovr"), (3, "one"), (4097, "ovr"), (100, "ovo")])
def test_too_many_models_and_unknown_kinds_are_refused(n_labels: int, kind: str) -> None:
    with pytest.raises(BadExperimentError):
        LabelModels(n_labels, kind)


def test_test_person_tells_its_cell() -> None:
    vector = BinnedVector(values={0: 2}, n_bins=1)
    weights = some_weights([[1, 0], [-3, 9], [1, 1]])
    # 2, 3, 3: the first of equals.
    assert evaluate_person(weights, LabelModels(3), vector, 2) == TestPackage(true_class=2, predicted_class=1)
    assert evaluate_person(some_weights([[0, 0]], first=True), LabelModels(2), vector, 0).predicted_class == 1
