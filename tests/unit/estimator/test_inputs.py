"""What goes into the estimators: four kinds of input, and how real numbers become integer levels."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from secvm.errors import BadInputError, SecVMError
from secvm.estimator import FeatureBinner, SecVMClassifier

WORDS = ["coat", "rain", "sea", "sun", "tea"]
TOKENS = [
    ["tea", "rain", "tea"],
    ["rain", "coat"],
    ["sun", "sea", "sea", "sea"],
    ["sea"],
    ["tea", "sun"],
    ["coat", "coat", "rain"],
]
LABELS = ["n", "n", "s", "s", "s", "n"]
COUNTS = [{w: row.count(w) for w in row} for row in TOKENS]
ARRAY = np.array([[row.count(w) for w in WORDS] for row in TOKENS])
KINDS: dict[str, Any] = {
    "token lists": TOKENS,
    "tuples of tokens": [tuple(row) for row in TOKENS],
    "array of lists": np.array([list(row) for row in TOKENS], dtype=object),
    "dicts": COUNTS,
    "dicts with zeros": [{**dict.fromkeys(WORDS, 0), **row} for row in COUNTS],
    "data frame": pd.DataFrame(ARRAY, columns=WORDS),
    "data frame of floats": pd.DataFrame(ARRAY.astype(float), columns=WORDS),
}
COLUMNS: dict[str, Any] = {
    "array": ARRAY,
    "list of rows": ARRAY.tolist(),
    "array of floats": ARRAY.astype(np.float32),
    "csr matrix": sp.csr_matrix(ARRAY),
    "csr array": sp.csr_array(ARRAY),
    "csc matrix": sp.csc_matrix(ARRAY),
    "coo matrix": sp.coo_matrix(ARRAY),
    "csr with explicit zeros": sp.csr_matrix(
        (ARRAY.ravel(), np.tile(np.arange(5), 6), np.arange(0, 31, 5)), shape=(6, 5)
    ),
}


def levels(X: Any, like: Any = None, weight: Any = None) -> list[list[int]]:
    binner = FeatureBinner(n_bins=None).fit(X, sample_weight=weight)
    found: list[list[int]] = binner.transform(X if like is None else like).toarray().tolist()
    return found


def state(X: Any, **parameters: Any) -> bytes:
    model = SecVMClassifier(rounds=20, dice_seed=b"", **parameters).fit(X, LABELS)
    found: bytes = model.state_.to_bytes()
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_bins", [None, 7])
@pytest.mark.parametrize("values", ["counts", "presence"])
def test_words_and_named_columns_train_to_the_same_bytes(kind: str, n_bins: int | None, values: str) -> None:
    assert state(KINDS[kind], n_bins=n_bins, values=values) == state(TOKENS, n_bins=n_bins, values=values)


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("n_bins", [None, 7])
def test_arrays_and_sparse_matrices_train_to_the_same_bytes(kind: str, n_bins: int | None) -> None:
    assert state(COLUMNS[kind], n_bins=n_bins) == state(ARRAY, n_bins=n_bins)


def test_unhashed_words_and_unnamed_columns_differ_in_names_only() -> None:
    assert state(TOKENS) == state(ARRAY)
    by_words, by_columns = SecVMClassifier(rounds=5).fit(TOKENS, LABELS), SecVMClassifier(rounds=5).fit(ARRAY, LABELS)
    assert by_words.get_feature_names_out().tolist() == WORDS
    assert by_columns.get_feature_names_out().tolist() == ["0", "1", "2", "3", "4"]
    assert (by_words.predict(TOKENS) == by_columns.predict(ARRAY)).all()
    assert (by_words.decision_function(TOKENS) == by_columns.decision_function(ARRAY)).all()


def test_sets_count_each_word_once() -> None:
    assert state([set(row) for row in TOKENS]) == state(TOKENS, values="presence")


def test_columns_hash_by_their_decimal_index_or_their_name() -> None:
    by_index = FeatureBinner(n_bins=50, salt="5a17").fit(ARRAY).transform(ARRAY)
    as_words = [{str(j): int(v) for j, v in enumerate(row)} for row in ARRAY]
    assert (by_index != FeatureBinner(n_bins=50, salt="5a17").fit_transform(as_words)).nnz == 0


def test_words_not_seen_by_fit_are_dropped_and_a_person_may_have_none() -> None:
    binner = FeatureBinner(n_bins=None).fit(TOKENS)
    assert binner.transform([["fog", "tea"], [], ["fog"]]).toarray().tolist() == [[0, 0, 0, 0, 1], [0] * 5, [0] * 5]
    model = SecVMClassifier(rounds=5).fit(TOKENS, LABELS)
    assert len(model.predict([[], ["fog"]])) == 2


def test_vocabulary_is_in_the_order_of_its_bytes() -> None:
    binner = FeatureBinner(n_bins=None).fit([["zebra", "Ähre"], ["apple", "\U0001f40d", "\uffee"]])
    assert binner.get_feature_names_out().tolist() == ["apple", "zebra", "Ähre", "\uffee", "\U0001f40d"]


# -- quantisation ----------------------------------------------------------------------------------------------------


def test_whole_numbers_up_to_255_that_are_mostly_zero_stay_what_they_are() -> None:
    column = [[-255], [255], [0], [0], [0], [17], [-3]]
    assert levels(np.array(column, dtype=float)) == column


def test_flags_stay_what_they_are_however_many_are_set() -> None:
    assert levels(np.array([[1], [1], [1], [0]])) == [[1], [1], [1], [0]]


def test_repro_whole_numbers_of_a_wide_range_were_taken_for_counts() -> None:
    ages = np.arange(1, 201)[:, None]
    assert levels(ages) == levels(ages / 4)
    model = SecVMClassifier(random_state=0).fit(ages, ages.ravel() > 100)
    assert model.score(ages, ages.ravel() > 100) > 0.9


def test_one_value_beyond_255_makes_a_column_a_measurement() -> None:
    column = np.array([[256.0], [0], [0], [0], [3]])
    assert levels(column) != column.tolist()


def test_real_column_becomes_quarters_of_its_scale_around_its_median() -> None:
    # 16 %, 50 % and 84 % of 0.1 … 10.0 are 1.6, 5.0 and 8.4: the scale is 3.4, one level is 0.85.
    column = np.arange(1, 101)[:, None] / 10
    found = np.array(levels(column)).ravel()
    assert found.tolist() == np.rint((column.ravel() - 5.0) * (4 / 3.4)).astype(int).tolist()
    assert found[49] == 0
    assert abs(found).max() < 8


def test_outlier_is_clipped_at_eight_scales_in_fit_and_later() -> None:
    column = np.arange(1, 101)[:, None] / 10
    column[99] = 1e9
    assert levels(column)[99] == [32]
    assert levels(column, like=np.array([[-1e300], [1e300]])) == [[-32], [32]]


def test_rarely_moving_column_is_scaled_by_half_its_range() -> None:
    column = np.zeros((50, 1))
    column[7] = 0.5  # the 16 % and 84 % quantiles coincide
    assert levels(column)[7] == [8]
    assert levels(column)[6] == [0]


def test_constant_column_is_level_zero() -> None:
    assert levels(np.array([[0.5, 3.0], [0.5, 3.0], [0.5, 3.0]])) == [[0, 0]] * 3
    assert levels(np.array([[0.5], [0.5]]), like=np.array([[7.25]])) == [[0]]


def test_zero_of_a_sparse_matrix_means_absent() -> None:
    dense = np.array([[0.0], [2.5], [5.0], [5.0], [5.0]])
    assert levels(sp.csr_matrix(dense)) == [[0], [2], [4], [4], [4]]  # the scale is 5.0, and no centre is taken away
    assert levels(dense) == [[-8], [-4], [0], [0], [0]]  # the centre is 5.0, the scale 2.5


def test_counts_seen_later_may_be_larger_than_any_in_fit() -> None:
    assert levels(np.array([[0], [2]]), like=np.array([[70_000], [2.4]])) == [[70_000], [2]]


finite = st.floats(-1e6, 1e6, allow_nan=False).map(lambda v: round(v, 2))


@given(
    st.lists(st.tuples(finite, finite, st.integers(0, 3)), min_size=2, max_size=12).filter(
        lambda r: any(w for *_, w in r)
    )
)
def test_row_of_weight_two_is_the_row_twice_to_the_bit(rows: list[tuple[float, float, int]]) -> None:
    X = np.array([[a, b] for a, b, _ in rows])
    weight = np.array([w for *_, w in rows])
    for kind in (np.asarray, sp.csr_matrix):
        weighted = FeatureBinner(n_bins=None).fit(kind(X), sample_weight=weight).quantiser_
        repeated = FeatureBinner(n_bins=None).fit(kind(np.repeat(X, weight, axis=0))).quantiser_
        assert weighted is not None
        assert repeated is not None
        assert weighted.centre.tobytes() == repeated.centre.tobytes()
        assert weighted.factor.tobytes() == repeated.factor.tobytes()


def test_row_of_weight_zero_has_no_say() -> None:
    X = np.array([[0.5], [1.5], [2.5], [9e9]])
    y = ["a", "b", "a", "never seen"]
    with_it = SecVMClassifier(rounds=9).fit(X, y, sample_weight=[1, 1, 1, 0])
    without = SecVMClassifier(rounds=9).fit(X[:3], y[:3])
    assert with_it.state_.to_bytes() == without.state_.to_bytes()
    assert with_it.classes_.tolist() == ["a", "b"]


# -- found bugs ------------------------------------------------------------------------------------------------------


def canonical(X: Any) -> tuple[list[float], list[int], list[int]]:
    return X.data.tolist(), X.indices.tolist(), X.indptr.tolist()


@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csr_array])
def test_repro_fit_emptied_the_callers_sparse_matrix(form: Any) -> None:
    """Entries of level 0 were removed in place, from index arrays shared with the caller's matrix."""
    X: Any = form(sp.random(40, 6, density=0.7, format="csr", random_state=0))
    before = canonical(X.copy())
    model = SecVMClassifier(rounds=3).fit(X, np.arange(40) % 2)
    model.predict(X)
    assert canonical(X) == before


