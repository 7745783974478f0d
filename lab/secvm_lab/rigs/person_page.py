"""A person's page with something to see on it: a made-up person's device after half a day, for browsers and pictures.

    with shown_page(folder) as page:
        browser.goto(page.address)

The device has lived through real rounds on a network in memory: it takes part in two experiments, one of them paused;
it has caught the server of a third; it said no to a fourth. A coordinator offers three more: one that the device agrees
to, one that tells more than it likes, one that it refuses.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from secvm.crypto.signing import SigningKey
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm.learning.individual.dice import UnsafeSeededDice
from secvm.learning.thinning import Thinning
from secvm.participant.consent.policies import TOTAL_AUC, Consent
from secvm.participant.device import DAILY_BYTES, Device
from secvm.participant.person.decisions import Way, pause
from secvm.participant.storage.books import Accepted
from secvm.participant.storage.state import DeviceState
from secvm.participant.storage.vault import Vault
from secvm.participant.trust.trust_policy import TrustedRelay, TrustPolicy
from secvm.participant.ui.desk import Desk
from secvm.participant.ui.guard import PageGuard, new_secret
from secvm.participant.ui.server import MakeGuard, serve_page
from secvm.privacy.planning.relay_plan import RelayQuestion, plan_relays
from secvm.privacy.target import PrivacyTarget
from secvm.protocol.documents.experiment import FeaturesWanted, HashedBins, Relay, Windows
from secvm.protocol.documents.terms import RelayTimes
from secvm.runtime.disk.process_lock import FILE as LOCK_FILE
from secvm.runtime.disk.process_lock import only_one
from secvm.testing.clock import ManualClock
from secvm.testing.transport import MemoryTransport
from secvm_lab.rigs.histories.public_history import LEAD_S, PublicHistory
from secvm_lab.rigs.histories.random_experiments import START, Parties, draw_document

_HOUR_MS = 3_600_000
_SOURCE = "history-titles"
#: What the made-up person has. Words that stand nowhere else in this world: a test can look for them.
FEATURES = {
    "glasshouse": 7, "sourdough": 5, "allotment": 4, "woodcut": 3, "kayak": 2, "sundial": 2, "quince": 1,
    "thimbleberry": 1, "marquetry": 1, "lighthouse": 1,
}  # fmt: skip
_WINDOWS = Windows(
    length_s=3 * 3600, grace_s=60, first_opening=START + 7 * _HOUR_MS, hours=((6, 22),), time_zone="Europe/Zurich"
)
_TITLES = FeaturesWanted(source=_SOURCE, description="words in the titles of pages that you have visited")


@dataclass(frozen=True, slots=True)
class _Asked:
    """An experiment, as its author tells of it."""

    title: str
    question: str
    labels: tuple[str, ...]
    bins: int
    budget: int
    floor: int
    rounds: int
    changes: dict[str, Any]

    def history(self, dice: random.Random) -> PublicHistory:
        """As it is published."""
        told: dict[str, Any] = {
            "title": self.title,
            "question": self.question,
            "experiment": Experiment(n_bins=self.bins, labels=self.labels, rule=Pegasos(), budget=self.budget),
            "binning": HashedBins(bins=self.bins, salt=dice.randbytes(32)),
            "beacons": 0,
            "features": _TITLES,
            "windows": _WINDOWS,
            "floor": self.floor,
            "rounds": self.rounds,
            "test": False,
        }
        parties = Parties.drawn(dice, witnesses=3, relays=1)
        return PublicHistory(dice, draw_document(dice, parties, **{**told, **self.changes}), parties)


_GARDEN_LABELS = ("a garden", "a balcony", "neither")
GARDEN = _Asked("Gardens", "Do you have a garden, or a balcony with plants?", _GARDEN_LABELS, 6, 24, 9000, 4, {})
SLEEP = _Asked("Sleep", "Do you sleep well?", ("well", "badly"), 6, 16, 6000, 4, {})
SHOES = _Asked("Shoes", "Which shoes would you buy next?", ("boots", "sandals"), 10, 12, 60, 20, {})
RADIO = _Asked("Radio", "Do you listen to the radio?", ("yes", "no"), 10, 12, 60, 20, {})
_ASKER = {
    "operator": "Institute of Everyday Life",
    "contact": "panel@everyday.example",
    "purpose": "A yearly report on how people live, free for everybody to read.",
}
TRAVEL = _Asked("Travel", "How do you get to work?", ("by bicycle", "by train"), 10, 20, 200, 20, _ASKER)
ENDLESS = _Asked("A life with the club", "Are you a member?", ("yes", "no"), 10, 12, 60, 2000, _ASKER)


def _covered() -> _Asked:
    """One with two relays' cover, whose guarantee a device agrees to by itself."""
    share, target = Fraction(7, 10), PrivacyTarget(Fraction(1))
    made = plan_relays(
        RelayQuestion(target=target, people=4000, bins=20, features=5, rounds=4, thinning=Thinning(), train_share=share)
    )
    experiment = Experiment(
        n_bins=20, labels=("yes", "no"), rule=Pegasos(), features_per_person=5, budget=made.budget, cover=made.cover
    )
    entry, mix = (SigningKey(bytes([number]) * 32).public for number in (1, 2))
    changes = {
        **_ASKER,
        "experiment": experiment,
        "privacy": target.published,
        "relays": (
            Relay(url="https://entry.example/", key=entry, role="entry", operator="Entry e.V."),
            Relay(url="https://mix.example/", key=mix, role="mix", operator="Mix Ltd."),
        ),
        "train_share": share,
        "windows": replace(_WINDOWS, relays=RelayTimes(batch_s=30, mix_s=40, reveal_s=50, open_s=70)),
    }
    return _Asked("Music", "Do you play an instrument?", ("yes", "no"), 20, made.budget, 1400, 4, changes)


