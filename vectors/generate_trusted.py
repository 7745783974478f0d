"""The vectors of what a device checks, and of evidence. Written by generate.py."""
# ruff: noqa: INP001  (beside the package, not a part of it)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import generate_protocol  # type: ignore[import-not-found]  # beside this program, not in a package
import numpy as np
from shared import COORDINATOR, JSON, LOG, RELAY, START, STRANGER, WITNESSES, log_terms, names  # type: ignore[import-not-found]  # beside this program, not in a package

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.oblivious import GatewayKey, encode_key_configurations
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos, State, Swift
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.thinning import Thinning
from secvm.protocol.documents.ending import Ending, Why, make_ending
from secvm.protocol.documents.experiment import ExperimentDocument, FeaturesWanted, HashedBins, Relay, Windows, publish
from secvm.protocol.documents.manifest import LastRound, RelayCount, RoundManifest, last_round, make_manifest
from secvm.protocol.evidence.plain import Evidence, Kind, LoggedEntry
from secvm.protocol.log.checkpoints import Checkpoint, SignedCheckpoint
from secvm.protocol.log.entries import Entry, experiment_entry, manifest_entry
from secvm.protocol.trust.trusted_rounds import Served, TrustedRounds, tallies_named
from secvm_lab.rigs.histories.witnessed_log import WitnessedLog

LENGTH_S, GRACE_S, LEAD_S = 600, 60, 60
PERIOD_MS = 1000 * (LENGTH_S + GRACE_S + LEAD_S)
EXPERIMENTS = {
    "pegasos": Experiment(n_bins=3, labels=("a", "b", "c"), budget=5, rule=Pegasos(lambda_=Fraction(1, 100))),
    "swift": Experiment(
        n_bins=3, labels=("a", "b"), budget=5, rule=Swift(), thinning=Thinning(rho=Fraction(2)),
        class_weights=(Fraction(1), Fraction(3, 2)),
    ),
}  # fmt: skip


