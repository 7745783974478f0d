"""The desk behind the page: looks things up and carries out what the person clicks, by the functions of the commands.

State and vault are opened for each request and closed after it, so that nothing is kept from a process that runs the
device or from a command. Requests wait for each other. What takes time, a large vault or the numbers of a guarantee, is
done on a thread, so the page goes on answering. Nobody waits for the network, or for what a stranger's document asks to
be reckoned: who wants to pause or to leave can do so meanwhile.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from secvm.errors import BadInputError
from secvm.participant.consent.policies import Consent
from secvm.participant.invitation import invitations
from secvm.participant.person import decisions
from secvm.participant.person.decisions import Way
from secvm.participant.person.disclosure import figures, in_short, what_leaves
from secvm.participant.person.pinning import Prediction, fetch_salt, predict_for
from secvm.participant.sources.browsers import HISTORIES, profiles
from secvm.participant.sources.pages import as_excluded
from secvm.participant.sources.port import Options
from secvm.participant.sources.registry import find_source, import_from
from secvm.participant.storage.books import Accepted
from secvm.participant.storage.device_lock import DeviceLock
from secvm.participant.storage.state import DeviceState, ExperimentRecord, Status
from secvm.participant.storage.vault import FILE as VAULT_FILE
from secvm.participant.storage.vault import LOCKED_FILE, Vault
from secvm.participant.trust.evidence import Held, choose_one, evidence_of
from secvm.participant.trust.trust_policy import TrustPolicy
from secvm.participant.ui.offers import Meaning, Offer, Offers, UnreckonedError, is_digest, offers_view
from secvm.participant.ui.view import VaultLook, contents, view
from secvm.privacy.accounting.accountant import patience, until
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.runtime.disk.process_lock import is_carried

_DAY_MS = 86_400_000
#: Of a person's features so many are shown as examples.
MOST_EXAMPLES = 200
#: Nobody means an experiment whose guarantee takes longer.
PATIENCE_S = 60.0

Answer = TypeVar("Answer")
Asked = ParamSpec("Asked")


def in_turn(
    work: Callable[Concatenate[Desk, Asked], Answer],
) -> Callable[Concatenate[Desk, Asked], Coroutine[Any, Any, Answer]]:
    """Carry this out on a thread, when nobody else's turn is."""

    @functools.wraps(work)
    async def taken(desk: Desk, /, *given: Asked.args, **named: Asked.kwargs) -> Answer:
        async with desk._turn:  # noqa: SLF001  (a desk's own)
            return await asyncio.to_thread(work, desk, *given, **named)

    return taken


