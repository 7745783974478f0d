"""Trials: every lie told many times, and as many honest histories. Who catches which, and who refuses in vain.

A trial is an honest past at random, a lie at random, and a device, twice: its pure part, which reads the experiment,
computes the salt, checks what it is served and looks at the checkpoint again; and a whole one, in a folder, that lives
up to the end of the window, and of which no capsule may leave. All is seeded: a number of a trial is a trial that can
be had again.

Lies about a count (``COUNT_LIES``) are told of a round with two relays: an auditor counts everything again, a device
the shard that it is led to. Their honest runs have losses and kills. All other lies that a device in an experiment with
two relays can hear (``HEARD_LIES``) are told to a whole one, of Python or of the browser: no request may leave it.

An honest run has rounds that are met and abandoned, keys that change, devices that come late and stay away: whoever
refuses in it refuses in vain. In half of the runs the coordinator computes with ``second_rule``, which knows nothing of
ours.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from secvm.auditor.audit import audit_files
from secvm.auditor.files import GivenFiles
from secvm.errors import CheatingError, RemoteProtocolError
from secvm.learning.aggregate.descent import State
from secvm.learning.aggregate.tally import Tally
from secvm.learning.weights import Weights
from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.experiment import ExperimentDocument, HashedBins, read_published
from secvm.protocol.evidence.examination import examine_relayed
from secvm.protocol.evidence.plain import examine
from secvm.protocol.trust.salt import salt_of
from secvm.protocol.trust.trusted_rounds import Checked, Trusted, TrustedRounds
from secvm_lab.rigs.histories.audited_history import draw_history
from secvm_lab.rigs.histories.public_history import PublicHistory, lines_from, served_from
from secvm_lab.rigs.lies import second_rule
from secvm_lab.rigs.lies.about_shards import COUNT_LIES, SIGNED, CountLie
from secvm_lab.rigs.lies.catalogue import LIES, Lie
from secvm_lab.rigs.lies.heard.catalogue import HEARD_LIES, HeardLie, hear, hear_the_truth
from secvm_lab.rigs.lies.heard.listeners import Devices, PythonDevices
from secvm_lab.rigs.lies.liar import Scene, Told
from secvm_lab.rigs.lies.listening_device import lied_to


class SecondImplementation(PublicHistory):
    """A coordinator whose rule somebody else wrote."""

    def step(self, state: State, tally: Tally) -> State:
        counts = second_rule.Counts(tally.plus.tolist(), tally.minus.tolist(), tally.participants.tolist())
        vectors = {name: vector.tolist() for name, vector in state.vectors.items()}
        take = second_rule.swift_step if state.rule == "swift" else second_rule.pegasos_step
        number, new = take(self.document.experiment, state.step, vectors, counts)
        return State(
            rule=state.rule, step=number, vectors={n: np.array(rows, state.vectors[n].dtype) for n, rows in new.items()}
        )

    def weights(self, state: State) -> tuple[Weights, Weights]:
        vectors = {name: vector.tolist() for name, vector in state.vectors.items()}
        if state.rule == "swift":
            pair = tuple(second_rule.swift_weights(state.step, vectors[name]) for name in ("weights", "average"))
        else:
            pair = second_rule.pegasos_weights(self.document.experiment, state.step, vectors)
        training, evaluation = (
            Weights(np.array(rows, np.int32), unit, normalised=state.rule == "swift", first=state.step == 0)
            for rows, unit in pair
        )
        return training, evaluation


def honest_run(dice: random.Random) -> int:
    """One run to its end; how many looks devices have taken comes back. Raises what a device raises."""
    kind = dice.choice([PublicHistory, SecondImplementation])
    history = kind.drawn(dice, relays=dice.randint(0, 2))
    devices: list[Trusted | None] = [None] * dice.randint(1, 3)
    looks = 0
    for _ in range(dice.randint(1, 6)):
        history.announce()
        if dice.random() < 0.3:
            # Cosignatures are renewed while the round is the newest.
            history.cosign(history.now + 1000 * dice.randint(1, 60))
        for i, kept in enumerate(devices):
            if dice.random() < 0.6:
                devices[i], looks = _look(history, kept), looks + 1
        history.conclude(None if dice.random() < 0.25 else history.draw_tally())
    if dice.random() < 0.5:
        history.end()
    else:
        history.announce()
    for kept in (*devices, None):
        _look(history, kept)
    return looks + len(devices) + 1


def _look(history: PublicHistory, kept: Trusted | None) -> Trusted:
    document = read_published(history.files[history.place], digest=history.document.digest)
    if kept is None:
        salt_of(document, first=history.first, records=history.records, allow_unsafe=True)
    else:
        kept = Trusted.from_parts(kept.to_bytes(), kept.state)
    device = TrustedRounds(document, history.envelope, kept)
    device.believe(device.check(history.served(device), now=history.now))
    device.log.compare(history.files[f"{history.place}/checkpoint"], ())
    # Later in the window, when other experiments have gone on.
    later = history.branch()
    later.let_others_append()
    signed, since = later.cosign(), device.trusted.log.frontier.size
    device.log.compare(signed.data, lines_from(later.files, since, signed.checkpoint.size))
    return device.trusted


#: The names under which honest runs are counted: of one relay; of two, for an auditor and for a device.
HONEST, HONEST_COUNT, HONEST_HEARD = "honest", "honest-count", "heard-honest"
#: How a lie fails that nobody had to see: what it changes is not used.
NO_EFFECT = "nothing of it is used"
#: What a device does that has noticed nothing.
SENDS = "sends"
#: What an auditor makes of a lie that outsiders can see, and of one that was told to somebody else alone.
FOUND, MISSED, UNSEEN, FALSE_ALARM = "found", "missed", "not to be seen from outside", "false alarm"
AUDIT_DEVIATES = (MISSED, FALSE_ALARM)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one trial."""

    #: What caught it, in one word or two; None: nothing did.
    caught_by: str | None
    variant: str
    #: What a whole device made of it.
    device: str = ""
    #: What an auditor made of what outsiders see: that something is wrong, or nothing.
    audit: str = ""