@dataclass
class History:
    """A coordinator with a log, and all that it has published of one experiment. Before each entry stands another's."""

    document: ExperimentDocument
    manifests: list[RoundManifest] = field(default_factory=list)
    ending: Ending | None = None
    tallies: dict[str, bytes] = field(default_factory=dict)
    states: list[State] = field(default_factory=list)
    log: WitnessedLog = field(default_factory=lambda: WitnessedLog(log_terms().log_key.name, LOG))
    last: LastRound | None = None

    def __post_init__(self) -> None:
        self.envelope = publish(self.document, keys=(COORDINATOR,))
        self.state = aggregate.start(self.document.experiment)
        self.append(experiment_entry(self.document.digest))

    def append(self, entry: Entry) -> None:
        """An entry, after one of another experiment."""
        self.log.append(experiment_entry(f"{self.log.tree.size:064x}"))
        self.log.append(entry)

    def size_at(self, told: RoundManifest | Ending) -> int:
        """Of the log when this was its newest entry."""
        return self.log.index_of(told.log_entry) + 1

    @property
    def now(self) -> int:
        return int(START) + (len(self.manifests) - 1) * PERIOD_MS - 30_000

    def announce(self, **changes: Any) -> None:
        number = len(self.manifests) + 1
        opens_at = START + (number - 1) * PERIOD_MS
        key = GatewayKey(opens_at // PERIOD_MS % 256, X25519PrivateKey(bytes([number]) * 32))
        made = make_manifest(
            self.document,
            opens_at=opens_at,
            model=names(self.document, self.state),
            gateway_keys=encode_key_configurations([key.configuration]),
            before=self.manifests[-1] if self.manifests else None,
            last=self.last,
        )
        made = replace(made, **changes)
        self.manifests.append(made)
        self.states.append(self.state)
        self.append(made.log_entry)

    def conclude(self, tally: Tally | None) -> None:
        if tally is None:
            self.last = last_round(None)
            return
        packages = sum(int(part.sum()) for part in (tally.plus, tally.minus, tally.participants, tally.cells))
        count = RelayCount(self.manifests[-1].opens_at, clients=20, capsules=packages).signed(RELAY)
        self.last = last_round(tally, relay_count=count)
        assert self.last.tally is not None
        self.tallies[self.last.tally] = generate_protocol.travelling(tally, self.document.experiment)
        self.state = aggregate.step(self.document.experiment, self.state, tally)

    def end(self) -> None:
        self.ending = make_ending(
            self.document,
            why=Why.FINISHED,
            model=names(self.document, self.state),
            before=self.manifests[-1],
            last=self.last,
        )
        self.append(self.ending.log_entry)

    def checkpoint(self, size: int, now: int, witnesses: tuple[int, ...] = (0, 2)) -> SignedCheckpoint:
        signed = self.log.checkpoint(size)
        made = signed.checkpoint
        lines = [made.cosign(WITNESSES[i], name=f"w{i}.example", time_s=now // 1000 - i) for i in witnesses]
        return signed.cosigned(*lines)

    def logged(self, index: int, size: int | None = None) -> LoggedEntry:
        """An entry with its proof, under a checkpoint that nobody has cosigned."""
        return LoggedEntry(self.log.entries[index], self.log.proof(index, self.log.checkpoint(size)))

    def served(self, first: int) -> Served:
        """From this round on."""
        told: list[RoundManifest | Ending] = [*self.manifests[first - 1 :]]
        told += [] if self.ending is None else [self.ending]
        since = 0 if first == 1 else self.size_at(self.manifests[first - 2])
        return Served(
            manifests=tuple(one.signed([COORDINATOR]) for one in self.manifests[first - 1 :]),
            checkpoint=self.checkpoint(self.log.tree.size, self.now).data,
            lines=tuple(self.log.entries[since:]),
            tallies={name: self.tallies[name] for name in tallies_named(told)},
            ending=None if self.ending is None else self.ending.signed([COORDINATOR]),
        )


def history(name: str, rounds: int, **changes: Any) -> History:
    """So many rounds, the third of them abandoned; the last is announced and open."""
    experiment = EXPERIMENTS[name]
    told: dict[str, Any] = {
        "title": name,
        "question": "",
        "experiment": experiment,
        "features": FeaturesWanted(source="words", description=""),
        "binning": HashedBins(bins=experiment.n_bins, salt=bytes(16)),
        "windows": Windows(length_s=LENGTH_S, grace_s=GRACE_S, first_opening=START),
        "floor": 2,
        "train_share": Fraction(1, 2),
        "rounds": 9,
        "coordinator_keys": (COORDINATOR.public,),
        "relays": (Relay(url="https://relay.example/", key=RELAY.public),),
        "log": log_terms(),
    }
    made = History(ExperimentDocument(**{**told, **changes}))
    for number in range(1, rounds + 1):
        made.announce()
        if number < rounds:
            made.conclude(None if number == 3 else counted(made, number))
    return made


def counted(of: History, number: int) -> Tally:
    """A tally of four people, another for each round."""
    experiment = of.document.experiment
    empty = aggregate.empty_tally(experiment)
    labels = len(experiment.labels)
    plus, minus = empty.plus.copy(), empty.minus.copy()
    for model in range(experiment.models.n_models):
        for column in range(experiment.n_bins + 1):
            plus[model, column] = (number + model + column) % 2
            minus[model, column] = (number + column) % 2
    people = np.array([2, 1, 1][:labels], dtype=np.int64)
    return Tally(plus=plus, minus=minus, participants=people, cells=np.eye(labels, dtype=np.int64))


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def look(of: History, first: int) -> JSON:
    """What is served to a device that needs rounds from the first on, and what it keeps then."""
    device = TrustedRounds(of.document, of.envelope)
    checked = device.check(of.served(1), now=of.now)
    trusted = checked.trusted
    return {
        "now": of.now,
        **write(of.served(first)),
        "size": trusted.log.frontier.size,
        "hashes": trusted.log.frontier.hashes,
        **dict(zip(("state", "training_weights", "evaluation_weights"), checked.model.names, strict=True)),
    }


def ended(name: str) -> History:
    """Five rounds and the ending."""
    made = history(name, 5)
    made.conclude(counted(made, 5))
    made.end()
    return made


def trusted() -> JSON:
    """Honest histories, looked at round by round, over gaps, and by newcomers."""
    return {
        "description": "What devices are served, look after look, and what they keep; each history is believed.",
        "histories": [
            {
                "experiment": history(name, 1).envelope,
                "looks": [look(history(name, number), first) for number, first in plan] + tail,
            }
            for name in EXPERIMENTS
            for plan, tail in (
                ([(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)], [look(ended(name), 6)]),
                ([(2, 1), (5, 3)], []),
                ([(5, 1)], []),
                ([], [look(ended(name), 1)]),
            )
        ],
    }


def bad_trusted() -> JSON:
    """What a device that believes round 2 is served instead of rounds 3 and 4."""
    of = history("pegasos", 4)
    good = of.served(3)

    size, since = of.log.tree.size, of.log.tree.size - len(good.lines)

    def with_checkpoint(signed: SignedCheckpoint) -> Served:
        return replace(good, checkpoint=signed.data, lines=tuple(of.log.entries[since : signed.checkpoint.size]))

    def with_entry(entry: Entry, *, at: int | None = None) -> Served:
        """The log with a further entry, at the end or in the place of this one, cosigned like the honest one."""
        other = history("pegasos", 4)
        place = len(other.log.entries) if at is None else at
        lines = [*other.log.entries[:place], entry.to_bytes(), *other.log.entries[place + 1 :]]
        other.log = WitnessedLog(other.log.origin, LOG, lines)
        signed = other.checkpoint(len(lines), of.now)
        return replace(good, checkpoint=signed.data, lines=tuple(lines[since:]))

    def changed(**changes: Any) -> Served:
        """The fourth manifest with these changes, logged and cosigned like the honest one."""
        other = history("pegasos", 3)
        other.conclude(None)
        other.announce(**changes)
        return other.served(3)

    digest = of.document.digest
    late = of.checkpoint(size, of.now - 3_700_000)
    cases: dict[str, tuple[str, Served]] = {
        "no checkpoint": ("malformed", replace(good, checkpoint=b"")),
        "a line is missing": ("malformed", replace(good, lines=good.lines[1:])),
        "a line too many": ("malformed", replace(good, lines=(*good.lines, good.lines[0]))),
        "a line that is none": ("malformed", replace(good, lines=(b"line\n", *good.lines[1:]))),
        "lines in another order": ("proof", replace(good, lines=good.lines[::-1])),
        "an entry that was logged before": ("proof", with_entry(manifest_entry(digest, 1, "ab" * 32), at=since)),
        "the experiment again": ("two-entries", with_entry(experiment_entry(digest))),
        "another manifest of the newest round, logged after it": (
            "not-in-log",
            with_entry(manifest_entry(digest, 4, "ab" * 32)),
        ),
        "another manifest of the newest round, logged in its place": (
            "not-in-log",
            with_entry(manifest_entry(digest, 4, "ab" * 32), at=size - 1),
        ),
        "another manifest of the round that is believed": (
            "not-in-log",
            with_entry(manifest_entry(digest, 2, "ab" * 32), at=since),
        ),
        "a manifest is missing": ("malformed", replace(good, manifests=good.manifests[1:])),
        "the tally is missing": ("malformed", replace(good, tallies={})),
        "a tally of other bytes": ("malformed", replace(good, tallies=dict.fromkeys(good.tallies, b"tally"))),
        "the manifest is signed by a stranger": (
            "signature",
            replace(good, manifests=(good.manifests[0], of.manifests[3].signed([STRANGER]))),
        ),
        "one witness": ("signature", with_checkpoint(of.checkpoint(size, of.now, (1,)))),
        "one witness, twice": ("signature", with_checkpoint(of.checkpoint(size, of.now, (1, 1)))),
        "cosigned more than an hour ago": ("stale", with_checkpoint(late)),
        "cosigned in two minutes": ("stale", with_checkpoint(of.checkpoint(size, of.now + 120_000))),
        "the log of the round before": ("proof", with_checkpoint(of.checkpoint(size - 1, of.now))),
        "a log that has grown": (
            "stale round",
            replace(good, manifests=good.manifests[:1]),
        ),
        "another state": ("bad-document", changed(state="ab" * 32)),
        "a window that is too short": ("bad-document", changed(closes_at=of.manifests[3].closes_at - 1)),
        "a quota below the budget": ("bad-document", changed(quota=4)),
        "another manifest before it": ("bad-document", changed(previous="ab" * 32)),
    }
    two = history("pegasos", 2)

    def third(last: dict[str, Any] | None = None, *, step: int | None = None, **changes: Any) -> Served:
        """The third manifest with these changes: to how the round before ended, to the state, to itself."""
        other = history("pegasos", 2)
        other.conclude(counted(other, 2))
        assert other.last is not None
        other.state = other.state if step is None else replace(other.state, step=step)
        other.announce(**({} if last is None else {"last": replace(other.last, **last)}), **changes)
        return other.served(3)

    def count(opened_at: int, capsules: int) -> JSON:
        return {"relay_count": RelayCount(opened_at, 20, capsules).signed(RELAY)}

    opened_at = two.manifests[-1].opens_at
    cases |= {
        "training weights that are not the state's": ("wrong-step", third(training_weights="ab" * 32)),
        "evaluation weights that are not the state's": ("wrong-step", third(evaluation_weights="ab" * 32)),
        "a state with another number of steps": ("wrong-step", third(step=7)),
        "counts that the tally does not have": ("wrong-counts", third({"participants": (3, 1, 1)})),
        "more packages than the relay had capsules": ("wrong-counts", third(count(opened_at, 3))),
        "a relay's count of 256 slots ago": ("wrong-counts", third(count(opened_at - 256 * PERIOD_MS, 999))),
        "no relay's count": ("bad-document", third({"relay_count": None})),
    }
    second = replace(two.manifests[1], quota=9)
    cases["a second manifest for the round"] = (
        "two-documents",
        replace(good, manifests=(second.signed([COORDINATOR]), *good.manifests)),
    )
    return {
        "description": "What is refused by a device that has taken `believed`, and at `now` took `good`.",
        "experiment": of.envelope,
        "believed": look(two, 1),
        "now": of.now,
        "good": write(good),
        "cases": [{"why": why, "fault": fault, **write(served)} for why, (fault, served) in cases.items()],
    }


def write(served: Served) -> JSON:
    """What is served, as vectors write it."""
    return {
        "manifests": served.manifests,
        "ending": served.ending,
        "checkpoint": served.checkpoint.decode(),
        "lines": [line.decode() for line in served.lines],
        "tallies": served.tallies,
    }


def pieces() -> dict[str, Evidence]:
    """One piece of evidence of each kind, and more."""
    of = history("swift", 3)
    sign = [COORDINATOR]
    one, two, three = of.manifests
    blob = of.tallies[three.last.tally or ""] if three.last is not None else b""
    state = of.states[1].to_bytes()
    wrong = replace(three, training_weights="ab" * 32)
    liar = history("swift", 3)
    liar.append(replace(three, quota=9).log_entry)
    size = of.size_at(one)
    honest = of.checkpoint(size, of.now, ())
    forked = Checkpoint(honest.checkpoint.origin, size, bytes(32)).sign(LOG)
    assert three.last is not None
    few = replace(three, last=replace(three.last, participants=(3, 1)))

    def piece(kind: Kind, *documents: RoundManifest, **more: Any) -> Evidence:
        signed = tuple(one.signed(sign) for one in documents)
        return Evidence(kind=kind, experiment=of.envelope, documents=signed, **more)

    last = liar.logged(len(liar.log.entries) - 1)
    return {
        "two manifests for round 1": piece(Kind.TWO_DOCUMENTS, one, replace(one, quota=9)),
        "a manifest that its experiment forbids": piece(Kind.BAD_DOCUMENT, replace(one, quota=1)),
        "a manifest that does not continue": piece(Kind.BAD_DOCUMENT, one, replace(two, previous="ab" * 32)),
        "a step that does not follow": piece(Kind.WRONG_STEP, two, wrong, blobs=(state, blob)),
        "a first model that is not zero": piece(Kind.WRONG_STEP, replace(one, state="ab" * 32)),
        "counts that the tally does not have": piece(Kind.WRONG_COUNTS, few, blobs=(blob,)),
        "two trees of one size": piece(Kind.FORKED_LOG, checkpoints=(honest.data, forked)),
        "a log with another manifest of round 3": piece(Kind.NOT_IN_LOG, three, entries=(last,)),
        "two entries for round 3": piece(Kind.TWO_ENTRIES, entries=(liar.logged(of.size_at(three) - 1), last)),
    }


def evidence() -> JSON:
    """Files that convict."""
    return {
        "description": "Each `file` shows, by itself, what its `kind` says, of the experiment of this digest.",
        "cases": [
            {
                "why": why,
                "kind": piece.kind.value,
                "experiment": history("swift", 3).document.digest,
                "file": piece.to_bytes().decode(),
            }
            for why, piece in pieces().items()
        ],
    }


def bad_evidence() -> JSON:
    """Files that show nothing."""
    of = history("swift", 3)
    sign = [COORDINATOR]
    one, two, three = of.manifests
    found = pieces()
    step, twice, fork = (
        found[name] for name in ("a step that does not follow", "two manifests for round 1", "two trees of one size")
    )
    note = of.checkpoint(2, of.now, ()).data
    absent, entries = found["a log with another manifest of round 3"], found["two entries for round 3"]
    first, second, third = (of.logged(of.size_at(told) - 1) for told in of.manifests)
    cases = {
        "the same manifest twice": replace(twice, documents=twice.documents[:1] * 2),
        "manifests of two rounds": replace(twice, documents=(one.signed(sign), two.signed(sign))),
        "one manifest": replace(twice, documents=twice.documents[:1]),
        "a manifest by a stranger": replace(
            twice, documents=(one.signed(sign), replace(one, quota=9).signed([STRANGER]))
        ),
        "a step that follows": replace(step, documents=(two.signed(sign), three.signed(sign))),
        "a step without its tally": replace(step, blobs=step.blobs[:1]),
        "another tally": replace(step, blobs=(step.blobs[0], step.blobs[0])),
        "a manifest that is right": replace(
            found["a manifest that its experiment forbids"], documents=(one.signed(sign),)
        ),
        "one tree": replace(fork, checkpoints=(note, note)),
        "trees of two sizes": replace(fork, checkpoints=(note, of.checkpoint(3, of.now, ()).data)),
        "a log that holds it": replace(absent, entries=(third,)),
        "an entry of another round": replace(absent, entries=(second,)),
        "an entry that does not stand there": replace(
            absent, entries=(LoggedEntry(absent.entries[0].entry, third.proof),)
        ),
        "an entry of another experiment": replace(absent, entries=(of.logged(0),)),
        "a document and no entry": replace(absent, entries=()),
        "entries of two rounds in their order": replace(entries, entries=(first, second)),
        "one entry under two checkpoints": replace(
            entries, entries=(third, of.logged(of.size_at(three) - 1, of.size_at(three)))
        ),
        "no parts": Evidence(kind=Kind.NOT_IN_LOG, experiment=of.envelope),
        "a part too many": replace(twice, blobs=(b"mark",)),
        "another experiment": replace(twice, experiment=history("pegasos", 1).envelope),
    }
    return {
        "description": "No `file` shows anything.",
        "cases": [{"why": why, "file": piece.to_bytes().decode()} for why, piece in cases.items()],
    }


FILES: dict[str, Callable[[], JSON]] = {
    maker.__name__: maker for maker in (trusted, bad_trusted, evidence, bad_evidence)
}
