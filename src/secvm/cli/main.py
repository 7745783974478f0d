"""The ``secvm`` program: finds the command, runs it, and turns what went wrong into one sentence.

Rules it keeps:

 1. A command is a line in ``COMMANDS`` and a module beside this one, imported only when it is called: ``secvm --help``
    imports none of them. Other distributions add theirs by entry points (``cli.commands``).
 2. Bad input and wrong usage end with ``secvm: <one sentence>`` on stderr, what to do next on the line below it, and
    exit code 2.
 3. A package that an extra of this distribution brings and that is not installed is such a sentence too.
 4. Ctrl-C ends with 130 and one word, a closed pipe with 141 and none.
 5. Anything else is a fault of ours: a plain traceback, which shows code and never the values of variables, because
    those may be somebody's.
"""

import os
import re
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

import secvm
from secvm.cli.commands import (
    CONTEXT_SETTINGS,
    Command,
    Group,
    GroupedCommand,
    added,
    group,
    not_installed,
    refuse_absent,
)
from secvm.cli.output import note
from secvm.errors import SecVMError

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells count
EXIT_PIPE_CLOSED = 141  # 128 + SIGPIPE


#: Every command of this package, in the order of the help text. To add one, write its function and a line here.
COMMANDS: dict[str, Command] = {
    "train": Command("secvm.cli.offline.train:train", "Train on a file of people, offline."),
    "evaluate": Command("secvm.cli.offline.predict:evaluate", "Compare a model's answers with the labels of a file."),
    "predict": Command("secvm.cli.offline.predict:predict", "Predict the label of each person in a file."),
    "experiment": Command("secvm.cli.experiment:app", "Make experiments, watch them, and export their models."),
    "coordinator": Command("secvm.cli.coordinator:app", "Run rounds: opens capsules, counts, publishes."),
    "participant": Command("secvm.cli.participant:app", "Take part with your own data, on your own device."),
    "relay": Command("secvm.cli.relay:app", "Run a relay: it knows who, not what."),
    "witness": Command("secvm.cli.witness:app", "Run a witness: it cosigns logs that only grow."),
    "federation": Command("secvm.cli.federation:app", "Set up a coordinator, relays and witnesses that match."),
    "dashboard": Command(
        "secvm.cli.dashboard:app",
        "Watch a coordinator in a browser; change it with the admin key.",
    ),
    "audit": Command("secvm.cli.audit:app", "Replay a coordinator's experiments, or examine evidence."),
    "doctor": Command("secvm.cli.doctor:doctor", "Look whether Tor works here, and keeps circuits apart."),
    "privacy": Command("secvm.cli.privacy:app", "Compute privacy bounds and leakage estimates."),
}

_OF_VALUE = re.compile(r"Invalid value for '([^']+)': Input should be ([^,]+).*")
_PLAIN_WORDS = {
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "a valid integer": "a whole number",
    "a valid number": "a number",
}
# The class of every complaint about usage. Typer shows only this subclass of it in public.
_UsageError: Any = typer.BadParameter.__mro__[1]


def commands() -> dict[str, Command]:
    """Every command there is, in the order of the help text; this package's cannot be replaced."""
    return COMMANDS | {name: command for name, command in added().items() if name not in COMMANDS and " " not in name}


def load(name: str) -> Any:
    """Import one command and make it runnable."""
    target = (COMMANDS.get(name) or added()[name]).find()
    if not isinstance(target, typer.Typer):
        alone = group(no_args_is_help=False)
        settings = {**CONTEXT_SETTINGS, **getattr(target, "context_settings", {})}
        alone.command(name, cls=GroupedCommand, context_settings=settings)(target)
        target = alone
    command = typer.main.get_command(target)
    command.name = name
    return command


class _LazyGroup(Group):
    """A group that imports a command when it is called, and knows the rest by name."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  (the signature is typer's)
        return list(commands())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in COMMANDS and cmd_name not in commands():
            return None
        if cmd_name not in self.commands:
            self.add_command(load(cmd_name), cmd_name)
        return self.commands[cmd_name]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        refuse_absent(" ".join(args[:2]))
        if args and args[0] not in COMMANDS and args[0] not in commands():
            import difflib

            refuse_absent(args[0])

            near = difflib.get_close_matches(args[0], commands(), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise _UsageError(f"there is no command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in commands().items()])


app = group(
    "Secret Vector Machines: classifiers trained on data that never leaves people's devices.",
    cls=_LazyGroup,
    name="secvm",
)


def version() -> str:
    """Tell the version: of the checkout this file lies in, else of the installed package."""
    return secvm.__version__


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"secvm {version()}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def _complain(sentence: str, next_step: str | None = None) -> None:
    """Say one sentence on stderr, and below it what can be done, if something can."""
    note(f"secvm: {sentence}")
    if next_step:
        note(next_step)


def _as_sentence(error: Any) -> tuple[str, str | None]:
    """Turn typer's complaint about usage into a sentence and the place where help is."""
    sentence = " ".join(error.format_message().split()).replace("Value error, ", "")
    of_value = _OF_VALUE.fullmatch(sentence)
    if of_value is not None:
        # Bounds and kinds of options come in the words of the library that checks them.
        wanted = of_value[2]
        for word, plain in _PLAIN_WORDS.items():
            wanted = wanted.replace(word, plain)
        sentence = f"{of_value[1]} must be {wanted}"
    context = getattr(error, "ctx", None)
    next_step = f"Try '{context.command_path} --help'." if context is not None else None
    return sentence[:1].lower() + sentence[1:].rstrip("."), next_step


def _leave_pipe() -> int:
    """Point stdout at nothing, so that Python's flush at the end does not fail a second time."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_PIPE_CLOSED


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        code = _run(arguments)
        if sys.stdout is not None:  # a closed one is None
            sys.stdout.flush()
    except BrokenPipeError:
        return _leave_pipe()
    return code


def _run(arguments: Sequence[str]) -> int:
    try:
        code = app_command().main(args=list(arguments), prog_name="secvm", standalone_mode=False)
    except SecVMError as error:
        _complain(str(error), error.next_step)
        return EXIT_BAD_INPUT
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # `secvm` or `secvm dev` alone: a question, and its answer
            print(error.format_message())  # noqa: T201
            return 0
        _complain(*_as_sentence(error))
        return EXIT_BAD_INPUT
    except ModuleNotFoundError as error:
        missing = not_installed(error.name, arguments[0])
        if missing is None:
            raise
        _complain(str(missing), missing.next_step)
        return EXIT_BAD_INPUT
    except (KeyboardInterrupt, typer.Abort):
        code = EXIT_INTERRUPTED
    if code == EXIT_INTERRUPTED:  # typer catches Ctrl-C in a command, and gives the code
        if sys.stderr.isatty():
            note("")  # the terminal shows ^C where the cursor is
        _complain("interrupted")
    return code if isinstance(code, int) else 0


def app_command() -> Any:
    """Make the whole program as one command object."""
    return typer.main.get_command(app)


def main() -> None:
    """Run the program on this process's arguments, and end the process."""
    try:
        code = run(sys.argv[1:])
    except SystemExit as ending:
        # typer ends by itself with 1 on a closed pipe, having made stdout quiet.
        if isinstance(ending.__context__, BrokenPipeError):
            sys.exit(_leave_pipe())
        raise
    sys.exit(code)


if __name__ == "__main__":
    main()