@dataclass(slots=True)
class Count:
    """All trials of one lie, or of honesty."""

    name: str
    trials: int = 0
    caught: int = 0
    #: What caught how many.
    by: Counter[str] = field(default_factory=Counter)
    #: What a whole device made of how many.
    device: Counter[str] = field(default_factory=Counter)
    #: What an auditor made of how many, from outside.
    audit: Counter[str] = field(default_factory=Counter)
    #: Numbers of trials that did not end as they should.
    deviating: list[int] = field(default_factory=list)


def run(
    names: Iterable[str],
    *,
    trials: int,
    seed: str,
    devices: Devices | None = None,
    advance: Callable[[int], None] | None = None,
) -> dict[str, Count]:
    """So many trials of each of these; ``advance`` is called with each number of trials done.

    ``devices``: to whom all but lies about experiments with one relay are told; Python's if nothing is said.
    """
    return {name: _count(name, trials, seed, devices or PythonDevices(), advance) for name in names}


def _count(name: str, trials: int, seed: str, devices: Devices, advance: Callable[[int], None] | None) -> Count:
    count, (expected, trial) = Count(name), TRIALS[name]
    for number in range(trials):
        with tempfile.TemporaryDirectory(prefix="secvm-trial-") as folder:
            # Whoever knows the seed shall have the same trial.
            outcome = trial(random.Random(f"{seed} {name} {number}"), Path(folder), devices)  # noqa: S311
        count.trials += 1
        count.caught += outcome.caught_by is not None
        count.by[outcome.caught_by or "not caught"] += 1
        count.device[outcome.device] += 1
        if outcome.audit:
            count.audit[outcome.audit] += 1
        if (outcome.caught_by is not None) != expected or outcome.audit in AUDIT_DEVIATES:
            count.deviating.append(number)
        if advance is not None:
            advance(1)
    return count


