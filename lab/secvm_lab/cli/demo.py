"""``secvm demo``: a whole federation on this machine, and a page that tells what happened."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secvm.cli.output import Format, FormatOption, emit, note
from secvm.errors import BadInputError

if TYPE_CHECKING:
    from secvm_lab.demo.result import DemoResult
    from secvm_lab.demo.run import Progress

EXIT_TERMINATED = 143  # 128 + SIGTERM, as shells count
EXIT_NOT_AS_IT_SHOULD_BE = 1


class Descent(StrEnum):
    """How the coordinator learns from tallies."""

    SWIFT = "swift"
    PEGASOS = "pegasos"


def demo(
    participants: Annotated[
        int | None,
        typer.Option(help="Devices that take part; 2,000, or 340 with --plain.", show_default=False),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds; 1, or 8 with --plain.", show_default=False)] = None,
    hosts: Annotated[int, typer.Option(help="Processes that carry the devices.")] = 2,
    seed: Annotated[int, typer.Option(help="Decides the people, and the dice of what they learn.")] = 0,
    descent: Annotated[
        Descent, typer.Option(help="swift, or with --plain the paper's own rule, pegasos.")
    ] = Descent.SWIFT,
    data: Annotated[
        Path | None, typer.Option(help="A file of people instead of made-up ones.", metavar="PEOPLE")
    ] = None,
    bins: Annotated[
        int | None,
        typer.Option(
            help="Names of the public vocabulary; 40, or 400 hashed bins with --plain.",
            show_default=False,
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="The guarantee over all rounds, 1: two relays add cover for it.", show_default=False),
    ] = None,
    delta: Annotated[float, typer.Option(help="δ that goes with ε.")] = 1e-5,
    report: Annotated[Path, typer.Option(help="Where the page is written.")] = Path("report.html"),
    keep: Annotated[
        Path | None, typer.Option(help="Keep settings, logs and states of all processes in this new folder.")
    ] = None,
    *,
    plain: Annotated[
        bool,
        typer.Option("--plain", help="The paper's own system: one relay, single packages, no guarantee."),
    ] = False,
    page: Annotated[
        bool, typer.Option("--page/--no-page", help="Run the operator's page beside it; its address is told.")
    ] = True,
    open_page: Annotated[
        bool, typer.Option("--open", help="Open that page in a browser, and let it stay at the end until Ctrl-C.")
    ] = False,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Train with two thousand devices on this machine, in a minute.

    Coordinator, two relays, witnesses and hosts are processes of their own and speak over loopback sockets. Each relay
    adds cover for (ε, δ) over all rounds, which holds as long as one of the two is honest. At the end the coordinator
    is audited from outside, everything is compared with the offline estimator, byte for byte, and the label attack is
    played on what coordinator and one relay saw together, beside what the accountant allows. Meanwhile a page shows
    the rounds as they happen. Examples:

    \b
        ./secvm demo
        ./secvm demo --open
        ./secvm demo --plain
    """
    from secvm.cli.offline.options import check_writable
    from secvm.files import write_atomically
    from secvm_lab.demo.plan import EPSILON, Plan
    from secvm_lab.demo.report import report_page
    from secvm_lab.demo.run import run_demo

    if plain and epsilon is not None:
        raise BadInputError("--plain has no guarantee, and --epsilon asks for one: leave one of them out")
    if open_page and not page:
        raise BadInputError("--open opens the page, and --no-page leaves it out")
    plan = Plan(
        participants=_given("--participants", participants),
        rounds=_given("--rounds", rounds),
        hosts=hosts,
        seed=seed,
        descent=descent.value,
        bins=_given("--bins", bins),
        epsilon=None if plain else (EPSILON if epsilon is None else epsilon),
        delta=delta,
        data=data,
        report=report,
        keep=keep,
        page=page,
    )
    check_writable(report, "--report", inputs=(data,))

    def tell(result: DemoResult) -> None:
        # Shown first: what took minutes is not lost to a full disk.
        emit(result.summary(), output_format, text=_as_text(result))
        write_atomically(report, report_page(result).encode())

    def stay(result: DemoResult) -> None:
        bar.close()
        tell(result)
        # Whoever reads the line may press the keys before the next one here is reached.
        with contextlib.suppress(KeyboardInterrupt):
            note(f"the page stays at {result.page} until Ctrl-C")
            threading.Event().wait()

    with _ended_by_sigterm(), contextlib.ExitStack() as bar:
        show = _opening(bar.enter_context(_shown()), webbrowser.open if open_page else None)
        result = run_demo(plan, show, stay if open_page else None)
    if not open_page:
        tell(result)
    if not result.as_it_should_be:
        note("secvm: this is not as it should be; the page tells more")
        raise typer.Exit(EXIT_NOT_AS_IT_SHOULD_BE)