class MadeUpPerson:
    """A device in a folder, what became of it, and the coordinators that it knows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ManualClock(START + 6 * _HOUR_MS)
        self.net = MemoryTransport(self.clock.now)
        # Somebody who has said yes, in the settings, to what tells little without a guarantee.
        self.consent = Consent(most_auc=TOTAL_AUC)
        self._dice = random.Random(8)  # noqa: S311  (a made-up world)
        self.garden, self.sleep, self.shoes, self.radio, self.travel, self.endless = (
            one.history(self._dice) for one in (GARDEN, SLEEP, SHOES, RADIO, TRAVEL, ENDLESS)
        )
        self.music = _covered().history(self._dice)
        # Whom this person trusts: relays by their addresses alone, and two by operator and key.
        known = tuple(
            TrustedRelay(url=relay.url, key=relay.key, operator=relay.operator) for relay in self.music.document.relays
        )
        others = {relay.url for one in self.histories for relay in one.document.relays if relay.operator is None}
        self.policy = TrustPolicy(relays=(*known, *(TrustedRelay(url=url) for url in sorted(others))))
        # A browser that is open has the loop of this thread.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(self._live).result()

    @property
    def way(self) -> Way:
        """How it reaches its coordinators."""
        return Way(self.net, self.policy, lambda _document: UnsafeSeededDice(b"person", 1), self.consent)

    def start(self) -> Device:
        """The device, as its process would begin."""
        return Device(
            DeviceState(self.folder, unsafe_unsynced=True),
            self.net,
            now=self.clock.now,
            random_bytes=os.urandom,
            policy=self.policy,
            consent=self.consent,
        )

    def desk(self) -> Desk:
        """What stands behind its page."""
        return Desk(self.folder, now=self.clock.now, consent=self.consent, daily_bytes=DAILY_BYTES, way=self.way)

    @property
    def histories(self) -> list[PublicHistory]:
        return [self.garden, self.sleep, self.shoes, self.radio, self.travel, self.endless, self.music]

    def serve(self) -> None:
        """Let everything be public that its coordinators have published."""
        listed = []
        for history in self.histories:
            self.net.files |= {path: data for path, data in history.files.items() if path != "/v1/experiments"}
            document = history.document
            listed.append({"digest": document.digest, "title": document.title, "standing": "running"})
        self.net.files["/v1/experiments"] = json.dumps({"experiments": listed}).encode()

    # ── half a day ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _live(self) -> None:
        joined = (self.garden, self.sleep, self.shoes)
        self.serve()
        with Vault(self.folder) as vault:
            vault.put(_SOURCE, FEATURES)
            vault.put("own-words", {"tea": 1, "rain": 2})
            for history in joined:
                vault.set_label(history.document.digest, history.document.experiment.labels[0])
        device = self.start()
        with Vault(self.folder) as vault:
            for history in joined:
                needed = Accepted(auc=1.0) if history is self.shoes else Accepted()
                device.join(history.document.digest, history.envelope, vault, accepted=needed)
        device.state.decline(self.radio.document.digest, self.radio.envelope)
        asyncio.run(self._rounds(device, joined))
        device.close()

    async def _rounds(self, device: Device, joined: tuple[PublicHistory, ...]) -> None:
        for number in range(1, 3):
            self._move_to(self.garden.opening(number) - 1000 * LEAD_S)
            for history in joined:
                if number == 1 or history is not self.shoes:
                    history.announce(self.clock.now())
            self.serve()
            await self._drive(device, until=self.garden.opening(number) + 3 * _HOUR_MS)
            if number == 1:
                self._cheat()
            await self._drive(device, until=self.garden.opening(number) + 3 * _HOUR_MS + 60_000)
            for history in joined:
                if history is not self.shoes:
                    history.conclude(history.draw_tally())
        device.flush()
        pause(device.state, self.sleep.document.digest)
        self._move_to(self.garden.opening(3) - 1000 * LEAD_S)
        self.garden.announce(self.clock.now())
        self.serve()
        await self._drive(device, until=self.garden.opening(3) + _HOUR_MS)

    def _cheat(self) -> None:
        """The coordinator of one experiment signs another manifest for the same round."""
        first = self.shoes.manifests[-1]
        other = replace(first, quota=first.quota + 1).signed([self.shoes.parties.coordinator])
        self.shoes.files[f"{self.shoes.place}/manifest/latest"] = other
        self.serve()

    def _move_to(self, at: int) -> None:
        self.clock.advance(max(0, at - self.clock.now()))

    async def _drive(self, device: Device, *, until: int) -> None:
        device.look()
        while True:
            while jobs := device.wake():
                for job in jobs:
                    await device.carry_out(job)
            following = max(device.wake_at, self.clock.now() + 1)
            if following >= until:
                self._move_to(until)
                return
            self._move_to(following)


@dataclass(frozen=True, slots=True)
class ShownPage:
    """A page that is being served from a thread of its own."""

    #: With the secret in it.
    address: str = field(repr=False)
    port: int
    person: MadeUpPerson


@contextlib.contextmanager
def shown_page(
    folder: Path, *, make_guard: MakeGuard = PageGuard, person: MadeUpPerson | None = None
) -> Iterator[ShownPage]:
    """Show the page of a made-up person whose device is in this folder. As if it ran in another process."""
    somebody = MadeUpPerson(folder) if person is None else person
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def wait_for(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(timeout=60)

    try:
        with only_one(folder / LOCK_FILE, "device"):
            served = wait_for(serve_page("127.0.0.1:0", somebody.desk(), new_secret(os.urandom), make_guard=make_guard))
            try:
                yield ShownPage(served.address, served.port, somebody)
            finally:
                wait_for(served.close())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