def try_count_lie(lie: CountLie, dice: random.Random, _folder: Path, devices: Devices) -> Outcome:
    """One lie about a count, once: an auditor finds it and proves what was signed; a device sees what it can."""
    scene = lie.told(dice)
    report = audit_files(GivenFiles(scene.files), now=scene.now)
    found = {fault.kind.name if fault.kind else fault.check for fault in report.faults}
    proved = {fault.kind.name for fault in report.faults if fault.provable and fault.kind}
    for data in report.evidence:
        # What convicts must convince others too: raises, and the trial with it, if it does not.
        examine_relayed(data)
    right = bool(found & lie.found) and found <= lie.follows and proved == found & SIGNED
    device = devices.recount(scene)
    caught = ", ".join(sorted(name.lower() for name in found)) or None
    audit = FOUND if right else MISSED if report.ok else FALSE_ALARM
    if device != lie.device:
        return Outcome(None, lie.sentence, device=f"{device}, not {lie.device}", audit=audit)
    return Outcome(caught, lie.sentence, device=device, audit=audit)


def try_honest_count(dice: random.Random, _folder: Path, _devices: Devices) -> Outcome:
    """Honest rounds of two relays with losses and kills, sealed to the last capsule: nothing is found."""
    made = draw_history(dice, rounds=2, sealed=True)
    report = audit_files(GivenFiles(made.files), now=made.now, doors=made.door_at, capsules=made.shows_capsules)
    opened = sum(opening.is_opened for opening in made.openings)
    if report.ok and report.recounted[1] == opened:
        return Outcome(None, HONEST_COUNT, device=f"{opened} of 2 rounds opened")
    return Outcome("false alarm", HONEST_COUNT, audit=FALSE_ALARM)


def try_honesty(dice: random.Random, folder: Path, _devices: Devices) -> Outcome:
    """An honest history, and devices that come and go: none of them may refuse, and one sends all that it has."""
    try:
        honest_run(dice)
    except RemoteProtocolError as fault:
        return Outcome(type(fault).__name__, HONEST)
    scene = Scene(dice)
    history = scene.history.branch()
    history.announce()
    told = Told(files=history.files, now=history.now, public=history.files, variant=HONEST)
    lived = lied_to(scene, told, folder)
    if lived.caught_by is None and lived.sent == history.document.budget:
        return Outcome(None, HONEST, device=SENDS)
    return Outcome(lived.caught_by or "silence", HONEST, device=lived.caught_by or "silence")


def try_lie(lie: Lie, dice: random.Random, folder: Path, _devices: Devices) -> Outcome:
    """One lie, once: judged by the pure part of a device, and lived through by a whole one. Both must catch it.

    An auditor looks at what outsiders see, and must find what can be seen there, and nothing where that is honest.
    """
    scene, told = lie.told(dice)
    seen = judge(scene, told)
    audit = audited(lie, told)
    lived = lied_to(scene, told, folder)
    unharmed = lived.no_effect or (lived.caught_by is not None and lived.sent == 0)
    device = NO_EFFECT if lived.no_effect else (lived.caught_by or SENDS)
    if lie.detected and not unharmed:
        return Outcome(None, told.variant, device=f"{device}, {lived.sent} sent", audit=audit)
    return Outcome(seen.caught_by, told.variant, device=device, audit=audit)


def try_heard(lie: HeardLie, dice: random.Random, folder: Path, devices: Devices) -> Outcome:
    """One lie in an experiment with two relays, once, lived through by a whole device."""
    heard = hear(lie, dice, devices, folder)
    if heard.sent:
        return Outcome(None, heard.variant, device=f"{heard.noticed or SENDS}, {heard.sent} sent")
    return Outcome(heard.noticed, heard.variant, device=heard.noticed or "silence")


def try_heard_honesty(dice: random.Random, folder: Path, devices: Devices) -> Outcome:
    """An honest history with two relays: a device sends one request in every round that it hears of."""
    heard = hear_the_truth(dice, devices, folder)
    refused = heard.noticed or ("silence" if heard.missed else None)
    return Outcome(refused, HONEST_HEARD, device=refused or SENDS)


