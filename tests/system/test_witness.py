"""The real process, killed in mid-request: after each restart it refuses what would fork what it cosigned."""

import asyncio
import json
import re
import shlex
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from secvm.cli.main import run
from secvm.protocol.log.checkpoints import Checkpoint
from secvm.witness.settings import PORT
from tests.conftest import ROOT
from tests.system.parties import Party, party, secvm
from tests.unit.relay.helpers import ask
from tests.unit.witness.worlds import COMMON, FACES, MOST, Place, another, are_a_chain, checkpoint, request

ORIGINS = 8
#: After so many cosignatures of one life the process is killed, with other requests under way.
KILLS = (1, 3, 17, 2, 9)


def life(settings: Path) -> AbstractContextManager[Party]:
    """One life of the process."""
    return party("witness", "serve", "--config", str(settings))


async def seen(port: int) -> dict[str, int]:
    page = json.loads((await ask(port, "GET", "/v1/seen")).body)
    return {one["origin"]: one["size"] for one in page["seen"]}


async def press(place: Place, witness: Party, found: list[Checkpoint], *, until: int) -> None:
    """Both faces of the log ask for every origin, all at once, and go on from where they are; until it is killed."""
    begun, port = len(found), witness.port
    enough = asyncio.Event()

    async def one_face(face: str, origin: str) -> None:
        old = 0
        for _ in range(200):
            body = request(face, old, min(old + 2, MOST) if old < MOST else old, origin=origin)
            answer = await ask(port, "POST", "/add-checkpoint", body)
            if answer.status == 200:
                new = place.cosigned(answer, body).checkpoint
                found.append(new)
                old = new.size
                if len(found) - begun >= until:
                    enough.set()
            else:
                assert answer.status in {409, 422}
                old = int(answer.body) if answer.status == 409 else 0

    tasks = [asyncio.ensure_future(one_face(face, another(i))) for i in range(ORIGINS) for face in "ab"]
    signals = asyncio.ensure_future(enough.wait())
    await asyncio.wait([signals, *tasks], return_when=asyncio.FIRST_COMPLETED)
    assert signals.done()
    witness.kill()
    for ending in await asyncio.gather(*tasks, return_exceptions=True):
        # Whoever was not answered saw the connection end, and nothing else.
        assert isinstance(ending, OSError | EOFError), ending


def test_killed_in_the_middle_it_never_tells_two_histories(tmp_path: Path) -> None:
    async def main() -> None:
        place = Place(tmp_path)
        settings = place.settings_file()
        found: list[Checkpoint] = []
        for kill_after in KILLS:
            with life(settings) as witness:
                remembered = await seen(witness.port)
                for one in found:
                    assert remembered[one.origin] >= one.size
                await press(place, witness, found, until=kill_after)
        with life(settings) as witness:
            remembered = await seen(witness.port)
            for origin in {one.origin for one in found}:
                mine = [one for one in found if one.origin == origin]
                assert are_a_chain(mine)
                newest = max(mine, key=lambda one: one.size)
                if newest.size > COMMON and remembered[origin] == newest.size:
                    other = next(face for face in FACES if checkpoint(face, newest.size, origin) != newest)
                    body = request(other, newest.size, newest.size, origin=origin)
                    refused = await ask(witness.port, "POST", "/add-checkpoint", body)
                    assert refused.status == 422
            assert any(one.size > COMMON for one in found)
            witness.stop()
        assert len(found) >= sum(KILLS)

    asyncio.run(main())


def test_commands_of_the_how_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs/how-to/run-a-witness.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    init, key, serve, look = [shlex.split(line) for line in "".join(blocks).splitlines()]
    monkeypatch.chdir(tmp_path)
    for program, *arguments in (init, key):
        assert program == "./secvm"
        assert run(arguments) == 0
    *labelled, vkey = capsys.readouterr().out.splitlines()
    assert f"key       {vkey}   (public)" in labelled
    assert serve[:4] == ["./secvm", "witness", "serve", "--config"]
    settings = tmp_path / serve[4]
    # A free port; the page has the default, which the settings do not name.
    settings.write_text(settings.read_text(encoding="utf-8") + "\n[listen]\nport = 0\n", encoding="utf-8")
    assert look == ["curl", f"http://127.0.0.1:{PORT}/v1/seen"]

    async def main() -> None:
        with life(settings) as witness:
            answer = await ask(witness.port, "GET", "/v1/seen")
            assert json.loads(answer.body) == {"witness": vkey, "seen": [], "forks": []}

    asyncio.run(main())


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    settings = Place(tmp_path).settings_file()
    with life(settings) as witness:
        assert witness.port
        second = secvm("witness", "serve", "--config", settings)
    assert second.returncode == 2
    assert "another process runs this witness already" in second.stderr