def test_repro_unsorted_and_repeated_entries_of_the_caller_were_tidied_in_place() -> None:
    X = sp.csr_matrix((np.array([1.0, 2.0, 0.5, 0.0]), np.array([1, 0, 0, 1]), np.array([0, 3, 4])), shape=(2, 2))
    before = canonical(X.copy())
    assert levels(X) == levels(sp.csr_matrix(np.array([[2.5, 1.0], [0.0, 0.0]])))
    assert canonical(X) == before


def test_repro_stored_zeros_moved_the_scale_of_a_sparse_column() -> None:
    entries = np.array([0.5, 1.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    stored = sp.csr_matrix((entries, np.zeros(8, dtype=int), np.arange(9)), shape=(8, 1))
    tidy = stored.copy()
    tidy.eliminate_zeros()
    assert stored.nnz == 8
    assert levels(stored) == levels(tidy)


def test_repro_text_among_lists_was_taken_for_a_list_of_letters() -> None:
    with pytest.raises(BadInputError, match="every person must be a list of words or a dict of counts"):
        FeatureBinner(n_bins=None).fit([["tea"], "sea"])


def test_repro_half_a_surrogate_pair_showed_the_feature_in_the_error() -> None:
    with pytest.raises(BadInputError, match="no valid Unicode") as caught:
        FeatureBinner(n_bins=None).fit([["secret\ud800"], ["tea"]])
    assert "secret" not in str(caught.value)


def test_repro_column_as_wide_as_all_numbers_was_taken_for_counts() -> None:
    """high - low overflowed to infinity, the factor became 0, and 0 marks counts."""
    X = np.array([[1e308], [-1.7e308], [0.5], [1.7e308]])
    # Centre 0.5, scale 1.7e308 (half of the distance of the outermost two).
    assert levels(X) == [[2], [-4], [0], [4]]
    assert len(SecVMClassifier(rounds=3).fit(X, [0, 1, 0, 1]).predict(X)) == 4


def test_repro_words_of_people_without_weight_were_in_the_vocabulary() -> None:
    binner = FeatureBinner(n_bins=None).fit([["tea"], ["sea"], ["fog"]], sample_weight=[1, 2, 0])
    assert binner.get_feature_names_out().tolist() == ["sea", "tea"]


# -- wrong kinds -----------------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[Any, str]] = {
    "documents as text": (["tea rain", "sun"], "a person is a list of words or a dict of counts, not one text"),
    "a column of texts": (pd.Series(["tea rain", "sun"]), r"not one text; give \[text.split\(\) for text in texts\]"),
    "an array of texts": (np.array(["tea rain", "sun"]), "or a data frame with texts as a column"),
    "one text": ("tea rain", "not one text"),
    "a number among lists": ([["tea"], 3], "every person must be a list of words or a dict of counts"),
    "a number among words": ([["tea"], ["sea", 3]], "a list of words must hold text only"),
    "real counts": ([{"tea": 1.5}], "a dict of counts must map text to integers"),
    "booleans as counts": ([{"tea": True}], "a dict of counts must map text to integers"),
    "numbers as names": ([{3: 1}], "a dict of counts must map text to integers"),
    "nobody": ([], "Expected 2D array"),
    "only people without words": ([[], []], "the vocabulary has no words"),
    "NaN": (np.array([[np.nan], [1.0]]), "contains NaN"),
    "infinity": (np.array([[np.inf], [1.0]]), "contains infinity"),
    "one dimension": (np.array([1.0, 2.0]), "Expected 2D array"),
    "too many units": ([{"tea": 2**22}], "too large to be split into packages"),
    "too many units together": ([{"tea": 2**21, "sea": 2**21}], "sums would no longer be exact"),
    "a word with a line break": ([["tea\nsea"]], "line break"),
    "an array of text": (np.array([["x"], ["y"]], dtype=object), "an array must hold numbers"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_input_is_refused_with_a_sentence(wrong: str) -> None:
    X, sentence = WRONG[wrong]
    with pytest.raises((ValueError, SecVMError), match=sentence):
        FeatureBinner(n_bins=None).fit_transform(X)


def test_repro_a_gap_in_an_array_was_told_of_another_class() -> None:
    with pytest.raises(ValueError, match="SecVMClassifier does not accept missing values"):
        SecVMClassifier().fit([[np.nan], [1.0]], ["n", "s"])


def test_repro_an_array_of_dates_was_answered_in_numpys_words() -> None:
    days = np.array([["2024-03-05"], ["2024-03-06"]], dtype="datetime64[D]")
    with pytest.raises(BadInputError, match="give dates as a column of a data frame"):
        SecVMClassifier().fit(days, ["n", "s"])


def test_words_where_columns_were_learned_are_refused_and_the_other_way_round() -> None:
    with pytest.raises(BadInputError, match="fitted on columns"):
        FeatureBinner().fit(ARRAY).transform(TOKENS)
    with pytest.raises(BadInputError, match="fitted on words"):
        FeatureBinner().fit(TOKENS).transform(ARRAY)


def test_negative_values_have_no_presence() -> None:
    with pytest.raises(BadInputError, match="no meaning as presence"):
        FeatureBinner(values="presence").fit_transform([{"tea": -1}])


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"n_bins": 0}, "n_bins"),
        ({"n_bins": 2**24 + 1}, "bins must be a whole number, at least 1 and at most 16777216"),
        ({"n_hashes": 17}, "n_hashes"),
        ({"salt": "xyz"}, "hexadecimal"),
        ({"values": "tfidf"}, "values"),
    ],
)
def test_binner_refuses_parameters_that_cannot_be(parameters: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        FeatureBinner(**parameters).fit_transform(TOKENS)


# -- the binner beside others ----------------------------------------------------------------------------------------


def test_binner_gives_integers_in_a_csr_matrix_and_an_array_when_asked() -> None:
    binned = FeatureBinner(n_bins=8, salt="5a17").fit_transform(TOKENS)
    assert isinstance(binned, sp.csr_matrix)
    assert binned.dtype == np.int64
    dense = FeatureBinner(n_bins=8, salt="5a17", sparse_output=False).fit_transform(TOKENS)
    assert isinstance(dense, np.ndarray)
    assert (binned.toarray() == dense).all()


def test_repro_binner_could_not_give_a_data_frame() -> None:
    frame = FeatureBinner(n_bins=4, salt="5a17").set_output(transform="pandas").fit_transform(TOKENS)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == ["bin0", "bin1", "bin2", "bin3"]
    assert (frame.to_numpy() == FeatureBinner(n_bins=4, salt="5a17").fit_transform(TOKENS).toarray()).all()


def test_data_frame_keeps_its_index_and_unhashed_column_names() -> None:
    people = pd.DataFrame(ARRAY, columns=WORDS, index=list("uvwxyz"))
    frame = FeatureBinner(n_bins=None).set_output(transform="pandas").fit_transform(people)
    assert frame.equals(people.astype(np.int64))


def test_count_vectorizer_feeds_the_classifier_in_a_pipeline() -> None:
    texts = [" ".join(row) for row in TOKENS]
    pipeline = make_pipeline(CountVectorizer(), SecVMClassifier(rounds=20))
    assert pipeline.fit(texts, LABELS).score(texts, LABELS) == 1
    assert pipeline[-1].state_.to_bytes() == state(ARRAY)


def same_sample(left: NDArray[Any], right: NDArray[Any]) -> bool:
    return bool((left == right).all())


def test_features_per_person_are_drawn_once_and_limit_what_takes_part() -> None:
    people = [{f"w{i}": i + 1 for i in range(10)}] * 3
    binner = FeatureBinner(n_bins=None, features_per_person=4, dice_seed=b"F").fit(people)
    once = binner.transform(people).toarray()
    assert ((once > 0).sum(axis=1) == 4).all()
    assert same_sample(once, binner.transform(people).toarray())
    assert not same_sample(once[0], once[1])  # every participant has dice of its own


def test_features_per_person_sample_columns_as_a_device_samples_words() -> None:
    names = [f"w{i}" for i in range(10)]
    row = [1] * 10
    asked: dict[str, Any] = {"n_bins": None, "features_per_person": 4, "dice_seed": b"F"}
    frame = pd.DataFrame([row] * 3, columns=names)
    words = [dict(zip(names, row, strict=True))] * 3
    by_columns = FeatureBinner(**asked).fit(frame).transform(frame)
    assert (by_columns != FeatureBinner(**asked).fit(words).transform(words)).nnz == 0
