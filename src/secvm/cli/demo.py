"""``secvm demo``: a whole federation on this machine, and a page that tells what happened."""

from __future__ import annotations

import contextlib
import importlib.util
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
    from secvm.lab.demo.result import DemoResult
    from secvm.lab.demo.run import Progress

EXIT_TERMINATED = 143  # 128 + SIGTERM, as shells count
EXIT_NOT_AS_IT_SHOULD_BE = 1


class Descent(StrEnum):
    """How the coordinator learns from tallies."""

    SWIFT = "swift"
    PEGASOS = "pegasos"


def demo(
    participants: Annotated[int, typer.Option(help="Devices that take part.")] = 340,
    rounds: Annotated[int | None, typer.Option(help="Rounds; 20, or 4 with --epsilon.", show_default=False)] = None,
    hosts: Annotated[int, typer.Option(help="Processes that carry the devices.")] = 2,
    seed: Annotated[int, typer.Option(help="Decides the people, and the dice of what they learn.")] = 0,
    descent: Annotated[Descent, typer.Option(help="swift, or the paper's own rule.")] = Descent.SWIFT,
    data: Annotated[
        Path | None, typer.Option(help="A file of people instead of made-up ones.", metavar="PEOPLE")
    ] = None,
    bins: Annotated[
        int | None,
        typer.Option(help="Bins that features are hashed into; 400, or 32 with --epsilon.", show_default=False),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Cover packages for this epsilon over all rounds: plumbing, not protection, at this size."),
    ] = None,
    delta: Annotated[float, typer.Option(help="With --epsilon.")] = 1e-5,
    report: Annotated[Path, typer.Option(help="Where the page is written.")] = Path("report.html"),
    keep: Annotated[
        Path | None, typer.Option(help="Keep settings, logs and states of all processes in this new folder.")
    ] = None,
    *,
    page: Annotated[
        bool, typer.Option("--page/--no-page", help="Run the operator's page beside it; its address is told.")
    ] = True,
    open_page: Annotated[
        bool, typer.Option("--open", help="Open that page in a browser, and let it stay at the end until Ctrl-C.")
    ] = False,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Train over a relay with hundreds of devices on this machine, in a minute or two.

    Coordinator, relay, witnesses and hosts are processes of their own and speak over loopback sockets; every package is
    a request. At the end the coordinator is audited from outside, and everything is compared with the offline
    estimator, byte for byte. With --epsilon every device adds cover packages; a few hundred devices are too few for
    that to protect anybody well and teach anything, so it shows that the plumbing works. Meanwhile a page shows the
    rounds as they happen. Examples:

    \b
        ./secvm demo
        ./secvm demo --open
        ./secvm demo --epsilon 4
    """
    from secvm.files import write_atomically
    from secvm.lab.demo.plan import Plan
    from secvm.lab.demo.report import report_page
    from secvm.lab.demo.run import run_demo

    plan = Plan(
        participants=participants,
        rounds=_given("--rounds", rounds),
        hosts=hosts,
        seed=seed,
        descent=descent.value,
        bins=_given("--bins", bins),
        epsilon=epsilon,
        delta=delta,
        data=data,
        report=report,
        keep=keep,
        page=_page_there(wanted=page, needed=open_page),
    )
    if not report.parent.is_dir() or report.is_dir():
        raise BadInputError(f"the page cannot be written to {report}")

    def tell(result: DemoResult) -> None:
        write_atomically(report, report_page(result).encode())
        emit(result.summary(), output_format, text=_as_text(result))

    def stay(result: DemoResult) -> None:
        bar.close()
        tell(result)
        note(f"the page stays at {result.page} until Ctrl-C")
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()

    with _ended_by_sigterm(), contextlib.ExitStack() as bar:
        show = _opening(bar.enter_context(_shown()), webbrowser.open if open_page else None)
        result = run_demo(plan, show, stay if open_page else None)
    if not open_page:
        tell(result)
    if not result.checks.as_they_should_be:
        note("secvm: this is not as it should be; the page tells more")
        raise typer.Exit(EXIT_NOT_AS_IT_SHOULD_BE)


def _given(name: str, value: int | None) -> int:
    """Zero stands for what goes with the other options."""
    if value == 0:
        raise BadInputError(f"{name} must be at least 1")
    return value or 0


def _page_there(*, wanted: bool, needed: bool) -> bool:
    """Whether the page can be shown; a demonstration without it is one, too."""
    if needed and not wanted:
        raise BadInputError("--open opens the page, and --no-page leaves it out")
    missing = [name for name in ("starlette", "uvicorn", "httptools") if importlib.util.find_spec(name) is None]
    if wanted and missing:
        sentence = f"the page needs {missing[0]}, which is not installed"
        if needed:
            raise BadInputError(sentence, next_step="pip install 'secvm[dashboard]'")
        note(f"secvm: {sentence}: pip install 'secvm[dashboard]'")
    return wanted and not missing


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
    checks = result.checks
    rows = [
        ("participants", f"{result.participants} devices in {result.hosts} processes, {result.rounds} rounds"),
        ("packages", f"{checks.packages_sent:,} sent, {checks.packages_counted:,} counted"),
        ("", f"{checks.lost} lost, {checks.counted_twice} counted twice"),
        ("accuracy", f"{result.accuracy:.3f} on {result.tested_on:,} people who took no part"),
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
            f"{checks.audit}: {checks.steps_replayed} steps follow from the published tallies,"
            f" {result.witnesses} witnesses cosigned"
            if not checks.faults
            else f"FAILED: {checks.faults[0]}",
        ),
        *_privacy(result),
        ("report", f"{result.report}  ({result.seconds:.0f} s)"),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:{width}}  {value}" for name, value in rows)


def _privacy(result: DemoResult) -> list[tuple[str, str]]:
    from secvm.lab.demo.result import PLUMBING

    found = result.guarantee
    if found is None:
        return [
            ("privacy", f"no formal guarantee; label attack on all rounds: AUC {result.leakage.auc:.2f} (page: why)")
        ]
    costs = (
        f"{result.budget} packages of a device in a round, {found.cover_mean:.1f} of them cover on average; assumes"
        f" {found.honest} honest devices (page: why)"
    )
    return [
        ("privacy", f"epsilon {found.epsilon:g} at delta {found.delta:g} over all {result.rounds} rounds: {PLUMBING}"),
        ("", costs),
    ]