class Desk:
    """One device, for its person. It does not print itself."""

    def __init__(
        self,
        folder: Path,
        *,
        now: Callable[[], int],
        consent: Consent,
        daily_bytes: int,
        lock: DeviceLock | None = None,
        way: Way | None = None,
        steady: Callable[[], int] | None = None,
    ) -> None:
        """``way``: None where no settings were given; then nothing can be looked for, nor joined. ``steady``:
        milliseconds of a clock that nobody sets, by which reckonings are given up; None: they are not.
        """
        self._steady = steady
        self._folder, self._now, self._consent, self._daily = folder, now, consent, daily_bytes
        self._lock, self._way = lock, way
        self._offers = Offers()
        self._turn = asyncio.Lock()
        #: Of those who ask others; they do not hold up the rest.
        self._asking = asyncio.Lock()
        self._vault_look: tuple[object, VaultLook] | None = None
        self._answered: frozenset[str] = frozenset()
        self._held: tuple[bytes, list[Held]] = (b"", [])

    def __repr__(self) -> str:
        return "Desk(...)"

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @in_turn
    def look(self) -> dict[str, Any]:
        """All that the page shows."""
        with self._state() as state:
            here = tuple(profile.name for profile in profiles(Path.home()))
            vault = replace(self._look_at_vault(), profiles=here)
            shown = view(
                state,
                vault,
                self._evidence(state),
                now=self._now(),
                consent=self._consent,
                daily_bytes=self._daily,
                runs=is_carried(self._folder),
                policy=self._policy,
            )
            return {**shown, "offers": offers_view(self._offers, state, vault, self._way, answered=self._answered)}

    @in_turn
    def examples(self, source: str) -> list[tuple[str, int]]:
        """Some of the person's own features of a source, those that weigh most. Only ever on their own screen."""
        with self._vault() as vault:
            features = vault.features(source).value
        return sorted(features.items(), key=lambda item: (-abs(item[1]), item[0]))[:MOST_EXAMPLES]

    @in_turn
    def exclude(self, feature: str) -> None:
        """Forget this word or host, and read it no more."""
        with self._vault() as vault:
            vault.exclude([as_excluded(feature.removeprefix("host:")) if feature.startswith("host:") else feature])

    @in_turn
    def remove(self, source: str) -> None:
        """Forget all that a source gave."""
        with self._vault() as vault:
            vault.forget(source)

    @in_turn
    def predict(self, digest: str) -> Prediction:
        """The label by the last model that the device believes."""
        with self._state() as state, self._vault() as vault:
            return predict_for(digest, state, vault)

    @in_turn
    def evidence(self, number: int) -> bytes:
        """One piece as a file, by its number."""
        with self._state() as state:
            return choose_one(self._evidence(state), number).data

    # ── deciding ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def find(self, digest: str | None = None) -> None:
        """Ask the coordinator, through a relay, for experiments; or for one."""
        way = self._needed_way()
        if digest is not None and not is_digest(digest):
            raise BadInputError("an experiment is named by its digest, 64 hexadecimal digits")
        async with self._asking:
            went = await self._offers.look(way, now=self._now(), reckon=self._reckon, digest=digest)
        await self._count(went)

    async def take_up_invitations(self) -> None:
        """Show the experiments that the person was invited to, as they were fetched then: nobody is asked."""
        for digest, envelope in (await self._invitations()).items():
            await self._offers.put_invited(digest, envelope, self._reckon)

    @in_turn
    def _invitations(self) -> dict[str, bytes]:
        with self._state() as state:
            return {name: data for name, data in invitations(self._folder).items() if state.record(name) is None}

    @in_turn
    def bring_in(self, digest: str, profile: str) -> int:
        """Read of a browser's history what an experiment asks for, and no more; how many features it gave."""
        wanted = self._offers.offer(digest).document.features
        if wanted.source not in HISTORIES:
            raise BadInputError(
                "the page reads the histories of browsers, and nothing else",
                next_step="Use: secvm participant import",
            )
        given = {"profile": profile} | ({} if wanted.days is None else {"days": str(wanted.days)})
        with self._vault() as vault:
            options = Options(home=Path.home(), now=self._now(), given=given)
            return import_from(find_source(wanted.source), options, vault)

    async def _reckon(self, document: ExperimentDocument) -> Meaning:
        """What it means to take part; or say that nobody can know."""

        def reckon() -> Meaning:
            steady = self._steady
            with patience((lambda: False) if steady is None else until(steady, PATIENCE_S)):
                statement = self._consent.statement(document)
                return {
                    "short": contents(in_short(document, statement)),
                    "leaves": contents(what_leaves(document, statement, self._policy)),
                    "figures": contents(figures(document, statement)),
                }

        try:
            return await asyncio.to_thread(reckon)
        except (ArithmeticError, MemoryError, ValueError):
            raise UnreckonedError("what it would mean to take part cannot be calculated") from None

    @in_turn
    def _count(self, went: int) -> None:
        with self._state() as state, state.writing(durable=False):
            state.put_traffic(self._now() // _DAY_MS, went)

    async def reconsider(self, digest: str) -> None:
        """Show an experiment again that was declined."""
        record = await self._decide(_known, digest)
        if record.status is Status.DECLINED:
            await self._offers.put_again(digest, record.envelope, self._reckon)

    async def join(self, digest: str, *, answer: str | None, accepted: Accepted) -> None:
        """Take part: the person has read what it means, and said yes. ``answer``: their label, if they gave it here."""
        way, offer = self._needed_way(), self._offers.offer(digest)
        # As the command does it: what cannot be joined fetches nothing.
        way.policy.check(offer.document)
        await asyncio.to_thread(self._consent.check, offer.document, accepted)
        salt = await fetch_salt(offer.document, way.transport, way.policy, now=self._now())
        await self._join(way, offer, answer, accepted, salt)
        self._offers.drop(digest)

    @in_turn
    def _join(self, way: Way, offer: Offer, answer: str | None, accepted: Accepted, salt: bytes | None) -> None:
        digest = offer.document.digest
        with self._state() as state, self._vault() as vault:
            decisions.join(state, digest, offer.envelope, vault, way, salt=salt, accepted=accepted, answer=answer)

    @in_turn
    def decline(self, digest: str) -> None:
        """No; and it is remembered, so that nobody asks again."""
        offer = self._offers.offer(digest)
        with self._state() as state:
            state.decline(digest, offer.envelope)
        self._offers.drop(digest)

    async def pause(self, digest: str) -> None:
        """Send and fetch nothing more, until resumed."""
        await self._decide(decisions.pause, digest)

    async def resume(self, digest: str) -> bool:
        """Go on; whether it does."""
        return await self._decide(decisions.resume, digest)

    async def forget(self, digest: str) -> None:
        """Leave for good."""
        await self._decide(lambda state, name: decisions.forget(state, name, self._vault), digest)

    @in_turn
    def _decide(self, what: Callable[[DeviceState, str], Answer], digest: str) -> Answer:
        with self._state() as state:
            _known(state, digest)
            return what(state, digest)

    # ── what it stands on ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _policy(self) -> TrustPolicy | None:
        return None if self._way is None else self._way.policy

    def _needed_way(self) -> Way:
        if self._way is None:
            raise BadInputError(
                "without the device's settings nobody can be asked", next_step="Start the page with --config FILE."
            )
        return self._way

    def _state(self) -> AbstractContextManager[DeviceState]:
        return closing(DeviceState(self._folder, lock=self._lock))

    def _vault(self) -> Vault:
        return Vault(self._folder, lock=self._lock)

    def _look_at_vault(self) -> VaultLook:
        """Opened only when its file has changed: a locked one is opened as a whole."""
        path = self._folder / (VAULT_FILE if self._lock is None else LOCKED_FILE)
        try:
            status = path.stat()
            mark: object = (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError:
            return VaultLook({}, 0, 0, None, self._lock is not None)
        if self._vault_look is None or self._vault_look[0] != mark:
            with self._vault() as vault:
                self._answered = frozenset(vault.answered())
                look = VaultLook(
                    sources=vault.summary(),
                    readings=vault.readings(),
                    labels=len(self._answered),
                    bytes=status.st_size,
                    changed_at=status.st_mtime_ns // 1_000_000,
                    locked=self._lock is not None,
                )
            self._vault_look = (mark, look)
        return self._vault_look[1]

    def _evidence(self, state: DeviceState) -> list[Held]:
        """Verified once, and again when there is other evidence: each piece may hold a whole model."""
        records = state.records()
        mark = hashlib.sha256()
        for record in records:
            for data in state.evidence(record.digest):
                mark.update(hashlib.sha256(data).digest())
        if mark.digest() != self._held[0]:
            self._held = (mark.digest(), evidence_of(state, records))
        return self._held[1]


def _known(state: DeviceState, digest: str) -> ExperimentRecord:
    record = state.record(digest)
    if record is None:
        raise BadInputError("this device does not know that experiment")
    return record
