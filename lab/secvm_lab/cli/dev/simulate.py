"""``secvm dev simulate``: lists of operations over a whole federation in one process, for as long as one likes."""

from __future__ import annotations

import random
import resource
import time
from collections import Counter
from collections.abc import Mapping
from typing import Annotated

import typer

from secvm.cli.output import Format, FormatOption, emit, note, progress

#: Lists are longer than those in the tests: there is time.
_MOST_OPERATIONS = 30


def simulate(
    *,
    minutes: Annotated[float, typer.Option("--minutes", help="Begin no new list after so long.", min=0)] = 10.0,
    lists: Annotated[int | None, typer.Option("--lists", help="So many lists, however long it takes.", min=1)] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the first list; the next one has the next.", min=0)] = 0,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Play random events to a federation until one breaks it.

    Every list is another one: time passes, people come, go and pause, packages are lost, doubled, spoilt and replayed,
    processes die at any point, disks fill up, clocks jump, drivers lose their lead. After every operation and at the
    end all that must hold is checked. Ends with 1 at the first list that goes wrong; what is printed then is a test to
    paste. Example:

    \b
        ./secvm dev simulate --minutes 120
        ./secvm dev simulate --lists 1 --seed 4711
    """
    from secvm_lab.simulation import Simulation, SimulationError, draw
    from secvm_lab.simulation.question import WAYS

    begun = time.monotonic()
    done: Counter[str] = Counter()
    played, fault = 0, ""
    with progress("lists", lists) as advance:
        while not fault and (played < lists if lists else played == 0 or time.monotonic() < begun + 60 * minutes):
            dice = random.Random(seed + played)  # noqa: S311  (which list it is, is no secret)
            ops = draw(dice, most=_MOST_OPERATIONS)
            simulation = Simulation(way=dice.choice(WAYS), rounds=dice.choice((1, 1, 2)), seed=dice.getrandbits(32))
            try:
                done += simulation.play(ops)
            except SimulationError as found:
                note(f"seed {seed + played}: {found.sentence}; looking for a shorter list")
                fault = str(simulation.shortest(ops))
            played += 1
            advance(1)
    told = {
        "lists": played,
        "seed": seed,
        "right": not fault,
        "repro": fault or None,
        "happened": dict(sorted(done.items())),
        "seconds": round(time.monotonic() - begun, 1),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }
    emit(told, output_format, text=_in_words(told, done, fault))
    if fault:
        raise typer.Exit(1)


def _in_words(told: Mapping[str, object], done: Counter[str], fault: str) -> str:
    if fault:
        return fault
    return (
        f"{told['lists']} lists in {told['seconds']} s, all right: {done['sent']} packages sent, {done['counted']}"
        f" counted in {done['tallied']} rounds; {done['crashes'] + done['faults']} processes ended,"
        f" {done['taken over']} leads lost, {done['jumped']} clocks set"
    )
