"""What every command says and writes, in the same way.

- The result goes to stdout: text for people, or with ``--format json`` one JSON object on one line, its keys in the
  order the command gave them.
- Progress goes to stderr: a moving bar on a terminal, a plain line now and then elsewhere.
- Much of what is printed was written by others: titles, labels, answers of servers. So whatever is printed, on stdout
  and on stderr, loses the characters that could change a terminal (``protocol.canonical``).
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated

import typer

from secvm.errors import BadInputError
from secvm.protocol.canonical import escaped, plain

#: Without a terminal, a line of progress at most this often.
PLAIN_PROGRESS_EVERY_S = 5.0


class Format(StrEnum):
    """How a result is written on stdout."""

    TXT = "txt"
    JSON = "json"


#: The option that every command has. Declare it as ``output_format: FormatOption = Format.TXT``.
FormatOption = Annotated[Format, typer.Option("--format", help="How to write the result on stdout.")]


def emit(result: Mapping[str, object], output_format: Format, *, text: str | None = None) -> None:
    """Write a command's result on stdout: as JSON, or as ``text``, or as lines of names and values."""
    if output_format is Format.JSON:
        import orjson

        options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
        say(escaped(orjson.dumps(dict(result), default=str, option=options).decode()) + "\n")
    else:
        say((text if text is not None else "\n".join(as_lines(result))).rstrip("\n") + "\n")


def say(text: str) -> None:
    """Write on stdout, as UTF-8 whatever the locale says; a stdout that cannot be written is one sentence."""
    text = plain(text)
    try:
        if sys.stdout is None:
            raise BadInputError("there is no standard output to write to")
        binary = getattr(sys.stdout, "buffer", None)
        if binary is None:  # a test's or a notebook's
            sys.stdout.write(text)
        else:
            binary.write(text.encode())
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # Whatever is left in the buffer would fail once more when Python ends.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise BadInputError(f"cannot write to standard output: {error.strerror or 'input/output error'}") from None


def as_lines(result: Mapping[str, object], indent: int = 0) -> Iterator[str]:
    """Lay a result out for people: names in one column, values in the next, inner mappings indented."""
    width = max((len(str(name)) for name in result), default=0)
    for name, value in result.items():
        if isinstance(value, Mapping):
            yield f"{'':{indent}}{name}"
            yield from as_lines(value, indent + 2)
        else:
            yield f"{'':{indent}}{name!s:{width}}  {_as_words(value)}"


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lay cells out in columns, the first row their headings: text to the left, numbers to the right."""
    for row in rows:
        cells = []
        for column, cell in zip(zip(*rows, strict=True), row, strict=True):
            width = max(map(len, column))
            numbers = all(not any(map(str.isalpha, below)) for below in column[1:])
            cells.append(f"{cell:>{width}}" if numbers else f"{cell:{width}}")
        yield "  ".join(cells).rstrip()


def _as_words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return ", ".join(_as_words(item) for item in value)
    return "none" if value is None else str(value)


def program() -> str:
    """What this program was called as, for commands that are to be typed next; the launcher says so."""
    return os.environ.get("SECVM_CALLED", "secvm")


def note(sentence: str) -> None:
    """Say something on stderr that is not the result."""
    print(plain(sentence), file=sys.stderr, flush=True)  # noqa: T201


@contextlib.contextmanager
def progress(description: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show on stderr how far long work has come; the block calls what it is given with each number of steps done."""
    show = _bar if sys.stderr.isatty() else _plain_lines
    with show(description, total) as advance:
        yield advance


@contextlib.contextmanager
def _bar(description: str, total: int | None) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda steps: bar.advance(task, steps)


@contextlib.contextmanager
def _plain_lines(description: str, total: int | None) -> Iterator[Callable[[int], None]]:
    done = first = 0
    begun = spoken_at = time.monotonic()

    def advance(steps: int) -> None:
        nonlocal begun, done, first, spoken_at
        done += steps
        if not first:
            # What comes before the first step, reading and compiling, says nothing about the others.
            begun, first = time.monotonic(), done
        if time.monotonic() - spoken_at >= PLAIN_PROGRESS_EVERY_S:
            spoken_at = time.monotonic()
            left = (spoken_at - begun) / (done - first) * (total - done) if total and done > first else 0.0
            note(f"{description}: {done}" + (f" of {total}{_time_left(left)}" if total else ""))

    yield advance


def _time_left(seconds: float) -> str:
    if seconds < 1:
        return ""
    return f", about {seconds:.0f} s left" if seconds < 120 else f", about {seconds / 60:.0f} min left"


def asked_secretly(question: str, *, otherwise: str) -> str:
    """Ask on the terminal for what is not shown; without one it is the first line of stdin, and ``otherwise`` says what
    to do where that is empty.
    """
    if sys.stdin is not None and sys.stdin.isatty():
        return str(typer.prompt(f"{question} (not shown)", hide_input=True, err=True))
    answer = "" if sys.stdin is None else sys.stdin.readline().rstrip("\r\n")
    if not answer:
        raise BadInputError("nobody is there to answer", next_step=otherwise)
    return answer


def decided(question: str, read_everything: Callable[[], None], *, otherwise: str) -> bool:
    """Ask for a yes or a no on the terminal, where a d shows more first; ``otherwise`` as for ``confirmed``."""
    while True:
        try:
            answer = typer.prompt(f"\n{question} [y/N, d: read everything]", default="n", show_default=False, err=True)
        except typer.Abort as aborted:
            if isinstance(aborted.__context__, EOFError):
                raise BadInputError("nobody is there to say yes or no", next_step=otherwise) from None
            raise
        answer = answer.strip().lower()
        if answer in ("y", "yes", "n", "no"):
            return answer in ("y", "yes")
        if answer == "d":
            read_everything()


def confirmed(question: str, *, otherwise: str) -> bool:
    """Ask for a yes or a no on the terminal; where nobody is there, ``otherwise`` says what to do."""
    try:
        return typer.confirm(question, default=False, err=True)
    except typer.Abort as aborted:
        if isinstance(aborted.__context__, EOFError):
            raise BadInputError("nobody is there to say yes or no", next_step=otherwise) from None
        raise
