"""Whether what the vault holds is what an experiment asks for: features of its kind, of no more days than it says."""

from __future__ import annotations

from collections.abc import Mapping

from secvm.errors import BadInputError
from secvm.participant.sources import browsers
from secvm.participant.storage.vault import Provenance
from secvm.protocol.documents.experiment import FeaturesWanted


def check_agreed(
    wanted: FeaturesWanted, features: Mapping[str, int], reading: Provenance | None, *, source: str
) -> None:
    """Return if these features of the vault's ``source`` are of the kind and the time that was agreed to.

    Raises ``BadInputError`` in a sentence that names no feature. ``reading``: None for made-up people.
    """
    hosts = sum(1 for feature in features if feature.startswith("host:"))
    other = {browsers.TITLES.name: (hosts, "hosts"), browsers.HOSTS.name: (len(features) - hosts, "words of titles")}
    many, what = other.get(wanted.source, (0, ""))
    again = f"secvm participant import {wanted.source}"
    if wanted.days is not None:
        again += f" --days {wanted.days}"
    if many:
        raise BadInputError(
            f"the vault's source '{source}' has {what} too ({many:,}), and the experiment asks for '{wanted.source}'"
            " alone",
            next_step=f"Read it again: {again}",
        )
    if wanted.days is None or reading is None or (reading.days is not None and reading.days <= wanted.days):
        return
    looked = "everything that the source has" if reading.days is None else f"{reading.days:,} days"
    raise BadInputError(
        f"the experiment looks back {wanted.days:,} days, and the vault's source '{source}' holds {looked}",
        next_step=f"Read it again: {again}",
    )
