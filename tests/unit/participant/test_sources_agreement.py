"""What lies in the vault is held to what an experiment asked for, before anything of it is drawn."""

import pytest

from secvm.errors import BadInputError
from secvm.participant.sources.agreement import check_agreed
from secvm.participant.storage.vault import Provenance
from secvm.protocol.documents.experiment import FeaturesWanted

WORDS, HOSTS = {"quokka": 1, "numbat": 2}, {"host:example.org": 1}


def check(source: str, features: dict[str, int], *, wanted: int | None = None, read: int | None = 30) -> None:
    reading = Provenance("history-titles", 0, read)
    check_agreed(FeaturesWanted(source, "Words.", days=wanted), features, reading, source="mine")


@pytest.mark.parametrize(
    ("source", "features"),
    [("history-titles", WORDS), ("history-hosts", HOSTS), ("history", WORDS | HOSTS), ("diary", WORDS | HOSTS)],
)
def test_what_was_asked_for_passes(source: str, features: dict[str, int]) -> None:
    check(source, features)
    check(source, features, wanted=30)
    check_agreed(FeaturesWanted(source, "Words.", days=1), features, None, source="made-up people")


@pytest.mark.parametrize(
    ("source", "what"), [("history-titles", "hosts too (1)"), ("history-hosts", "words of titles too (2)")]
)
def test_more_than_the_experiment_asks_for_is_refused(source: str, what: str) -> None:
    with pytest.raises(BadInputError) as caught:
        check(source, WORDS | HOSTS, wanted=30)
    assert str(caught.value) == f"the vault's source 'mine' has {what}, and the experiment asks for '{source}' alone"
    assert caught.value.next_step == f"Read it again: secvm participant import {source} --days 30"


@pytest.mark.parametrize(("read", "holds"), [(31, "31 days"), (None, "everything that the source has")])
def test_more_days_than_the_experiment_asks_for_are_refused(read: int | None, holds: str) -> None:
    with pytest.raises(BadInputError) as caught:
        check("history-titles", WORDS, wanted=30, read=read)
    assert str(caught.value) == f"the experiment looks back 30 days, and the vault's source 'mine' holds {holds}"
