"""FeatureBinner: whatever a scikit-learn user holds → people's binned vectors.

Three kinds of input, told apart by the first row:

- token lists: each row a list of words, a word's value is how often it occurs;
- dicts: each row a mapping of feature to integer value;
- arrays, data frames and scipy sparse matrices: a column is a feature, named by its column name or its decimal index;
  real values become integer levels (``quantise.py``).

``n_bins=None`` leaves features unhashed: columns are bins, or the vocabulary seen by ``fit`` is, in the order of its
UTF-8 bytes; words it has not seen are dropped later.
"""

from __future__ import annotations

import hashlib
from collections import Counter
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
from secvm.estimator.model import ModelFile
from secvm.estimator.quantise import Quantiser, is_sparse
from secvm.learning._kernels.dispatch import kernels
from secvm.learning.individual.binning import Binning, HashBinning, VocabularyBinning, utf8
from secvm.learning.individual.dice import UnsafeSeededDice, sample_features
from secvm.learning.rows import MAX_UNITS, BinnedRows

BINNING_CONSTRAINTS: dict[str, list[Any]] = {
    "n_bins": [Interval(Integral, 1, None, closed="left"), None],
    "n_hashes": [Interval(Integral, 1, 16, closed="both")],
    "salt": [str, bytes, None],
    "values": [StrOptions({"counts", "presence", "one-per-bin"})],
    "features_per_person": [Interval(Integral, 1, None, closed="left"), None],
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
    values : {"counts", "presence", "one-per-bin"}
        Presence counts every feature that is there once; one-per-bin every bin, however many features are in it.
    features_per_person : int or None
        At most so many features of a person take part, drawn with seeded dice.
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
        if _is_text(X):
            self.text_ = True
            people = [_features_of(row) for row in X]
            if sample_weight is not None:
                weight = _check_sample_weight(sample_weight, np.empty((len(people), 1)), ensure_non_negative=True)
                people = [person for person, counts in zip(people, weight > 0, strict=True) if counts]
            self.binning_: Binning = self._hash() or VocabularyBinning(_vocabulary(people))
            return
        self.text_ = False
        X = self._check(X, reset=True)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        self.quantiser_ = Quantiser.learn(X, weight)
        names = self._column_names()
        self.binning_ = self._hash() or VocabularyBinning(tuple(names))
        self._columns = _columns(self.binning_, names)

    def rows(self, X: Any, *, first_participant: int = 0, whole: bool = False) -> BinnedRows:
        """The binned vectors of these people. Participant numbers for the dice go on from ``first_participant``.

        ``whole`` takes all features of a person: what is only predicted is not sent, and must not depend on the number.
        """
        check_is_fitted(self, "binning_")
        if self.text_:
            if not _is_text(X):
                raise BadInputError("this estimator was fitted on words; give lists of words or dicts of counts")
            return self._rows_of_text([_features_of(row) for row in X], first_participant, whole=whole)
        if _is_text(X):
            raise BadInputError("this estimator was fitted on columns; give an array, a data frame or a sparse matrix")
        checked = self._check(X, reset=False)
        if self.values != "counts" or self.quantiser_ is None:
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
        if isinstance(self.binning_, HashBinning):
            bins = kernels().hash_strings(names, self.binning_.keys, self.binning_.n_bins)
        else:
            index = self.binning_.index
            bins = np.array([index.get(name, -1) for name in names], dtype=np.int32).reshape(-1, 1)
        return self._finish(starts, bins, values)

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
        if self.values != "counts":
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
        binner.quantiser_ = model.quantiser
        binner.text_ = model.quantiser is None
        if model.quantiser is not None:
            binner.n_features_in_ = len(model.quantiser.centre)
            if model.columns:
                binner.feature_names_in_ = np.array(model.columns, dtype=object)
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
        if isinstance(X, Sequence) and any(isinstance(row, str) for row in X):
            raise BadInputError("a person is a list of words or a dict of counts, not one text")
        try:
            checked = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=reset)
        except ValueError as error:
            # numpy's sentence would show a person's word.
            if "could not convert string" not in str(error):
                raise
            raise BadInputError("columns must hold numbers; give words as lists of words") from None
        if self.values != "counts":
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
        tags.input_tags.positive_only = self.values != "counts"
        # Bins hold counts: integers, whatever came in.
        tags.transformer_tags.preserves_dtype = []
        return tags


def salt_of(seed: bytes) -> bytes:
    """The salt that follows from a seed, where nobody gave one."""
    return hashlib.blake2b(seed, digest_size=16, person=b"secvm-v1-salt\0\0\0").digest()


def _is_text(X: Any) -> bool:
    """Whether rows are lists of words or dicts of counts (rather than numbers)."""
    if sp.issparse(X) or getattr(X, "ndim", 1) != 1:
        return False
    if hasattr(X, "to_numpy"):  # a column of a data frame
        X = X.to_numpy()
    if not isinstance(X, Sequence | np.ndarray) or isinstance(X, str) or len(X) == 0:
        return False
    for row in X:
        if isinstance(row, Mapping | set | frozenset):
            return True
        if not isinstance(row, list | tuple):
            return False
        if len(row):
            return isinstance(row[0], str)
    # Only empty rows: people without features.
    return all(isinstance(row, list | tuple) for row in X)


def _features_of(row: Any) -> Mapping[str, int]:
    """One row as feature to integer value; zero values fall away."""
    if isinstance(row, Mapping):
        for name, value in row.items():
            if not isinstance(name, str) or isinstance(value, bool) or not isinstance(value, Integral):
                raise BadInputError("a dict of counts must map text to integers")
        return {name: int(value) for name, value in row.items() if value}
    if not isinstance(row, list | tuple | set | frozenset):
        raise BadInputError("every person must be a list of words or a dict of counts")
    if not all(isinstance(word, str) for word in row):
        raise BadInputError("a list of words must hold text only")
    return Counter(row)


def _vocabulary(people: Sequence[Mapping[str, int]]) -> tuple[str, ...]:
    words = {word for person in people for word in person}
    return tuple(sorted(words, key=utf8))


def _columns(binning: Binning, names: list[str]) -> NDArray[np.int32]:
    """Bins of each column, columns x hashes."""
    return np.array([binning.bins_of(name) for name in names], dtype=np.int32).reshape(len(names), -1)
