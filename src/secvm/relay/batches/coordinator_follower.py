"""Following coordinators: documents when a commitment is asked for, manifests when they are there (§27).

A relay asks only the coordinators of its own settings, and only for what they asked it to commit to: never at an
address that a device or a document names.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable

from secvm.errors import RemoteProtocolError, SecVMError
from secvm.relay.batches.experiments import Experiments
from secvm.relay.batches.ledger import RoundLedger
from secvm.relay.batches.round_custody import RoundPlan
from secvm.relay.refusals import RelayRefusalError
from secvm.runtime.http.messages import HttpResponse
from secvm.runtime.logs import Log

#: Gets what is at a URL; also that nobody answers is an answer.
Get = Callable[[str], Awaitable[HttpResponse]]


class CoordinatorFollower:
    """What coordinators publish, for one relay."""

    def __init__(
        self,
        experiments: Experiments,
        ledger: RoundLedger,
        *,
        get: Get,
        named: Callable[[RoundPlan], None],
        log: Log,
        poll_s: float,
    ) -> None:
        """``named``: told of every round that has a label now. ``poll_s``: between two looks for manifests."""
        self._experiments = experiments
        self._ledger = ledger
        self._get = get
        self._named = named
        self._log = log
        self._poll_s = poll_s
        self._asked = asyncio.Event()
        self._refused: set[tuple[str, int, bytes, bytes | None]] = set()
        self._one_at_a_time = asyncio.Lock()

    async def commit(self, coordinator: str, experiment: str, round_number: int) -> bytes:
        """Our commitment; the document is fetched first, where it is not known.

        Raises
        ------
        RemoteProtocolError
            The coordinator has no such document, or it is not served.
        """
        async with self._one_at_a_time:
            if self._experiments.document(experiment) is None:
                found = await self._get(f"{coordinator}/v2/experiment/{experiment}")
                if found.status != 200:
                    raise RelayRefusalError("the coordinator does not show the experiment", why="try-later")
                await asyncio.to_thread(self._experiments.add, experiment, coordinator, found.body)
                self._log.tell("experiment", state="served", experiment=experiment)
            if self._experiments.coordinator(experiment) != coordinator:
                raise RelayRefusalError("this experiment is another coordinator's", why="conflict")
            told = await asyncio.to_thread(self._experiments.commit, experiment, round_number)
        self._log.tell("step", stage="committed", round=round_number)
        self._asked.set()
        return told

    async def run(self) -> None:
        """Look for the manifests of rounds that we committed to, until cancelled."""
        while True:
            self._asked.clear()
            waiting = self._ledger.unnamed()
            for experiment, round_number in waiting:
                await self._look(experiment, round_number)
            if waiting:
                # The machine's time: it is the network that is waited for.
                await asyncio.sleep(self._poll_s)
            else:
                await self._asked.wait()

    async def _look(self, experiment: str, round_number: int) -> None:
        document = self._experiments.document(experiment)
        if document is None:
            return
        place = f"{self._experiments.coordinator(experiment)}/v2/experiment/{experiment}"
        found, proof = await self._get(f"{place}/manifest/{round_number}"), None
        if found.status == 200 and document.log is not None:
            shown = await self._get(f"{place}/proof/{round_number}")
            proof = shown.body if shown.status == 200 else None
        known = (experiment, round_number, found.body, proof)
        if found.status != 200 or known in self._refused:
            return
        try:
            plan = await asyncio.to_thread(self._experiments.name, experiment, found.body, proof)
        except RemoteProtocolError:
            self._refused.add(known)
            self._log.tell("manifest", state="refused", experiment=experiment, round=round_number)
        except (SecVMError, sqlite3.Error):
            self._log.tell("manifest", state="failed", experiment=experiment, round=round_number)
        else:
            self._log.tell("step", stage="named", round=round_number)
            self._named(plan)
