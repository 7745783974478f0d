"""``secvm dev fuzz``: every decoder under a fuzzer."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Annotated

import typer

from secvm.cli.output import Format, FormatOption, emit, note, progress
from secvm.errors import BadInputError


def fuzz(
    *,
    inputs: Annotated[
        int, typer.Option("--inputs", help="Inputs over all targets together; each gets 1,000 at least.", min=1)
    ] = 10_000_000,
    target: Annotated[
        list[str] | None, typer.Option("--target", help="Only this one; several times for several.", metavar="NAME")
    ] = None,
    processes: Annotated[int, typer.Option("--processes", help="Side by side.", min=1, max=64)] = 2,
    seed: Annotated[int, typer.Option("--seed", help="Of the fuzzer's dice.", min=0)] = 0,
    keep: Annotated[bool, typer.Option("--keep", help="Add to the kept corpus what reaches further.")] = False,
    escapes: Annotated[Path, typer.Option("--escapes", help="Folder for inputs that escape.")] = Path("fuzz-escapes"),
    output_format: FormatOption = Format.TXT,
) -> None:
    """Fuzz every decoder.

    Bytes are changed by atheris (libFuzzer), guided by which lines of code they reach. A decoder takes them, or refuses
    them with an error that it documents. Anything else is an escape, as are a hang, too much memory, and a format whose
    one encoding turns out to be two. Ends with 1 if there was one, and shows the input.
    Example:

    \b
        ./secvm dev fuzz --inputs 1000000 --target manifest --target http
    """
    from secvm_lab.fuzz import campaign
    from secvm_lab.fuzz.corpus import find_corpus, read_corpus
    from secvm_lab.fuzz.corpus import keep as keep_corpus
    from secvm_lab.fuzz.registry import TARGETS

    campaign.check_platform()
    corpus = find_corpus()
    unknown = [name for name in target or [] if name not in TARGETS]
    if unknown:
        raise BadInputError(f"there is no target {unknown[0]!r}", next_step=f"There are: {', '.join(TARGETS)}.")
    chosen = [TARGETS[name] for name in target or TARGETS]
    started = time.monotonic()

    def tell(name: str, outcome: campaign.Outcome) -> None:
        if outcome.escape is not None:
            note(f"{name}: ESCAPE after {outcome.inputs} inputs\n{outcome.escape[0]}")

    with progress("inputs", inputs) as advance:
        outcomes = campaign.run_campaign(
            chosen, inputs=inputs, seed=seed, corpus=corpus, processes=processes, advance=advance, tell=tell
        )
    escaped = campaign.write_escapes(outcomes, escapes)
    if keep and not escaped:
        for one in chosen:
            count = keep_corpus(corpus, one, [*one.seeds(), *read_corpus(corpus, one), *outcomes[one.name].found])
            note(f"{one.name}: {count} kept")
    result = campaign.as_result(outcomes)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    peak = max(own, *(outcome.rss_mb for outcome in outcomes.values()))
    result |= {"seconds": round(time.monotonic() - started, 1), "peak_rss_mb": round(peak, 1)}
    text = (
        f"{result['inputs']} inputs over {len(outcomes)} targets in {result['seconds']} s:"
        f" {result['escapes'] or 'no'} escapes"
    )
    emit(result, output_format, text=text)
    if escaped:
        note(f"see {', '.join(str(path) for path in escaped)}")
        raise typer.Exit(1)
