"""What every liar has: the coordinator's key and the log's, a victim, and witnesses who cannot be had twice.

A liar signs what it likes as coordinator and as log. Witnesses are honest: they cosign whatever extends what they have
seen, and nothing else. So what the liar tells *everybody* may be cosigned by all of them; of a fork that it shows to
one device it gets at most one line less than a quorum, by showing it first to some of them, or with some on its side.
That last line it tries to make up for (``padding``).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from secvm.crypto.notes import NoteSignature, cosign_note
from secvm.learning.aggregate.descent import State
from secvm.learning.aggregate.tally import Tally
from secvm.learning.weights import Weights
from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.manifest import LastRound, RoundManifest
from secvm.protocol.log.checkpoints import SignedCheckpoint
from secvm.protocol.log.policy import LogTerms
from secvm.protocol.trust.trusted_rounds import Trusted, TrustedRounds
from secvm_lab.rigs.histories.public_history import PublicHistory
from secvm_lab.rigs.histories.random_experiments import HonestWitness, Parties, draw_key
from secvm_lab.rigs.histories.witnessed_log import WitnessedLog

Step = Callable[[State, Tally], State]
Shown = Callable[[State], tuple[Weights, Weights]]


class Liar(PublicHistory):
    """A coordinator that goes on from an honest past in its own way."""

    #: Whether this is a fork, for which it finds one witness too few.
    forking: bool
    wrong_step: Step | None
    wrong_weights: Shown | None

    @classmethod
    def after(
        cls, past: PublicHistory, *, forking: bool = False, step: Step | None = None, weights: Shown | None = None
    ) -> Liar:
        """A liar with this past."""
        liar = cls.__new__(cls)
        liar.__dict__.update(past.branch().__dict__)
        liar.forking, liar.wrong_step, liar.wrong_weights = forking, step, weights
        return liar

    def step(self, state: State, tally: Tally) -> State:
        return (self.wrong_step or super().step)(state, tally)

    def weights(self, state: State) -> tuple[Weights, Weights]:
        return (self.wrong_weights or super().weights)(state)

    def cosign(self, now: int | None = None) -> SignedCheckpoint:
        if not self.forking:
            return super().cosign(now)
        self.now = self.now if now is None else now
        signed = one_too_few(self, self.log.checkpoint())
        self.show_checkpoint(signed)
        return signed

    def put_blob(self, data: bytes) -> str:
        """Show a blob; its digest comes back."""
        self.files[f"/v1/blob/{digest_of(data)}"] = data
        return digest_of(data)


# ── cosignatures that a liar can have ────────────────────────────────────────────────────────────────────────────────


class Logging(Protocol):
    """A history with a log and witnesses, of which a liar has the keys."""

    @property
    def dice(self) -> random.Random: ...
    @property
    def parties(self) -> Parties: ...
    @property
    def terms(self) -> LogTerms: ...
    @property
    def log(self) -> WitnessedLog: ...
    @property
    def now(self) -> int: ...


def lines_of(signed: SignedCheckpoint, witnesses: list[HonestWitness], *, time_s: int) -> list[NoteSignature]:
    """Lines of these witnesses, whatever they have seen."""
    return [signed.checkpoint.cosign(one.key, name=one.name, time_s=time_s) for one in witnesses]


def one_too_few(history: Logging, signed: SignedCheckpoint) -> SignedCheckpoint:
    """A checkpoint with the lines of all but one of a quorum, and something in the place of the last."""
    dice, time_s = history.dice, history.now // 1000
    witnesses = dice.sample(history.parties.witnesses, history.terms.quorum - 1)
    lines = lines_of(signed, witnesses, time_s=time_s)
    lines += dice.choice(PADDING)(history, signed, witnesses)
    dice.shuffle(lines)
    return signed.cosigned(*lines)


def no_padding(history: Logging, signed: SignedCheckpoint, had: list[HonestWitness]) -> list[NoteSignature]:
    """Nothing: the liar hopes that nobody counts."""
    del history, signed, had
    return []


def unknown_witness(history: Logging, signed: SignedCheckpoint, had: list[HonestWitness]) -> list[NoteSignature]:
    """Witnesses of its own, under new names or under one that the experiment knows."""
    dice = history.dice
    missing = [one.name for one in history.parties.witnesses if one not in had]
    names = [dice.choice([f"new{i}.example", dice.choice(missing)]) for i in range(dice.randint(1, 3))]
    time_s = history.now // 1000
    return [cosign_note(signed.note.text, name=name, key=draw_key(dice), time_s=time_s) for name in names]


def pretended_witness(history: Logging, signed: SignedCheckpoint, had: list[HonestWitness]) -> list[NoteSignature]:
    """A line with name and key id of a witness that did not sign, over a signature of the liar's own."""
    missing = [one for one in history.parties.witnesses if one not in had]
    pretended = history.dice.choice(missing)
    time_s = history.now // 1000
    line = cosign_note(signed.note.text, name=pretended.name, key=draw_key(history.dice), time_s=time_s)
    return [NoteSignature(line.name, pretended.public.note_key.key_id, line.data)]


