"""People as lists of words, or as dicts of integer counts: told apart from columns by the first row, and read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from secvm.errors import BadInputError
from secvm.learning.individual.binning import utf8


def is_text(X: Any) -> bool:
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


def features_of(row: Any) -> Mapping[str, int]:
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


def vocabulary(people: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """All words of these people, in the order of their UTF-8 bytes."""
    words = {word for person in people for word in person}
    return tuple(sorted(words, key=utf8))
