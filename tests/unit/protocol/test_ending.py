"""Endings: believed like manifests, and never written so that they would not be."""

from dataclasses import replace
from typing import Any

import pytest

from secvm.errors import InconsistentManifestError, LocalProtocolError
from secvm.protocol.documents.ending import Ending, Why, accept_ending, make_ending
from secvm.protocol.documents.manifest import AcceptedManifest, RelayCount, RoundManifest, accept, last_round
from tests.unit.protocol.helpers import COORDINATOR, RELAY, document, ended, manifests, names_of_model, served, tally

OF = document()
MANIFESTS = manifests(3, OF)


def ending(after: RoundManifest | None = MANIFESTS[1], **changes: Any) -> Ending:
    told: dict[str, Any] = {
        "why": Why.FINISHED,
        "model": names_of_model(0),
        "before": after,
        "last": None if after is None else ended(after, OF),
    }
    return make_ending(changes.pop("of", OF), **{**told, **changes})


def accepted(count: int) -> AcceptedManifest:
    return accept(served(MANIFESTS[count - 1]), document=OF)


@pytest.mark.parametrize("after", [None, *MANIFESTS])
@pytest.mark.parametrize("why", list(Why))
def test_an_ending_survives_its_bytes(after: RoundManifest | None, why: Why) -> None:
    made = ending(after, why=why)
    assert Ending.from_bytes(made.data) == made
    assert accept_ending(made.signed([COORDINATOR]), document=OF) == made


def test_repro_ending_without_the_count_of_the_relay_that_makes_one_is_refused() -> None:
    (before,) = manifests(1, OF)
    count = RelayCount(before.opens_at, clients=4, capsules=20).signed(RELAY)
    made = ending(before, last=last_round(tally(2, 2), relay_count=count))
    assert accept_ending(made.signed([COORDINATOR]), document=OF) == made
    withheld = replace(made, last=last_round(tally(2, 2)))
    with pytest.raises(InconsistentManifestError, match="no relay's count"):
        accept_ending(withheld.signed([COORDINATOR]), document=OF)
    with pytest.raises(LocalProtocolError, match="no relay's count"):
        ending(before, last=last_round(tally(2, 2)))


def test_an_ending_is_believed_after_its_round_and_rounds_before_it_and_not_once_a_later_one_was() -> None:
    data = ending().signed([COORDINATOR])
    assert [accept_ending(data, document=OF, last=accepted(count)) for count in (1, 2)] == [ending()] * 2
    with pytest.raises(InconsistentManifestError, match="there was a round after it") as caught:
        accept_ending(data, document=OF, last=accepted(3))
    assert caught.value.evidence == (served(MANIFESTS[2]), data)


def test_what_a_device_would_refuse_cannot_be_made() -> None:
    with pytest.raises(LocalProtocolError, match="below the floor"):
        ending(last=last_round(tally(1, 1)))
    with pytest.raises(LocalProtocolError, match="labels"):
        ending(last=replace(last_round(tally(2, 2)), participants=(5,), cells=((5,),)))
    with pytest.raises(LocalProtocolError, match="abandoned round changed the state"):
        ending(last=last_round(None))
    with pytest.raises(LocalProtocolError, match="cannot be published"):
        ending(last=None, model=names_of_model(2))