def _given(name: str, value: int | None) -> int:
    """Zero stands for what goes with the other options."""
    if value == 0:
        raise BadInputError(f"{name} must be at least 1")
    return value or 0


def _opening(show: Callable[[Progress], None], open_url: Callable[[str], object] | None) -> Callable[[Progress], None]:
    """Opens the page in a browser as soon as it is there."""

    def shown(progress: Progress) -> None:
        show(progress)
        if progress.page and open_url is not None and not open_url(progress.page):
            note("secvm: there is no browser that could be opened from here; its address is above")

    return shown


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM unwinds like Ctrl-C does, so that no process is left behind."""

    def leave(_number: int, _frame: Any) -> None:
        raise SystemExit(EXIT_TERMINATED)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _shown() -> Iterator[Callable[[Progress], None]]:
    """Progress on stderr: a moving line on a terminal, a line for each round elsewhere."""
    if not sys.stderr.isatty():
        yield lambda progress: note(_line(progress))
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("{task.fields[left]}"))
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None, left="")
        begun: float | None = None

        def show(progress: Progress) -> None:
            nonlocal begun
            if progress.page:
                console.print(_line(progress), highlight=False)
                return
            left = ""
            if progress.stage == "training":
                begun = time.monotonic() if begun is None else begun
                done = progress.round_number - 1
                if done:
                    left_s = (time.monotonic() - begun) / done * (progress.rounds - progress.round_number)
                    left = f"about {left_s:.0f} s left"
            bar.update(
                task,
                description=_line(progress),
                completed=progress.round_number,
                total=progress.rounds or None,
                left=left,
            )

        yield show


def _line(progress: Progress) -> str:
    if progress.page:
        return f"the page is at {progress.page}"
    if progress.stage != "training":
        return progress.stage
    return (
        f"round {progress.round_number}/{progress.rounds}  {progress.participants} participants"
        f"  {progress.packages:,} packages, {progress.packages_per_s:,.0f}/s  accuracy {progress.accuracy:.3f}"
    )


def _as_text(result: DemoResult) -> str:
    checks, found = result.checks, result.protected
    rows = [
        ("participants", f"{result.participants:,} devices in {result.hosts} processes, {result.rounds_in_words}"),
        ("packages", f"{checks.packages_sent:,} sent, {checks.packages_counted:,} counted"),
        ("", f"{checks.lost} lost, {checks.counted_twice} counted twice"),
        ("accuracy", f"{result.accuracy:.3f} on {result.tested_on:,} people who took no part"),
        *([] if found is None else [("", f"{found.plain_accuracy:.3f} the same rounds without cover")]),
        ("central", f"{result.central_accuracy:.3f} LinearSVC with all the data in one place"),
    ]
    for label, recall, precision, baseline in zip(
        result.labels, result.final.recall, result.final.precision, result.final.baseline, strict=True
    ):
        rows.append(
            (
                label,
                f"recall {recall.value:.3f}, precision {precision.value:.3f}, share of people {baseline.value:.3f}",
            )
        )
    rows += [
        ("offline", "the same bytes" if checks.bit_exact else "OTHER BYTES than offline"),
        (
            "audit",
            f"{checks.audit}: {checks.steps_in_words} from the published tallies"
            + (f", {checks.recounted:,} packages counted again" if checks.recounted else "")
            + (f", {result.witnesses} witnesses cosigned" if result.witnesses else "")
            if not checks.faults
            else f"FAILED: {checks.faults[0]}",
        ),
        *_privacy(result),
        ("report", f"{result.report}  ({result.seconds:.0f} s, and {result.setup_seconds:.0f} s to set up)"),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:{width}}  {value}" for name, value in rows)


def _privacy(result: DemoResult) -> list[tuple[str, str]]:
    from secvm.privacy.risk import up

    if result.protected is None:
        leaked = 0.5 if result.leakage is None else result.leakage.auc
        return [("privacy", f"no formal guarantee; label attack on all rounds: AUC {leaked:.2f} (page: why)")]
    told, attack = result.protected.guarantee, result.protected.attack
    low, high = attack.interval
    return [
        (
            "privacy",
            f"formal: epsilon {told.epsilon:g}, delta {told.delta:g} over all rounds, if one of two relays is honest",
        ),
        ("cover", f"{told.cover_packages:,} packages of each relay in a round, beside {result.budget} of each device"),
        ("attack", f"AUC {attack.auc:.3f} ({low:.3f} to {high:.3f}) for the label of one whose bins are known"),
        ("", f"{up(attack.allowed, 1000):.3f} is the most that the guarantee allows; {attack.plain:.3f} without cover"),
    ]
