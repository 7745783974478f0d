"""``secvm dev trials``, ``simulate``, ``fuzz`` and ``soak``: searches for faults, as long as one likes."""

from __future__ import annotations

import enum
import random
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secvm.cli.output import Format, FormatOption, emit, note, progress
from secvm.errors import BadInputError
from secvm_lab.cli.time_left import used

if TYPE_CHECKING:
    from collections.abc import Sequence

    from secvm_lab.soak import Sample


class Whose(enum.Enum):
    """Whose device."""

    PYTHON = "python"
    BROWSER = "browser"


def trials(
    *,
    count: Annotated[int, typer.Option("--trials", help="So many of each lie, and of honest runs.", min=1)] = 1000,
    seed: Annotated[str, typer.Option("--seed", help="The same seed, the same trials.")] = "0",
    lie: Annotated[list[str] | None, typer.Option("--lie", help="Only this lie; may be given again.")] = None,
    device: Annotated[Whose, typer.Option("--device", help="Whose device hears them.")] = Whose.PYTHON,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Tell devices every known lie, and count who notices.

    Each trial is an honest past at random and a lie at random: which round, which rule, which variant, a newcomer or
    somebody who has followed. Honest runs have absences, late joiners, abandoned rounds, changing keys, and in half of
    them a second implementation of the rules. Ends with 1 if a lie is believed that should be caught, or an honest run
    refused. With one relay a forged tally within the budget is expected not to be detected. Lies about a count with two
    relays are told to an auditor, who counts again, and to a device that looks at one shard. The browser's device hears
    lies in experiments with two relays alone: it takes part in no others. Examples:

    \b
        ./secvm dev trials --trials 50 --format json
        ./secvm dev trials --lie sign-swapped --lie honest-count
        ./secvm dev trials --device browser --trials 100
    """
    from secvm_lab.rigs.lies.heard.listeners import BrowserDevices, PythonDevices
    from secvm_lab.trials import HONESTY, OF_BROWSERS, TRIALS, run

    there = OF_BROWSERS if device is Whose.BROWSER else tuple(TRIALS)
    unknown = sorted(set(lie or ()) - set(there))
    if unknown:
        raise BadInputError(f"there is no lie '{unknown[0]}'", next_step=f"Known: {', '.join(there)}.")
    chosen = [name for name in there if not lie or name in lie]
    devices = BrowserDevices() if device is Whose.BROWSER else PythonDevices()
    with closing(devices), progress("trials", count * len(chosen)) as advance:
        counts = run(chosen, trials=count, seed=seed, devices=devices, advance=advance)
    right = not any(found.deviating for found in counts.values())
    honest = {name: counts[name] for name in HONESTY if name in counts}
    result = {
        "trials": count,
        "seed": seed,
        "device": device.value,
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
        **used(begun),
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
    from secvm_lab.fuzz.registry import TARGETS
    from secvm_lab.fuzz.target import find_corpus, read_corpus
    from secvm_lab.fuzz.target import keep as keep_corpus

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
    took = used(started)
    peak = max(took["peak_rss_mb"], *(outcome.rss_mb for outcome in outcomes.values()))
    result |= {**took, "peak_rss_mb": round(peak, 1)}
    text = (
        f"{result['inputs']} inputs over {len(outcomes)} targets in {result['seconds']} s:"
        f" {result['escapes'] or 'no'} escapes"
    )
    emit(result, output_format, text=text)
    if escaped:
        note(f"see {', '.join(str(path) for path in escaped)}")
        raise typer.Exit(1)


#: Growth of memory per epoch that is called a leak, where the interval leaves no doubt.
LEAK_MB = 0.1
#: Open files and sockets more than before that are still called none.
_DESCRIPTORS = 4
_MOST_ROUNDS = 10_000


def soak(
    *,
    minutes: Annotated[float, typer.Option("--minutes", help="Begin no new epoch after so long.", min=0)] = 10.0,
    rate: Annotated[int, typer.Option("--rate", help="Packages a second.", min=10, max=20_000)] = 2000,
    epoch_s: Annotated[float, typer.Option("--epoch-s", help="Seconds of load in an epoch.", min=0.1)] = 5.0,
    nodes: Annotated[int, typer.Option("--nodes", help="Nodes on a PostgreSQL; 0: one process on a file.", min=0)] = 0,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Load a coordinator through many epochs, and measure it.

    Batches come over sockets, rounds are counted and scrubbed, and memory, open files, disk and latencies are noted
    after each. Ends with 1 where something acknowledged was not counted, or memory or open files grow.
    Example:

    \b
        ./secvm dev soak --minutes 30 --rate 3000
        ./secvm dev soak --minutes 60 --nodes 2 --format json
    """
    from secvm_lab.soak import Soak

    started = time.monotonic()
    samples: list[Sample] = []
    with tempfile.TemporaryDirectory(prefix="secvm-soak-") as folder:
        Path(folder).chmod(0o755)
        with Soak(Path(folder), rate=rate, nodes=nodes) as running:
            running.begin_rounds(_MOST_ROUNDS)
            while len(samples) < 3 or (time.monotonic() - started < 60 * minutes and len(samples) < _MOST_ROUNDS - 1):
                samples.append(running.play(len(samples) + 1, seconds=epoch_s))
                one = samples[-1]
                note(
                    f"epoch {one.number}: {one.counted} of {one.acknowledged} counted, {one.per_s:.0f}/s,"
                    f" p99 {one.p99_ms:.0f} ms, {one.rss_mb:.1f} MB, {one.descriptors} files,"
                    f" {one.disk_mb:.1f} MB on disk"
                )
    told = judged(samples)
    told |= {
        "rate": rate,
        "nodes": nodes,
        **used(started),
    }
    emit(told, output_format)
    if not told["steady"]:
        raise typer.Exit(1)


def judged(samples: Sequence[Sample]) -> dict[str, Any]:
    """What the epochs say together."""
    from secvm_lab.soak import percentile, settled, slope_of

    memory = slope_of(settled([one.rss_mb for one in samples]))
    files = [one.descriptors for one in samples]
    disk = slope_of(settled([one.disk_mb for one in samples]))
    faults = []
    if any(one.acknowledged != one.counted for one in samples):
        faults.append("not everything that was acknowledged was counted")
    if memory.low > LEAK_MB:
        faults.append("memory grows")
    if max(settled(files)) > max(files[: max(1, len(files) // 3)]) + _DESCRIPTORS:
        faults.append("open files grow")
    return {
        "steady": not faults,
        "faults": faults,
        "epochs": len(samples),
        "acknowledged": sum(one.acknowledged for one in samples),
        "counted": sum(one.counted for one in samples),
        "per_s": round(sum(one.per_s for one in samples) / len(samples), 1),
        "p50_ms": round(percentile([one.p50_ms for one in samples], 0.5), 2),
        "p99_ms": round(max(one.p99_ms for one in samples), 2),
        "close_s": round(percentile([one.close_s for one in samples], 0.5), 3),
        "rss_mb": round(samples[-1].rss_mb, 1),
        "rss_mb_slope": memory.to_json(),
        "descriptors": files[-1],
        "disk_mb": round(samples[-1].disk_mb, 2),
        "disk_mb_slope": disk.to_json(),
        "last": asdict(samples[-1]),
    }
