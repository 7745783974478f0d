"""Every lie that a device in an experiment with two relays can hear, by name; and one told, or the truth.

A device has caught a lie when no request left it afterwards, and its person is told why.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from secvm.protocol.documents.experiment import Beacon, HashedBins
from secvm_lab.rigs.histories.relayed_rounds import START
from secvm_lab.rigs.lies.heard import documents, logs, rounds
from secvm_lab.rigs.lies.heard.listeners import ENDED, Devices
from secvm_lab.rigs.lies.heard.scene import A_WHILE_MS, HeardScene

#: What a device does of which nothing was asked that it could have believed.
WAITS = "waits"


@dataclass(frozen=True, slots=True)
class HeardLie:
    """One way to lie."""

    tell: Callable[[HeardScene], str]
    #: What the scene needs, for ``HeardScene``.
    needs: Mapping[str, Any]
    #: What is withheld looks like a server that is down: the device waits, and tells nobody.
    silent: bool

    @property
    def sentence(self) -> str:
        """What it is, in one sentence."""
        return (self.tell.__doc__ or "").strip()


@dataclass(frozen=True, slots=True)
class Heard:
    """What became of a device."""

    variant: str
    #: What it noticed; None: nothing.
    noticed: str | None
    #: Requests that left it after the lie was told.
    sent: int = 0
    #: Rounds of which it heard, and in which it did not send one request.
    missed: int = 0


def _salted(dice: random.Random) -> dict[str, Any]:
    # After the experiment was logged, and before anybody joins.
    named = [Beacon(f"local-unsafe-{dice.getrandbits(32):x}", START // 1000 - dice.randint(1500, 3000)) for _ in "ab"]
    return {"binning": HashedBins(bins=10, salt=None, beacons=tuple(named)), "test": True}


_MEMBER = {"newcomer": False}
_LATER = {"at_least": 1}
_SALTED = {"newcomer": True, "drawn": _salted}
_LIES: tuple[tuple[Callable[[HeardScene], str], Mapping[str, Any]], ...] = (
    (documents.different_weights, {}),
    (documents.shorter_window, {}),
    (documents.different_keys, {}),
    (documents.several_fetch_keys, {}),
    (documents.key_of_the_coordinators_own, {}),
    (documents.used_before, _LATER),
    (documents.another_past, _LATER),
    (documents.skipped_round, _LATER),
    (documents.rewritten_past, _LATER),
    (documents.two_manifests, {}),
    (documents.manifest_of_a_stranger, {}),
    (documents.manifest_withheld, {}),
    (documents.ending_of_another_round, _LATER),
    (documents.round_after_the_ending, _LATER),
    (documents.another_experiment, {}),
    (documents.forged_salt, _SALTED),
    (documents.beacon_already_known, _SALTED),
    (logs.forked_log, _LATER),
    (logs.withheld_checkpoint, {}),
    (logs.stale_checkpoint, {}),
    (logs.replayed_log, {}),
    (logs.logged_twice, {}),
    (logs.not_logged, {}),
    (logs.cosigned_by_strangers, {}),
    (logs.one_counted_twice, {}),
    (logs.one_witness_too_few, {}),
    (logs.no_look_answered, _MEMBER),
    (rounds.wrong_lambda, {}),
    (rounds.wrong_class_weight, {}),
    (rounds.wrong_normaliser, {}),
    (rounds.first_state_not_zero, {"most": 0}),
    (rounds.weights_not_of_the_state, {}),
    (rounds.step_after_too_few, {}),
    (rounds.step_after_an_unopened_round, {}),
    (rounds.no_step, {}),
    (rounds.tally_withheld, {}),
    (rounds.opening_of_a_stranger, {}),
    (rounds.opening_exchanged, {}),
    (rounds.capsules_without_a_client, {}),
    (rounds.capsules_lost_in_the_mix, {}),
    (rounds.count_after_another_batch, {}),
    (rounds.second_count_published, {}),
    (rounds.count_forged, {}),
    (rounds.part_that_pleases, {}),
    (rounds.seed_chosen_later, {}),
    (rounds.seed_of_another_key, {}),
    (rounds.dropped_by_entry, _MEMBER),
    (rounds.dropped_by_mix, _MEMBER),
    (rounds.shards_withheld, _MEMBER),
)
_WITHHELD = (documents.manifest_withheld, rounds.tally_withheld)
#: All of them, by name.
HEARD_LIES: Mapping[str, HeardLie] = MappingProxyType(
    {
        f"heard-{tell.__name__.replace('_', '-')}": HeardLie(tell, needs, silent=tell in _WITHHELD)
        for tell, needs in _LIES
    }
)


def hear(lie: HeardLie, dice: random.Random, devices: Devices, folder: Path) -> Heard:
    """One lie, once."""
    scene = _scene(dice, devices, folder, lie.needs)
    try:
        variant = lie.tell(scene)
        noticed, sent = scene.noticed, scene.sent
    finally:
        scene.device.close()
    return Heard(variant, noticed or (WAITS if lie.silent else None), sent)


def hear_the_truth(dice: random.Random, devices: Devices, folder: Path) -> Heard:
    """An honest past that goes on honestly: somebody joins, sleeps now and then, and sends one request a round."""
    scene = _scene(dice, devices, folder, {"drawn": _salted} if dice.random() < 0.3 else {})
    history = scene.history
    try:
        if not scene.joined:
            scene.join()
        missed = 0
        for _ in range(dice.randint(1, 2)):
            before = len(scene.net.requests)
            # One round may stay without an opening: machines fail.
            unopened = dice.random() < 0.1 and not missed and not any(not one.is_opened for one in history.openings)
            scene.round_of(history, asleep=False, unopened=unopened)
            missed += len(scene.net.requests) != before + 1
        ends = dice.random() < 0.3
        if ends:
            history.end()
        scene.hear(history, until=scene.clock.now() + A_WHILE_MS)
        noticed = scene.noticed
    finally:
        scene.device.close()
    return Heard("ends" if ends else "goes on", None if noticed == ENDED and ends else noticed, missed=missed)


def _scene(dice: random.Random, devices: Devices, folder: Path, needs: Mapping[str, Any]) -> HeardScene:
    told = dict(needs)
    drawn = told.pop("drawn", None)
    return HeardScene(dice, devices, folder, **told, **({} if drawn is None else drawn(dice)))
