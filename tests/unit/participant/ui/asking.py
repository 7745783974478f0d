"""Requests to a page as they are on the wire, and a page around the small world of devices."""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from secvm.participant.consent.policies import Consent
from secvm.participant.device import DAILY_BYTES
from secvm.participant.dice import safe_dice
from secvm.participant.person.decisions import Way
from secvm.participant.trust.trust_policy import TrustPolicy
from secvm.participant.ui.desk import Desk
from secvm.participant.ui.guard import new_secret
from secvm.participant.ui.server import serve_page
from secvm.runtime.logs import Log
from tests.unit.participant.world import ANYTHING, World


@dataclass(frozen=True)
class Said:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Page:
    """A page that is being served, and its secret. It answers while somebody asks, in the loop that ``run`` is of."""

    port: int
    secret: str
    desk: Desk
    run: Callable[[Coroutine[Any, Any, Any]], Any]

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def ask(self, path: str = "", **request: Any) -> Said:
        """See ``asking``."""
        return cast("Said", self.run(self.asking(path, **request)))

    def act(self, action: str, said: object = None, **headers: str | None) -> Said:
        """See ``acting``."""
        return cast("Said", self.run(self.acting(action, said, **headers)))

    def state(self, answer: Said | None = None) -> Any:
        """All that the page shows, after an ``answer`` that was no refusal."""
        assert answer is None or answer.status == 200, answer.json
        return self.ask("api/state").json

    async def asking(
        self,
        path: str = "",
        *,
        method: str = "GET",
        target: str | None = None,
        headers: Mapping[str, str | None] | None = None,
        body: bytes = b"",
    ) -> Said:
        """A request below the secret, or for ``target`` as it stands. A header of None is left out."""
        told: dict[str, str | None] = {"Host": self.host, "Content-Length": str(len(body)), "Connection": "close"}
        lines = [f"{name}: {value}" for name, value in {**told, **(headers or {})}.items() if value is not None]
        request = f"{method} {f'/{self.secret}/{path}' if target is None else target} HTTP/1.1\r\n"
        head, _, content = (await self.saying((request + "\r\n".join(lines) + "\r\n\r\n").encode() + body)).partition(
            b"\r\n\r\n"
        )
        first, *fields = head.decode("latin-1").split("\r\n")
        found = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in fields)}
        return Said(int(first.split(" ")[1]), found, content)

    async def saying(self, data: bytes) -> bytes:
        """What comes back to these bytes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer

    async def acting(self, action: str, said: object = None, **headers: str | None) -> Said:
        """As the page's own script does it; ``headers`` change what it says, with _ for a hyphen."""
        told: dict[str, str | None] = {"Content-Type": "application/json", "Secvm-Page": "person"}
        told |= {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.asking(f"api/{action}", method="POST", headers=told, body=json.dumps(said or {}).encode())


def desk_of(world: World, *, consent: Consent = ANYTHING, with_way: bool = True) -> Desk:
    way = Way(world.net, TrustPolicy(without_log=True), safe_dice(os.urandom), consent)
    return Desk(
        world.folder,
        now=world.clock.now,
        consent=consent,
        daily_bytes=DAILY_BYTES,
        way=way if with_way else None,
    )


@contextmanager
def served(world: World, *, desk: Desk | None = None, log: io.StringIO | None = None) -> Iterator[Page]:
    """A page of this world's device, or of another desk."""
    secret, used = new_secret(os.urandom), desk or desk_of(world)
    told = None if log is None else Log(log, world.clock, party="participant")
    with asyncio.Runner() as runner:
        running = runner.run(serve_page("127.0.0.1:0", used, secret, log=told))
        try:
            yield Page(running.port, secret, used, runner.run)
        finally:
            runner.run(running.close())
