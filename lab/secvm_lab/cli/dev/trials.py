"""``secvm dev trials``: every lie that we know told many times, and as many honest runs."""

from __future__ import annotations

from typing import Annotated

import typer

from secvm.cli.output import Format, FormatOption, emit, progress
from secvm.errors import BadInputError


def trials(
    *,
    count: Annotated[int, typer.Option("--trials", help="So many of each lie, and of honest runs.", min=1)] = 1000,
    seed: Annotated[str, typer.Option("--seed", help="The same seed, the same trials.")] = "0",
    lie: Annotated[list[str] | None, typer.Option("--lie", help="Only this lie; may be given again.")] = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Tell devices every known lie, and count who notices.

    Each trial is an honest past at random and a lie at random: which round, which rule, which variant, a newcomer or
    somebody who has followed. Honest runs have absences, late joiners, abandoned rounds, changing keys, and in half of
    them a second implementation of the rules. Ends with 1 if a lie is believed that should be caught, or an honest run
    refused. With one relay a forged tally within the budget is expected not to be detected. Lies about a count with two
    relays are told to an auditor, who counts again, and to a device that looks at one shard. Examples:

    \b
        ./secvm dev trials --trials 50 --format json
        ./secvm dev trials --lie sign-swapped --lie honest-count
    """
    from secvm_lab.trials import HONEST, HONEST_COUNT, TRIALS, run

    unknown = sorted(set(lie or ()) - set(TRIALS))
    if unknown:
        raise BadInputError(f"there is no lie '{unknown[0]}'", next_step=f"Known: {', '.join(TRIALS)}.")
    chosen = [name for name in TRIALS if not lie or name in lie]
    with progress("trials", count * len(chosen)) as advance:
        counts = run(chosen, trials=count, seed=seed, advance=advance)
    right = not any(found.deviating for found in counts.values())
    honest = {name: counts[name] for name in (HONEST, HONEST_COUNT) if name in counts}
    result = {
        "trials": count,
        "seed": seed,
        "as_expected": right,
        "lies": {
            found.name: {
                "caught": found.caught,
                "not_caught": found.trials - found.caught,
                "expected": "caught" if TRIALS[found.name][0] else "not detected",
                "by": dict(found.by.most_common()),
                "device": dict(found.device.most_common()),
                "audit": dict(found.audit.most_common()),
                "deviating": found.deviating,
            }
            for found in counts.values()
            if found.name not in honest
        },
        **{
            name: {"runs": found.trials, "refused": found.caught, "deviating": found.deviating}
            for name, found in honest.items()
        },
    }
    emit(result, output_format)
    if not right:
        raise typer.Exit(1)
