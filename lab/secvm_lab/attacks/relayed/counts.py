"""Attacks on what is counted: by relays that lie about batches and cover, and by a coordinator that invents."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from secvm.learning import aggregate
from secvm.learning.cover_law import Noise, RelayCover
from secvm.privacy.statements.detection import dropped_in_cell, typical_cell
from secvm.protocol.documents.recomputation import after_opened
from secvm.protocol.relays.counts import EntryCount, MixCount, entry_reveal
from secvm.protocol.relays.opening import is_opened
from secvm_lab.attacks.attack import Attack, Goal, Measurement
from secvm_lab.attacks.relayed.caught_relays import Caught, RelayedRound, by_content, false_parts
from secvm_lab.attacks.relayed.stage import Stage
from secvm_lab.attacks.relayed.trap import Tried, held, refused, trap
from secvm_lab.attacks.views import Nothing
from secvm_lab.rigs.histories.relayed_rounds import MIX, STRANGER
from secvm_lab.rigs.histories.relayed_rounds import RelayedRound as SaidRound

#: Ten thousand people of a hundred words in a thousand bins at ε = 1, as the planner has it.
FLAGSHIP = RelayedRound(
    cover=RelayCover(
        train=Noise(cells=2_002, shape=Fraction(15), odds=Fraction(21, 2)),
        participation=Noise(cells=4, shape=Fraction(15), odds=Fraction(7)),
        test=Noise(cells=4, shape=Fraction(15), odds=Fraction(7)),
        parts=9,
        packages=9 * 43_889,
    ),
    devices=10_000,
    budget=103,
    in_mean_cell=250,
    in_fullest_cell=2_900,
)
#: Packages of the mean cell that a relay drops.
_DROPPED = 165
_SHOUTED = 100_000


@trap(
    28,
    "two counts, two parts",
    needs="The mixing relay.",
    steps=("Sign two counts over one batch.", "Have the entry relay open a part for each, and take both off."),
    defence="The entry relay answers the first count of a label, once, ever; two counts convict the mixing relay.",
)
def second_part(_dice: random.Random, folder: Path, *, defended: bool) -> Tried:
    """X signs count after count over one batch; whoever answers two of them opens two parts of its cover."""
    with Stage(folder) as stage:
        entry = stage.entry()
        stage.send(entry, 0, 1)
        own, now = EntryCount.enclosed(stage.batch(entry)[0]), stage.plan.instants.batch_by
        entry.handed_on()
        opened = set[int]()
        for number in range(20):
            count = MixCount(
                label=own.label,
                entry_count=own.digest,
                refused=0,
                capsules=own.capsules + stage.plan.packages,
                root=bytes([number]) * 32,
            ).signed(MIX)
            reveal = entry_reveal(stage.told.secret("entry"), count, parts=stage.plan.parts)
            # Without the rule every count is answered; with it by the relay that was asked.
            if not defended or refused("", partial(entry.answer, count, now)).succeeded:
                opened.add(reveal.part)
    return held("refused by one reveal a label", succeeded=len(opened) > 1)


@trap(
    29,
    "foreign batch",
    needs="Anybody who reaches the mixing relay first.",
    steps=("Hand in a batch under the round's label before the entry relay does.",),
    defence="The mixing relay takes a batch that the entry relay signed, and opens nothing else.",
)
def foreign_batch(_dice: random.Random, folder: Path, *, defended: bool) -> Tried:
    """The mixing relay is handed a batch that somebody else signed."""
    with Stage(folder) as stage:
        entry = stage.entry()
        stage.send(entry, 0)
        count, _ = stage.batch(entry)
        foreign = EntryCount.enclosed(count).signed(STRANGER)
        plan = stage.plan if defended else replace(stage.plan, entry_key=STRANGER.public)
        mix = stage.mix(plan)
        return refused("the entry relay's signature", lambda: mix.announce(foreign, plan.instants.batch_by))


@trap(
    33,
    "count withheld",
    needs="The coordinator (F8).",
    steps=("Publish a tally without the relays' counts.", "Step the model from it."),
    defence="A round without a complete opening is unopened: no device steps from it, and two of ten end it.",
)
def withheld_count(_dice: random.Random, _folder: Path, *, defended: bool) -> Tried:
    """The coordinator publishes a tally without the counts that it would have to agree with, and steps from it."""
    told = SaidRound(clients=5)
    opening = replace(told.opening, entry_count=None, mix_count=None)
    if defended:
        opened = is_opened(opening, told.manifest, told.document)
        return held("unopened without both counts", succeeded=opened)
    net = aggregate.empty_tally(told.document.experiment)
    net.participants[:], net.plus[0, 0] = 9, 12
    start = aggregate.start(told.document.experiment)
    return held("", succeeded=after_opened(told.document, start, net, clients=5).stayed is None)


@trap(
    34,
    "invented package",
    needs="The coordinator.",
    steps=("Add a package to the net tally.",),
    defence="Capsules and the count key's seed are public: raw = net + opened parts, and everybody recounts.",
    tries=2,
)
def invented(_dice: random.Random, _folder: Path, *, defended: bool) -> Tried:
    """The coordinator adds a package to the tally that devices step from."""
    # Late: an auditor reads everything.
    from secvm.auditor.audit import audit_files  # noqa: PLC0415
    from secvm.auditor.files import GivenFiles  # noqa: PLC0415
    from secvm.auditor.findings import FaultKind  # noqa: PLC0415
    from secvm_lab.rigs.lies.about_relays import RELAYED_LIES  # noqa: PLC0415

    made = RELAYED_LIES["package_invented"].tell()
    # Without the rule all but the capsules: what could be looked at before seeds were published.
    files = {path: data for path, data in made.files.items() if defended or "/capsules/" not in path}
    report = audit_files(GivenFiles(files), now=made.now, doors=made.door_at)
    return held("seen in everybody's recount", succeeded=FaultKind.RAW not in {fault.kind for fault in report.faults})


@trap(
    35,
    "shouting in one cell",
    needs="Devices with many addresses.",
    steps=(f"Send {_SHOUTED:,} packages of one cell.",),
    defence="A round in which a cell has more than M + 2q is opened and not stepped.",
    remains="It is not stepped: whoever can shout can stop every round (A16 says how few that are).",
)
def shouted(_dice: random.Random, _folder: Path, *, defended: bool) -> Tried:
    """Devices put a hundred thousand packages into one cell."""
    told = SaidRound(clients=5)
    net = aggregate.empty_tally(told.document.experiment)
    net.participants[:], net.plus[0, 0] = 9, _SHOUTED
    start = aggregate.start(told.document.experiment)
    if not defended:
        return held("", succeeded=aggregate.step(told.document.experiment, start, net) != start)
    stayed = after_opened(told.document, start, net, clients=5).stayed
    return held("not stepped above M + 2q", succeeded=stayed is None)


def _unseen_in_mean_cell() -> float:
    """The chance that the dropped packages of the mean cell are all of other parts, as a statement tells it."""
    noise, parts = FLAGSHIP.cover.train, FLAGSHIP.cover.parts
    cell = typical_cell(noise, parts, FLAGSHIP.in_mean_cell)
    return 1 - dropped_in_cell(_DROPPED, cell, shape=noise.part(parts), parts=parts)


def _promised(sentence: str, most: float) -> Goal:
    def met(undefended: Measurement, defended: Measurement) -> bool:
        return undefended.value == 1 and defended.ci95[0] <= most

    return Goal(f"{sentence} (95 % interval)", met)


def _lazy(
    number: int, title: str, does: str, cheat: Callable[[np.random.Generator], Caught], unseen: float
) -> Attack[Tried, Nothing, bool]:
    @trap(
        number,
        title,
        needs="One relay, with the coordinator where it needs to know cells.",
        steps=(does, "Go unseen when one part of nine is opened."),
        defence="One part of each relay's cover is opened after both have counted, and everybody derives it.",
        remains="Each round is one draw: what is unseen in one is seen sooner or later." if unseen else "",
        aim=_promised(f"unseen at most {unseen:.3f} of rounds", unseen),
        tries=400,
    )
    def once(dice: random.Random, _folder: Path, *, defended: bool) -> Tried:
        """A round in which a relay cheats, and whether the opened part shows nothing."""
        if not defended:
            # Where no part is ever opened there is nothing to compare with.
            return Tried(succeeded=True)
        found = cheat(np.random.default_rng(dice.getrandbits(64)))
        return held("seen in the opened part", succeeded=found.seen < found.rounds)

    return once


no_cover = _lazy(
    30,
    "relay without cover",
    "Add no cover at all.",
    lambda dice: false_parts(dice, 1, FLAGSHIP, Fraction(1)),
    0.0,
)
leaning = _lazy(
    31,
    "cover that leans in one part",
    "Falsify one part of nine.",
    lambda dice: false_parts(dice, 1, FLAGSHIP, Fraction(1, 9)),
    8 / 9,
)
dropped = _lazy(
    32,
    "packages of a cell dropped",
    f"Drop {_DROPPED} packages of one cell, which the coordinator can tell.",
    lambda dice: by_content(dice, 1, FLAGSHIP, _DROPPED),
    _unseen_in_mean_cell(),
)
