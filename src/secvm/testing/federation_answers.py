"""What the processes of a federation answer, asked from outside: public files, health, hosts' counts, and logs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any

from secvm.errors import BadInputError, UnreachableError
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.relay.setting_up import RELAY_PATH
from secvm.runtime.http.client import HttpAnswer, ask_once
from secvm.testing.federation_settings import COORDINATOR, DASHBOARD, RELAY, FederationSettings, cover_seeds
from secvm.testing.processes import Children

START_PATIENCE_S = 60.0
_NAP_S = 0.05
_REQUEST_PATIENCE_S = 10.0
_MOST_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class HostCounts:
    """What the hosts say about a round, all together."""

    joined: int = 0
    waiting: int = 0
    acknowledged: int = 0
    lost: int = 0


class FederationAnswers(FederationSettings):
    """The doors of a federation's processes, as whoever watches it knows them."""

    document: ExperimentDocument | None
    children: Children
    host_names: list[str]
    _dashboard: bool
    #: What the hosts said last, so that one that is away does not take back what it had.
    _last_counts: dict[tuple[str, int], HostCounts]

    def look_after(self) -> bool:
        """Raise where a process has ended by itself; whether all that processes need is there."""
        self.children.check()
        return True

    @property
    def cover_seeds(self) -> tuple[str, str]:
        """What the two relays draw their cover from, the entry relay first."""
        return cover_seeds(self.seed)

    @property
    def coordinator_url(self) -> str:
        """Where everybody reads what is public."""
        return f"http://127.0.0.1:{self._ports[COORDINATOR]}"

    @property
    def relay_url(self) -> str:
        """Where devices reach the first relay."""
        return self.url(self.relay_names[0]) + RELAY_PATH

    @property
    def page_url(self) -> str:
        """Where the operator's page is."""
        if not self._dashboard:
            raise BadInputError("there is no operator's page: begin the federation with dashboard=True")
        return f"http://{self.address(DASHBOARD)}:{self._ports[DASHBOARD]}/"

    @property
    def digest(self) -> str:
        assert self.document is not None
        return self.document.digest

    def ask(
        self,
        name: str,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        admin: bool = False,
        patience_s: float = _REQUEST_PATIENCE_S,
    ) -> bytes:
        """What a process answers; ``OSError`` where it does not, or not with a success."""
        headers = {"authorization": f"Bearer {self.admin_key}"} if admin else {}
        url = f"http://{self.address(name)}:{self._ports[name]}{path}"
        # An experiment's cover is planned while the operator waits.
        answer_s = START_PATIENCE_S if admin else patience_s

        def question() -> HttpAnswer:
            asked = ask_once(url, answer_s=answer_s, most=_MOST_BYTES, method=method, headers=headers, body=body)
            return asyncio.run(asked)

        try:
            # In a thread of its own: a notebook, or a browser's driver, has an event loop running in this one.
            with ThreadPoolExecutor(1) as thread:
                answer = thread.submit(question).result()
        except UnreachableError as fault:
            raise OSError(f"{name} does not answer: {fault}") from fault
        if answer.status >= 300:
            words = _reason(answer.content)
            raise OSError(f"{name} answered {answer.status} to {method} {path}: {words}")
        return answer.content

    def healthy(self, name: str) -> bool:
        """Whether a process answers."""
        self.children.check()
        return self.answer(name, "/api/now" if name == DASHBOARD else "/health") is not None

    def answer(self, name: str, path: str) -> bytes | None:
        """What a process has at this path, or none."""
        with contextlib.suppress(OSError):
            return self.ask(name, "GET", path)
        return None

    def public(self, path: str) -> bytes | None:
        """A public file of the coordinator, or none."""
        return self.answer(COORDINATOR, path)

    def counts(self, number: int) -> HostCounts:
        """What all hosts say about a round. Of one that does not answer, what it said last."""
        names = [field.name for field in fields(HostCounts)]
        for name in self.host_names:
            status = self.answer(name, "/status")
            if status is not None:
                row = json.loads(status).get(self.digest, {}).get("rounds", {}).get(str(number), {})
                self._last_counts[name, number] = HostCounts(**{key: row.get(key, 0) for key in names})
        last = [self._last_counts.get((name, number), HostCounts()) for name in self.host_names]
        return HostCounts(**{key: sum(getattr(counts, key) for counts in last) for key in names})

    def status(self) -> list[dict[str, Any]]:
        """What each host that answers says of the experiment: devices, those that ended, canaries to be looked for."""
        answers = [self.answer(name, "/status") for name in self.host_names]
        known = [json.loads(answer) for answer in answers if answer is not None]
        return [status[self.digest] for status in known if self.digest in status]

    def arrived(self) -> int | None:
        """Capsules that came to the relay since it started; None where it does not answer, and of two relays."""
        if self.covered or (page := self.answer(RELAY, "/metrics")) is None:
            return None
        count = re.search(rb'^secvm_relay_requests_total\{door="capsule"\} ([0-9.e+]+)', page, re.MULTILINE)
        return int(float(count[1])) if count else 0

    def deposited(self, epoch: int) -> bool:
        """Whether the relay has nothing left of this epoch."""
        page = self.answer(RELAY, "/metrics") or b""
        gauges = dict(
            re.findall(rb"^secvm_relay_(deposits_waiting|last_sealed_epoch) ([0-9.e+-]+)$", page, re.MULTILINE)
        )
        sealed = float(gauges.get(b"last_sealed_epoch", "-inf")) >= epoch
        return sealed and float(gauges.get(b"deposits_waiting", "1")) == 0

    def events(self, name: str, event: str, **wanted: object) -> list[dict[str, Any]]:
        """Lines of a process's log, from all its lives, that tell of this event with these fields."""
        lines: list[dict[str, Any]] = []
        with contextlib.suppress(OSError):
            for line in self.children.log(name).read_bytes().splitlines():
                with contextlib.suppress(ValueError):
                    content = json.loads(line)
                    if isinstance(content, dict) and content.get("event") == event:
                        lines.append(content)
        return [line for line in lines if all(line.get(key) == value for key, value in wanted.items())]

    def following(self, number: int) -> bytes | None:
        """The manifest after this round, or the ending; as it is served."""
        self.look_after()
        path = f"/v1/experiment/{self.digest}"
        return self.public(f"{path}/manifest/{number + 1}") or self.public(f"{path}/ending")

    def ended(self, number: int) -> bool:
        """Whether this round, after which something is public, was the experiment's last."""
        return self.public(f"/v1/experiment/{self.digest}/manifest/{number + 1}") is None

    def patiently(self, get: Callable[[], bytes | None], what: str, *, nap_s: float = _NAP_S) -> bytes:
        """What ``get`` returns once it returns something: a process may just be coming up."""
        answers: list[bytes] = []

        def there() -> bool:
            answers[:] = [answer for answer in [get()] if answer is not None]
            return bool(answers)

        self._await(there, what, nap_s=nap_s)
        return answers[0]

    def _await(
        self, there: Callable[[], bool], what: str, patience_s: float = START_PATIENCE_S, nap_s: float = _NAP_S
    ) -> None:
        deadline = time.monotonic() + patience_s
        while not there():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited in vain for {what}")
            time.sleep(nap_s)


def _reason(content: bytes) -> str:
    """Why somebody refuses: the sentence of an answer in JSON, or how the answer begins."""
    with contextlib.suppress(ValueError, LookupError, TypeError):
        return str(json.loads(content)["detail"])
    return content[:300].decode(errors="replace")
