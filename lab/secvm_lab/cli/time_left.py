"""What commands that take long share: progress with the time that is left, what they took, and the command as it was
typed.
"""

from __future__ import annotations

import resource
import shlex
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from secvm.cli.output import Format, emit, note

if TYPE_CHECKING:
    from secvm_lab.reports import ReportPage

#: A line at most this often, but for the first of a stage.
EVERY_S = 5.0


class TimeLeft:
    """Says how far a stage is; ``watch`` is what the work calls."""

    def __init__(self, say: Callable[[str], None], now: Callable[[], float] = time.monotonic) -> None:
        self._say, self._now = say, now
        self._stage, self._begun, self._spoken, self._first = "", 0.0, 0.0, 0

    def watch(self, stage: str, done: int, of: int) -> None:
        """So much of a stage is done; without ``of`` nobody knows how much there is."""
        now = self._now()
        if stage != self._stage:
            self._stage, self._begun, self._spoken, self._first = stage, now, now, done
            self._say(stage)
            return
        if now - self._spoken < EVERY_S:
            return
        self._spoken = now
        if not of:
            self._say(f"{stage}: {done}")
            return
        # What was done before the first call took time that nobody saw.
        left = (now - self._begun) * (of - done) / max(1, done - self._first)
        self._say(f"{stage}: {done} of {of}, {left:.0f} s left")


def used(begun: float, *who: int, digits: int = 1) -> dict[str, float]:
    """Seconds since ``time.monotonic()`` was so, and the most memory that somebody had; ``who``: us, or as given."""
    peak = max(resource.getrusage(one).ru_maxrss for one in who or (resource.RUSAGE_SELF,))
    return {"seconds": round(time.monotonic() - begun, digits), "peak_rss_mb": round(peak / 1024, 1)}


def tell_and_write(
    told: dict[str, Any],
    output_format: Format,
    text: Callable[[dict[str, Any]], Iterable[str]],
    folder: Path | None,
    page: Callable[[], ReportPage],
) -> None:
    """Print a result, with where its report will be, and only then write the report: a full disk loses no result."""
    from secvm_lab.reports import write_report

    if folder is not None:
        told["report"] = str(folder / "report.html")
    emit(told, output_format, text="\n".join(text(told)))
    missing = "" if folder is None else write_report(folder, page())
    if missing:
        note(f"secvm: {missing}")


def as_typed(context: typer.Context) -> str:
    """The command that makes the same result again: what was typed, without where it goes and how it is written."""
    words = ["./secvm", *context.command_path.split()[1:]]
    for option in context.command.params:
        name = option.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE" or name in ("folder", "output_format"):
            continue
        value = context.params[name]
        if isinstance(value, bool):
            words.append(option.opts[0] if value else option.secondary_opts[0])
        else:
            for item in value if isinstance(value, list | tuple) else [value]:
                words += [option.opts[0], str(item)]
    return shlex.join(words)
