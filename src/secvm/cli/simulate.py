"""``secvm dev simulate``: federations of real processes, killed at random moments, for as long as one likes."""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from secvm.cli.output import note


def simulate(
    *,
    minutes: Annotated[float, typer.Option("--minutes", help="Begin no new federation after so long.", min=0)] = 10.0,
    seed: Annotated[int, typer.Option("--seed", help="Of the first federation; the next one has the next.", min=0)] = 0,
    participants: Annotated[int, typer.Option("--participants", help="Devices of each.", min=10, max=500)] = 24,
    rounds: Annotated[int, typer.Option("--rounds", help="Rounds of each.", min=1, max=100)] = 3,
) -> None:
    """Kill real processes at random moments until something breaks.

    Witnesses, coordinator, relay and devices are killed with SIGKILL and started again, over and over. What comes out
    must be, byte for byte, what comes out undisturbed. Ends with 1 at the first difference, and says how to see it
    again.
    Example:

    \b
        ./secvm dev simulate --minutes 30
    """
    from secvm.lab.disturbed import run_disturbed
    from secvm.testing.federation import Federation
    from secvm.testing.kills import Kills

    end = time.monotonic() + 60 * minutes
    done: Counter[str] = Counter()
    runs = 0
    while runs == 0 or time.monotonic() < end:
        current = seed + runs
        descent = ("swift", "pegasos")[current % 2]
        struck: list[Kills] = []

        def disturb(federation: Federation, current: int = current, struck: list[Kills] = struck) -> None:
            struck.append(Kills(federation, random.Random(current), pause_s=0.3))  # noqa: S311  (who dies is no secret)
            federation.clock.meanwhile = struck[0].strike

        with tempfile.TemporaryDirectory(prefix="secvm-simulate-") as folder:
            outcome = run_disturbed(
                Path(folder), participants=participants, rounds=rounds, seed=current, descent=descent, disturb=disturb
            )
        runs += 1
        done += struck[0].done
        note(
            f"seed {current}, {descent}: {struck[0].done.total()} kills,"
            f" {'the same bytes' if outcome.right else 'OTHER BYTES OR COUNTS'},"
            f" {outcome.unnoted} answers died with their device"
        )
        if not outcome.right:
            rows = zip(outcome.scheduled, outcome.acknowledged, outcome.counted, outcome.given_up, strict=True)
            for number, (scheduled, acknowledged, counted, given_up) in enumerate(rows, start=1):
                same = outcome.tallies[number - 1] == outcome.expected_tallies[number - 1]
                note(
                    f"round {number}: {scheduled} scheduled, {acknowledged} seen acknowledged, {counted} deposited,"
                    f" {given_up} given up in time,"
                    f" {'the same' if same else 'another'} tally"
                )
            note(f"forks that witnesses kept: {outcome.forks}; faults: {'; '.join(outcome.faults) or 'none'}")
            note(f"./secvm dev simulate --minutes 0 --seed {current} --participants {participants} --rounds {rounds}")
            raise typer.Exit(1)
    told = ", ".join(f"{name} {count}" for name, count in sorted(done.items()))
    note(f"{runs} federations, {done.total()} kills ({told}): every one ended in the bytes of the undisturbed run")
