"""Trials: every lie told many times, and as many honest histories. Who catches which, and who refuses in vain.

A trial is an honest past at random, a lie at random, and a device that looks: it reads the experiment, computes the
salt, checks what it is served, looks at the checkpoint again, and asks for receipts. All is in memory and seeded: a
number of a trial is a trial that can be had again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from secvm.errors import CheatingError, MalformedMessageError, RemoteProtocolError
from secvm.protocol.documents import digest_of
from secvm.protocol.evidence import examine
from secvm.protocol.experiment_document import ExperimentDocument, HashedBins, read_published
from secvm.protocol.receipts import decode_bits, decode_receipt
from secvm.protocol.received import bucket_of, check_receipt
from secvm.protocol.salt import salt_of
from secvm.protocol.trusted_rounds import Checked, TrustedRounds
from secvm.testing.honest_run import honest_run
from secvm.testing.malicious import LIES, Lie, Scene, Told
from secvm.testing.public_history import served_from

#: The name under which honest runs are counted.
HONEST = "honest"
#: How a lie fails that nobody had to see: what it changes is not used.
NO_EFFECT = "nothing of it is used"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one trial."""

    #: What caught it, in one word or two; None: nothing did.
    caught_by: str | None
    variant: str
    #: As the device would tell its person.
    sentence: str = ""


@dataclass(slots=True)
class Count:
    """All trials of one lie, or of honesty."""

    name: str
    trials: int = 0
    caught: int = 0
    #: What caught how many.
    by: Counter[str] = field(default_factory=Counter)
    #: Numbers of trials that did not end as they should.
    deviating: list[int] = field(default_factory=list)


def run(
    lies: Iterable[Lie], *, trials: int, seed: str, honest: bool = True, advance: Callable[[int], None] | None = None
) -> list[Count]:
    """So many trials of each of these, and of honest runs; ``advance`` is called with each number of trials done."""
    counts = []
    jobs: list[tuple[str, bool, Callable[[random.Random], Outcome]]] = [
        (lie.name, lie.detected, lambda dice, lie=lie: try_lie(lie, dice))  # type: ignore[misc]  # bound by default
        for lie in lies
    ]
    jobs += [(HONEST, False, try_honesty)] if honest else []
    for name, expected, trial in jobs:
        count = Count(name)
        for number in range(trials):
            # Whoever knows the seed shall have the same trial.
            outcome = trial(random.Random(f"{seed} {name} {number}"))  # noqa: S311
            count.trials += 1
            count.caught += outcome.caught_by is not None
            count.by[outcome.caught_by or "not caught"] += 1
            if (outcome.caught_by is not None) != expected:
                count.deviating.append(number)
            if advance is not None:
                advance(1)
        counts.append(count)
    return counts


def try_honesty(dice: random.Random) -> Outcome:
    """An honest history, and devices that come and go: none of them may refuse."""
    try:
        honest_run(dice)
    except RemoteProtocolError as fault:
        return Outcome(type(fault).__name__, "honest", str(fault))
    return Outcome(None, "honest")


def try_lie(lie: Lie, dice: random.Random) -> Outcome:
    """One lie, once."""
    scene, told = lie.told(dice)
    try:
        checked = look(scene, told)
    except CheatingError as fault:
        # What convicts must convince others too: raises, and the trial with it, if it does not.
        finding = examine(fault.evidence)
        return Outcome(f"evidence: {finding.kind.value}", told.variant, str(fault))
    except RemoteProtocolError as fault:
        return Outcome(type(fault).__name__, told.variant, str(fault))
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
        device.compare(told.refetched)
        return None
    latest = told.files.get(f"/v1/experiment/{digest}/manifest/latest")
    if latest is not None:
        device.look(latest)
    checked = device.check(served_from(told.files, digest, device), now=told.now)
    if told.acknowledged is not None:
        check_receipts(document, checked, told)
    return checked


def check_receipts(document: ExperimentDocument, checked: Checked, told: Told) -> None:
    """That the device's own capsules are under the root that the next manifest tells."""
    assert told.acknowledged is not None
    assert checked.accepted is not None
    number, digests = told.acknowledged
    last = checked.accepted.manifest.last
    if last is None or last.received_root is None:
        raise MalformedMessageError("no root of received capsules was published")
    place = f"/v1/experiment/{document.digest}/received/{number}"
    bits = decode_bits(told.files.get(place, b""))
    for digest in digests:
        found = decode_receipt(told.files.get(f"{place}/{bucket_of(digest, bits)}", b""))
        check_receipt(bytes.fromhex(last.received_root), digest, found.bucket, found.path)


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


__all__ = ["HONEST", "LIES", "NO_EFFECT", "Count", "Outcome", "look", "run", "try_honesty", "try_lie"]
