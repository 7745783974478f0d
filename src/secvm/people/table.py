"""People: a whole file as rows of bins with label codes, and the names behind the codes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadPeopleFileError
from secvm.learning.individual.binning import Binning
from secvm.learning.rows import BinnedRows
from secvm.people.person import label_number


@dataclass(frozen=True, eq=False, repr=False)
class People:
    """The people of a file, in its order. Secret: it does not print itself."""

    rows: BinnedRows
    #: Each label once: in numeric order where all are numbers, else in the order of their text.
    label_names: tuple[str, ...]
    #: int32, the place of each person's label in ``label_names``; -1 where a person has none.
    label_codes: NDArray[np.int32]
    #: The binning asked for, or the vocabulary that was found.
    binning: Binning
    #: Distinct features seen, where they were counted.
    n_features: int | None

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"People(<{len(self)} people>)"

    @property
    def label_texts(self) -> list[str | None]:
        """Each person's label."""
        return [self.label_names[code] if code >= 0 else None for code in self.label_codes.tolist()]

    def numeric_labels(self) -> NDArray[np.float64]:
        """Each person's label as a number, for regression."""
        if np.any(self.label_codes < 0):
            raise BadPeopleFileError("regression needs a label for every person, and one has none")
        numbers = [label_number(name) for name in self.label_names]
        if None in numbers:
            raise BadPeopleFileError("regression needs numbers as labels, and one label is not a number")
        return np.array(numbers, dtype=np.float64)[self.label_codes]


def in_order(labels: Iterable[str]) -> list[str]:
    """Labels in numeric order where all are numbers, else in the order of their text."""
    labels = list(labels)
    numbers = [label_number(label) for label in labels]
    if None in numbers:
        return sorted(labels)
    return [label for _, label in sorted(zip(numbers, labels, strict=True))]


class LabelCodes:
    """Numbers labels as they come, and renumbers them in order at the end."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def code(self, label: str | None) -> int:
        """The preliminary code of a label."""
        return -1 if label is None else self._codes.setdefault(label, len(self._codes))

    def finish(self, codes: NDArray[np.int32]) -> tuple[tuple[str, ...], NDArray[np.int32]]:
        """The names in order, and the codes that go with them."""
        names = in_order(self._codes)
        # One more place at the end, where the code -1 finds itself.
        final = np.full(len(names) + 1, -1, dtype=np.int32)
        for code, name in enumerate(names):
            final[self._codes[name]] = code
        return tuple(names), final[codes]