def one_witness_twice(history: Logging, signed: SignedCheckpoint, had: list[HonestWitness]) -> list[NoteSignature]:
    """More lines of a witness that is already there: at another time, or under another's name, or under a new one."""
    dice, text = history.dice, signed.note.text
    if not had:
        return []
    lines = []
    for i in range(dice.randint(1, 3)):
        key = dice.choice(had).key
        names = [one.name for one in history.parties.witnesses] + [f"again{i}.example"]
        time_s = history.now // 1000 - dice.randint(0, 9)
        lines.append(cosign_note(text, name=dice.choice(names), key=key, time_s=time_s))
    return lines


def log_as_witness(history: Logging, signed: SignedCheckpoint, had: list[HonestWitness]) -> list[NoteSignature]:
    """The log, or the coordinator, cosigns as if it were a witness."""
    missing = [one.name for one in history.parties.witnesses if one not in had]
    key = history.dice.choice([history.parties.log, history.parties.coordinator])
    time_s = history.now // 1000
    return [cosign_note(signed.note.text, name=history.dice.choice(missing), key=key, time_s=time_s)]


def line_of_another_tree(history: Logging, signed: SignedCheckpoint, had: list[HonestWitness]) -> list[NoteSignature]:
    """A genuine line of a witness, from under another checkpoint."""
    del signed
    missing = [one for one in history.parties.witnesses if one not in had]
    other = history.log.checkpoint(history.dice.randint(1, max(1, history.log.tree.size - 1)))
    if other.checkpoint.size == history.log.tree.size:
        return []
    return lines_of(other, [history.dice.choice(missing)], time_s=history.now // 1000)


PADDING = (no_padding, unknown_witness, pretended_witness, one_witness_twice, log_as_witness, line_of_another_tree)


# ── the victim, and what it is told ──────────────────────────────────────────────────────────────────────────────────


@dataclass(kw_only=True)
class Told:
    """What the victim is served, and what everybody else can see."""

    #: By path.
    files: dict[str, bytes]
    now: int
    #: What an outsider finds: the same, unless the lie is told to one device alone.
    public: dict[str, bytes]
    #: Which variant of the lie it is, for reports.
    variant: str
    #: The honest newest manifest: where the victim ends up with exactly this one, the lie has changed nothing.
    honest: RoundManifest | None = None
    #: Whether an outsider sees this variant in what is public, although others of the same lie cannot be seen.
    visible: bool = False
    #: The experiment that a newcomer joins, where it is another one than the scene's.
    stage: PublicHistory | None = None
    #: The digest under which it joins; None: the history's.
    joined: str | None = None
    #: What the victim gets when it looks at the checkpoint again in the window; only then the lie begins.
    refetched: bytes | None = None


class Scene:
    """An honest past of some rounds, and the device that will be lied to.

    The past is drawn; the victim has followed it, with absences, or comes now.
    """

    #: What the victim believes; None: it has never looked.
    kept: Trusted | None = None

    def __init__(self, dice: random.Random, *, at_least: int = 0, newcomer: bool | None = None, **changes: Any) -> None:
        newcomer = dice.random() < 0.4 if newcomer is None else newcomer
        self.dice = dice
        #: All rounds so far are concluded; the next is not announced.
        self.history = PublicHistory.drawn(dice, **changes)
        #: Before each round was announced, from the first on.
        self.pasts: list[PublicHistory] = []
        for _ in range(dice.randint(max(at_least, not newcomer), 4)):
            self.pasts.append(self.history.branch())
            self.history.announce()
            if not newcomer and (self.kept is None or dice.random() < 0.6):
                self.follow(self.history)
            self.history.conclude(None if dice.random() < 0.2 else self.history.draw_tally())

    @property
    def newcomer(self) -> bool:
        """Whether the victim has never looked."""
        return self.kept is None

    def follow(self, history: PublicHistory) -> None:
        """The victim looks, and believes."""
        victim = self.victim()
        victim.believe(victim.check(history.served(victim), now=history.now))
        self.kept = victim.trusted

    def one_more(self, liar: Liar) -> tuple[LastRound, Tally]:
        """One more honest round, that the victim may follow: what a manifest says of it, and what was counted."""
        liar.announce()
        if not self.newcomer and self.dice.random() < 0.5:
            self.follow(liar)
        tally = liar.draw_tally()
        return liar.conclude(tally), tally

    def victim(self) -> TrustedRounds:
        """The victim as it is before the lie."""
        return TrustedRounds(self.history.document, self.history.envelope, self.kept)
