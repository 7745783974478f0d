"""What strangers send does not hold the page up: who wants to pause or to leave can do so at any time."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from secvm.errors import BadInputError
from secvm.participant.person import inspection
from secvm.participant.person.disclosure import what_leaves
from secvm.participant.storage.state import ExperimentRecord, Status
from secvm.participant.ui import desk as desk_module
from secvm.participant.ui.desk import Desk
from secvm.privacy.accounting.accountant import keep_patience
from secvm.protocol.documents.experiment import ExperimentDocument
from tests.unit.participant.ui.asking import Page, desk_of, served
from tests.unit.participant.world import World, real_document


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A device that has joined one experiment; its coordinator offers two others."""
    world = World(tmp_path)
    world.joined().close()
    for title in ("Monstrous", "Good"):
        world.serve(real_document(title=title))
    listed = ",".join(
        f'{{"digest":"{path.removeprefix("/v1/experiment/")}","standing":"running","title":"x"}}'
        for path in world.net.files
        if path.startswith("/v1/experiment/") and path.count("/") == 3
    )
    world.net.files["/v1/experiments"] = f'{{"experiments":[{listed}]}}'.encode()
    return world


def test_repro_a_relay_that_does_not_answer_kept_a_person_from_leaving(
    world: World, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        asked, never = asyncio.Event(), asyncio.Event()

        async def fetch(_path: str, *_more: Any, **_others: Any) -> None:
            asked.set()
            await never.wait()

        monkeypatch.setattr(world.net, "fetch", fetch)
        finding = asyncio.ensure_future(page.acting("find"))
        async with asyncio.timeout(30):
            await asked.wait()
            assert (await page.asking("api/state")).status == 200
            assert (await page.acting("pause", {"digest": world.of.digest})).status == 200
            assert (await page.acting("forget", {"digest": world.of.digest})).status == 200
            assert not finding.done()
            never.set()
            await finding

    page.run(scenario())


def test_repro_a_document_that_cannot_be_reckoned_took_the_whole_page_with_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reckoned(document: ExperimentDocument, *_told: object) -> list[str]:
        while document.title == "Monstrous":
            keep_patience()
        return ["fine"]

    monkeypatch.setattr(desk_module, "what_leaves", reckoned)
    moments = iter(range(0, 10**9, 10_000))
    desk = desk_of(world)
    monkeypatch.setattr(desk, "_steady", lambda: next(moments))
    with served(world, desk=desk) as page:
        offers = page.state(page.act("find"))["offers"]
    assert [one["title"] for one in offers["list"]] == ["Good"]
    assert "cannot calculate" in offers["problem"]["text"]


def test_repro_statements_of_strangers_were_made_anew_at_every_look(
    world: World, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    before = what_leaves

    def counted(document: ExperimentDocument, *told: Any) -> list[str]:
        made.append(document.title)
        return before(document, *told)

    monkeypatch.setattr(desk_module, "what_leaves", counted)
    page.act("find")
    offers, *again = (page.state()["offers"]["list"] for _ in range(3))
    assert again == [offers, offers]
    assert len(offers) == 2
    assert all(one["short"] and one["leaves"] for one in offers)
    assert sorted(made) == sorted([*(one["title"] for one in offers), world.of.title])


def test_no_more_offers_are_kept_than_are_shown(world: World, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secvm.participant.ui.offers.MOST_OFFERS", 1)
    for path in list(world.net.files):
        if path.startswith("/v1/experiment/") and path.count("/") == 3:
            page.act("find", {"digest": path.removeprefix("/v1/experiment/")})
    assert len(page.state()["offers"]["list"]) <= 1


def test_repro_what_was_declined_was_reckoned_with_at_every_look(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[Status] = []
    before = inspection._inspect_one

    def counted(state: Any, record: ExperimentRecord, *more: Any) -> Any:
        looked_at.append(record.status)
        return before(state, record, *more)

    monkeypatch.setattr(inspection, "_inspect_one", counted)
    (offer, *_) = page.state(page.act("find"))["offers"]["list"]
    assert len(page.state(page.act("decline", {"digest": offer["digest"]}))["declined"]) == 1
    assert Status.DECLINED not in looked_at


async def test_a_desk_refuses_what_it_cannot_reckon_in_one_sentence(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*_told: object) -> list[str]:
        raise OverflowError

    monkeypatch.setattr(desk_module, "in_short", wrong)
    desk: Desk = desk_of(world)

    with pytest.raises(BadInputError, match="cannot be calculated"):
        await desk._reckon(world.of)
