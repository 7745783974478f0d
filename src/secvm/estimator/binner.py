"""FeatureBinner: whatever a scikit-learn user holds → people's binned vectors.

Four kinds of input:

- token lists: each row a list of words, a word's value is how often it occurs;
- dicts: each row a mapping of feature to integer value;
- scipy sparse matrices, and arrays and data frames of numbers: a column is a feature, named by its column name or its
  decimal index; real values become integer levels (``frames/quantise.py``), or with ``values="auto"``, where they are
  not sparse, places between knots (``frames/knots.py``);
- other data frames, with text, dates or gaps, and dicts of columns: words and knots (``frames/plan.py``).

``n_bins=None`` leaves features unhashed: columns are bins, or the vocabulary seen by ``fit`` is, in the order of its
UTF-8 bytes; words it has not seen are dropped later.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise, starmap
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_non_negative, validate_data

from secvm.errors import BadInputError
from secvm.estimator.frames.columns import holds_numbers_only, is_frame
from secvm.estimator.frames.plan import Features, FramePlan
from secvm.estimator.frames.quantise import Quantiser, is_sparse
from secvm.estimator.frames.words import features_of, is_text, vocabulary
from secvm.estimator.model import ModelFile
from secvm.learning._kernels.dispatch import kernels
from secvm.learning.individual.binning import Binning, HashBinning, VocabularyBinning
from secvm.learning.individual.dice import UnsafeSeededDice, sample_features
from secvm.learning.rows import MAX_UNITS, BinnedRows

BINNING_CONSTRAINTS: dict[str, list[Any]] = {
    "n_bins": [Interval(Integral, 1, None, closed="left"), None],
    "n_hashes": [Interval(Integral, 1, 16, closed="both")],
    "salt": [str, bytes, None],
    "values": [StrOptions({"auto", "counts", "presence", "one-per-bin"})],
    "features_per_person": [Interval(Integral, 1, None, closed="left"), None],
    "edges": [dict, None],
}


@dataclass(eq=False, repr=False)
class FeatureBinner(TransformerMixin, BaseEstimator):
    """Hash features into bins and add colliding values.

    Parameters
    ----------
    n_bins : int or None
        Number of bins; None leaves features unhashed.
    n_hashes : int
        Bins per feature.
    salt : str of hexadecimal digits, bytes or None
        The public randomness that fixes the hash; None draws it from ``dice_seed`` or ``random_state``.
    values : {"counts", "auto", "presence", "one-per-bin"}
        Counts take every feature as often as it is there, and numbers as levels; "auto" likewise, but numbers of arrays
        and data frames by their place between a few knots. Presence counts every feature that is there once;
        one-per-bin every bin, however many features are in it, and numbers are words of their intervals.
    features_per_person : int or None
        At most so many features of a person take part, drawn with seeded dice.
    edges : dict or None
        Column name to rising edges, or to a pair (low, high) that is cut into ten: its numbers become words like
        ``age=[30,40)``. Where every feature counts once, other columns of numbers have the edges 1, 1.5, 2, 3, … 9, 10,
        15, … on both sides of zero.
    dice_seed : bytes or None
        Seed of those dice.
    sparse_output : bool
        Whether ``transform`` gives a CSR matrix or an array. Data frames (``set_output``) are always dense.
    random_state : int, RandomState or None
        Where the salt comes from when neither salt nor dice_seed is given.

    Examples
    --------
    >>> from secvm.estimator import FeatureBinner
    >>> FeatureBinner(n_bins=4).fit_transform([["tea", "rain"], ["sea"]]).sum(axis=1).tolist()
    [[2], [1]]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BINNING_CONSTRAINTS,
        "dice_seed": [bytes, None],
        "sparse_output": ["boolean"],
        "random_state": ["random_state"],
    }

    n_bins: int | None = 1024
    _: KW_ONLY
    n_hashes: int = 1
    salt: str | bytes | None = None
    values: str = "counts"
    features_per_person: int | None = None
    edges: dict[Any, Any] | None = None
    dice_seed: bytes | None = None
    sparse_output: bool = True
    random_state: Any = None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the vocabulary (unhashed words) or the columns' levels (numbers)."""
        self._validate_params()
        self._learn(X, sample_weight)
        return self

    def transform(self, X: Any) -> Any:
        """The binned vectors, people x bins, without the bias."""
        rows = self.rows(X)
        shape = (len(rows), rows.n_bins)
        binned = sp.csr_matrix((rows.values.astype(np.int64), rows.bins, rows.indptr), shape=shape)
        frame = _get_output_config("transform", self)["dense"] != "default"
        return binned if self.sparse_output and not frame else binned.toarray()

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the bins: the words or columns themselves where unhashed, else bin0, bin1, …"""
        check_is_fitted(self, "binning_")
        if isinstance(self.binning_, VocabularyBinning):
            return np.array(self.binning_.words, dtype=object)
        return np.array([f"bin{i}" for i in range(self.binning_.n_bins)], dtype=object)

    def _learn(self, X: Any, sample_weight: Any = None) -> None:
        self.quantiser_: Quantiser | None = None
        self.frame_: FramePlan | None = None
        self.text_ = not is_frame(X) and is_text(X)
        if self.text_:
            people = [features_of(row) for row in X]
            counted = self._counted(sample_weight, np.empty((len(people), 1)))
            if counted is not None:
                people = [person for person, counts in zip(people, counted > 0, strict=True) if counts]
            self.binning_: Binning = self._hash() or VocabularyBinning(vocabulary(people))
        elif is_frame(X) and not holds_numbers_only(X):
            names = self._learn_frame(X, sample_weight).names
            self.n_features_in_ = len(names)
            self.feature_names_in_: Any = np.array(names, dtype=object)
        else:
            X = self._check(X, reset=True)
            if self._reads_columns and not is_sparse(X):
                self._learn_frame(self._named(X), sample_weight)
                return
            self.quantiser_ = Quantiser.learn(X, self._counted(sample_weight, X))
            names = self._column_names()
            self.binning_ = self._hash() or VocabularyBinning(tuple(names))
            self._columns = _columns(self.binning_, names)

    def _learn_frame(self, X: Any, sample_weight: Any) -> FramePlan:
        people = len(next(iter(X.values()), ())) if isinstance(X, Mapping) else len(X)
        counted = self._counted(sample_weight, np.empty((people, 1)))
        self.frame_ = plan = FramePlan.learn(
            X, counted, edges=self.edges, public=self.values in ("presence", "one-per-bin")
        )
        self.binning_ = self._hash() or plan.features(X).vocabulary(counted)
        return plan

    @property
    def _reads_columns(self) -> bool:
        """Whether columns of numbers are read one by one, rather than as levels or as there or not."""
        return self.values in ("auto", "one-per-bin") or bool(self.edges)

    @staticmethod
    def _counted(sample_weight: Any, X: Any) -> NDArray[np.float64] | None:
        """How much each person counts; None: all alike."""
        return None if sample_weight is None else _check_sample_weight(sample_weight, X, ensure_non_negative=True)

    def _named(self, X: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        return dict(zip(self._column_names(), X.T, strict=True))

    #: The estimator that a sentence is about.
    asked_by: ClassVar[str] = "FeatureBinner"

    @property
    def found_words(self) -> bool:
        """Whether the bins are words that people were found to have."""
        return isinstance(self.binning_, VocabularyBinning) and (self.text_ or self.frame_ is not None)

    def rows(self, X: Any, *, first_participant: int = 0, whole: bool = False) -> BinnedRows:
        """The binned vectors of these people. Participant numbers for the dice go on from ``first_participant``.

        ``whole`` takes all features of a person: what is only predicted is not sent, and must not depend on the number.
        """
        check_is_fitted(self, "binning_")
        if self.text_:
            if is_frame(X) or not is_text(X):
                raise BadInputError("this estimator was fitted on words; give lists of words or dicts of counts")
            return self._rows_of_text([features_of(row) for row in X], first_participant, whole=whole)
        if self.frame_ is not None:
            if not is_frame(X) or (self.frame_.of_numbers and holds_numbers_only(X)):
                if not self.frame_.of_numbers or is_text(X):
                    raise BadInputError("this estimator was fitted on a data frame; give one with the same columns")
                X = self._named(self._check(X, reset=False))
            return self._rows_of_features(self.frame_.features(X), first_participant, whole=whole)
        if not is_frame(X) and is_text(X):
            raise BadInputError("this estimator was fitted on columns; give an array, a data frame or a sparse matrix")
        checked = self._check(X, reset=False)
        if self.values in ("presence", "one-per-bin") or self.quantiser_ is None:
            levels = sp.csr_matrix(checked != 0, dtype=np.int64)  # a column is there or not: there are no levels
        else:
            levels = self.quantiser_.levels(checked)
        return self._rows_of_levels(levels, first_participant, whole=whole)

    def _rows_of_text(self, people: Sequence[Mapping[str, int]], first: int, *, whole: bool) -> BinnedRows:
        if self.features_per_person is not None and not whole:
            people = [
                sample_features(person, self.features_per_person, UnsafeSeededDice(self.dice_seed or b"", first + i))
                for i, person in enumerate(people)
            ]
        names = [name for person in people for name in person]
        values = np.array([value for person in people for value in person.values()], dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum([len(person) for person in people])]).astype(np.int64)
        return self._finish(starts, self._bins_of(names), values)

    def _rows_of_features(self, features: Features, first: int, *, whole: bool) -> BinnedRows:
        most = None if whole else self.features_per_person
        starts, ids, values = (
            part.astype(np.int64) for part in (features.counts.indptr, features.counts.indices, features.counts.data)
        )
        if most is not None and (np.diff(starts) > most).any():
            return self._rows_of_text(features.by_person(), first, whole=False)
        return self._finish(starts, self._bins_of(features.words)[ids], values)

    def _bins_of(self, words: list[str]) -> NDArray[np.int32]:
        """Bins of each word, words x hashes; -1 where a vocabulary does not have it."""
        if isinstance(self.binning_, HashBinning):
            return np.asarray(kernels().hash_strings(words, self.binning_.keys, self.binning_.n_bins))
        index = self.binning_.index
        return np.array([index.get(word, -1) for word in words], dtype=np.int32).reshape(-1, 1)

    def _rows_of_levels(self, levels: Any, first: int, *, whole: bool) -> BinnedRows:
        if self.features_per_person is not None and not whole:
            # A sample is drawn by the names of columns, as a device draws it among words.
            names, rows = self._column_names(), starmap(slice, pairwise(levels.indptr))
            named = [
                {names[j]: int(v) for j, v in zip(levels.indices[row], levels.data[row], strict=True)} for row in rows
            ]
            return self._rows_of_text(named, first, whole=False)
        starts, values = levels.indptr.astype(np.int64), levels.data.astype(np.int64)
        return self._finish(starts, self._columns[levels.indices], values)

    def _finish(self, starts: NDArray[np.int64], bins: NDArray[np.int32], values: NDArray[np.int64]) -> BinnedRows:
        """Presence, several hashes, unknown words; then colliding values add."""
        if self.values in ("presence", "one-per-bin"):
            if (values < 0).any():
                raise BadInputError("a feature has a negative value, which has no meaning as presence")
            values = (values != 0).astype(np.int64)
        if values.size and int(np.abs(values).max()) >= MAX_UNITS:
            raise BadInputError("a feature has a value that is too large to be split into packages")
        hashes = bins.shape[1]
        repeated = np.repeat(values, hashes)
        flat, offsets = bins.ravel(), starts * hashes
        if (flat < 0).any():
            known = flat >= 0
            kept = np.concatenate([[0], np.cumsum(known)])
            flat, repeated, offsets = flat[known], repeated[known], kept[offsets]
        rows = kernels().bin_rows(offsets, flat, repeated, self.binning_.n_bins)
        if self.values == "one-per-bin":
            rows = rows.present()
        if len(rows) and int(rows.units.max()) > MAX_UNITS:
            raise BadInputError("a person has too many units; sums would no longer be exact everywhere")
        return rows

    @classmethod
    def of_model(cls, model: ModelFile) -> FeatureBinner:
        """The fitted binner of a model file."""
        binning = model.binning
        hashed = binning if isinstance(binning, HashBinning) else None
        binner = cls(
            n_bins=hashed.n_bins if hashed else None,
            n_hashes=hashed.n_hashes if hashed else 1,
            salt=hashed.salt.hex() if hashed else None,
            values=model.values,
            features_per_person=model.experiment.features_per_person,
        )
        binner.binning_ = binning
        binner.quantiser_, binner.frame_ = model.quantiser, model.frame
        binner.text_ = model.quantiser is None and model.frame is None
        if model.columns:
            binner.feature_names_in_ = np.array(model.columns, dtype=object)
        if model.frame is not None:
            binner.n_features_in_ = len(model.frame.columns)
        if model.quantiser is not None:
            binner.n_features_in_ = len(model.quantiser.centre)
            binner._columns = _columns(binning, binner._column_names())
        return binner

    def _hash(self) -> HashBinning | None:
        if self.n_bins is None:
            return None
        try:
            salt = bytes.fromhex(self.salt) if isinstance(self.salt, str) else self.salt
            if salt is None:
                salt = salt_of(self.dice_seed or bytes(check_random_state(self.random_state).bytes(16)))
        except ValueError:
            raise BadInputError("the salt must be written in pairs of hexadecimal digits") from None
        if not salt:
            raise BadInputError("the salt must not be empty: an unsalted hash is a public dictionary")
        return HashBinning(n_bins=int(self.n_bins), salt=salt, n_hashes=int(self.n_hashes))

    def _check(self, X: Any, *, reset: bool) -> Any:
        if getattr(getattr(X, "dtype", None), "kind", "") in ("m", "M"):
            raise BadInputError("an array must hold numbers; give dates as a column of a data frame")
        texts = X.to_numpy() if hasattr(X, "to_numpy") and getattr(X, "ndim", 2) == 1 else X
        one_each = isinstance(texts, Sequence) or getattr(texts, "ndim", 2) == 1
        if isinstance(texts, str) or (one_each and any(isinstance(row, str) for row in texts)):
            raise BadInputError(
                "a person is a list of words or a dict of counts, not one text; "
                "give [text.split() for text in texts], or a data frame with texts as a column"
            )
        try:
            checked = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=reset)
        except ValueError as error:
            # numpy's sentence would show a person's word.
            if "could not convert string" not in str(error):
                raise type(error)(str(error).replace(type(self).__name__, self.asked_by)) from None
            raise BadInputError(
                "an array must hold numbers; give words as lists of words, or columns of text as a data frame"
            ) from None
        if self.values == "presence" or (self.values == "one-per-bin" and is_sparse(checked)):
            check_non_negative(checked, "presence, where a feature is there or not")
        if is_sparse(checked):
            # A copy where something is to be tidied: the arrays may be the caller's.
            untidy = not checked.has_canonical_format or not checked.data.all()
            checked = sp.csr_matrix(checked, copy=untidy)
            checked.sum_duplicates()
            checked.eliminate_zeros()
        return checked

    def _column_names(self) -> list[str]:
        named = getattr(self, "feature_names_in_", None)
        return [str(n) for n in named] if named is not None else [str(j) for j in range(self.n_features_in_)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = self.values == "presence"
        # Bins hold counts: integers, whatever came in.
        tags.transformer_tags.preserves_dtype = []
        return tags


def salt_of(seed: bytes) -> bytes:
    """The salt that follows from a seed, where nobody gave one."""
    return hashlib.blake2b(seed, digest_size=16, person=b"secvm-v1-salt\0\0\0").digest()


def _columns(binning: Binning, names: list[str]) -> NDArray[np.int32]:
    """Bins of each column, columns x hashes."""
    return np.array([binning.bins_of(name) for name in names], dtype=np.int32).reshape(len(names), -1)