def audited(lie: Lie, told: Told) -> str:
    """What an auditor makes of what outsiders see of a lie."""
    report = audit_files(GivenFiles(told.public), now=told.now, experiment=told.joined)
    for data in report.evidence:
        # What convicts must convince others too: raises, and the trial with it, if it does not.
        examine(data)
    visible = (lie.visible_from_outside or told.visible) and lie.detected
    if visible:
        return MISSED if report.ok else FOUND
    return UNSEEN if report.ok else FALSE_ALARM


def judge(scene: Scene, told: Told) -> Outcome:
    """What the pure part of a device makes of a lie."""
    try:
        checked = look(scene, told)
    except CheatingError as fault:
        # What convicts must convince others too: raises, and the trial with it, if it does not.
        finding = examine(fault.evidence)
        return Outcome(f"evidence: {finding.kind.value}", told.variant)
    except RemoteProtocolError as fault:
        return Outcome(type(fault).__name__, told.variant)
    if told.honest is not None and _is_honest(checked, told):
        return Outcome(NO_EFFECT, told.variant)
    return Outcome(None, told.variant)


# ── a device, without its shell ──────────────────────────────────────────────────────────────────────────────────────


def look(scene: Scene, told: Told) -> Checked | None:
    """What a device does with what it is served; raises where it would send nothing, or not again."""
    history = told.stage or scene.history
    digest = told.joined or history.document.digest
    document, envelope = history.document, history.envelope
    if scene.newcomer:
        envelope = told.files[f"/v1/experiment/{digest}"]
        document = read_published(envelope, digest=digest)
        _salt(document, told)
    device = TrustedRounds(document, envelope, scene.kept)
    if told.refetched is not None:
        since = device.trusted.log.frontier.size
        device.log.compare(
            told.refetched, lines_from(told.files, since, since + device.log.missing_lines(told.refetched))
        )
        return None
    latest = told.files.get(f"/v1/experiment/{digest}/manifest/latest")
    if latest is not None:
        device.look(latest)
    return device.check(served_from(told.files, digest, device), now=told.now)


def _salt(document: ExperimentDocument, told: Told) -> None:
    place = f"/v1/experiment/{document.digest}"
    named = document.binning.beacons if isinstance(document.binning, HashedBins) else ()
    records = [told.files[path] for i in range(len(named)) if (path := f"{place}/beacon/{i}") in told.files]
    salt_of(document, first=told.files.get(f"{place}/first"), records=records, allow_unsafe=True)


def _is_honest(checked: Checked | None, told: Told) -> bool:
    """Whether the device ended up with exactly what everybody has."""
    if checked is None or checked.accepted is None or told.honest is None:
        return False
    same = checked.accepted.manifest.digest == told.honest.digest
    return same and digest_of(checked.trusted.state) == told.honest.state


Trial = Callable[[random.Random, Path, Devices], Outcome]
_OF_BOTH: dict[str, tuple[bool, Trial]] = {
    **{name: (True, partial(try_count_lie, lie)) for name, lie in COUNT_LIES.items()},
    **{name: (True, partial(try_heard, lie)) for name, lie in HEARD_LIES.items()},
    HONEST_HEARD: (False, try_heard_honesty),
}
#: All of them by name: whether it should be caught, and how it is tried.
TRIALS: dict[str, tuple[bool, Trial]] = {
    **{name: (lie.detected, partial(try_lie, lie)) for name, lie in LIES.items()},
    HONEST: (False, try_honesty),
    HONEST_COUNT: (False, try_honest_count),
    **_OF_BOTH,
}
#: What the browser's device can hear: it takes no part in experiments with one relay, and is no auditor.
OF_BROWSERS = tuple(_OF_BOTH)
#: Honest runs, in which nobody may refuse.
HONESTY = (HONEST, HONEST_COUNT, HONEST_HEARD)
