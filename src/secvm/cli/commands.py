"""The table entry of a command, groups of commands, and the commands that other distributions add.

A distribution adds commands by an entry point of the group ``secvm.commands`` that leads to a table like ``COMMANDS``
of ``cli.main``. A name of two words, ``privacy bins``, is a command of that group. The table is imported for
``secvm --help`` and for names that this package does not have, so its module must import nothing heavy.
"""

from __future__ import annotations

import importlib
from functools import cache
from importlib import metadata
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from secvm.errors import BadInputError, NotInstalledError

#: The group of entry points.
GROUP = "secvm.commands"
#: What ``secvm-lab`` adds, so that its absence can be told from a misspelling.
IN_LABORATORY = frozenset(
    {
        *("attack", "bench", "demo", "dev", "reproduce", "simulate", "test"),
        *("privacy bins", "privacy labels", "privacy plan"),
    }
)

#: Packages by the name that Python imports them under, and the extras of ``secvm`` that bring them.
EXTRAS: dict[str, tuple[str, ...]] = {
    "httptools": ("coordinator", "relay", "witness"),
    "matplotlib": ("plots",),
    "numba": ("estimator", "coordinator"),
    "prometheus_client": ("coordinator", "relay", "witness"),
    "psycopg": ("postgres",),
    "scipy": ("estimator",),
    "sklearn": ("estimator",),
    "tzdata": ("coordinator", "dashboard"),
    "uvloop": ("coordinator", "dashboard", "relay", "witness"),
    "voprf": ("tokens",),
}

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Command(NamedTuple):
    """Where a command lives, and the sentence that ``secvm --help`` shows for it."""

    #: A typer function, or a ``typer.Typer`` with commands of its own: ``module:name``.
    target: str
    #: The first line of its docstring (tests/contract/test_tree.py compares).
    summary: str

    def find(self) -> Any:
        """Import the function or group."""
        module_name, _, attribute = self.target.partition(":")
        return getattr(importlib.import_module(module_name), attribute)


class Group(TyperGroup):
    """A group whose list of commands has whole sentences, however wide the terminal is."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the first line of each command's help."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, command.short_help or (command.help or "").partition("\n")[0])
                    for name, command in commands
                    if command is not None and not command.hidden
                ]
            )


class GroupedCommand(TyperCommand):
    """A command whose help shows options together that are about one thing, their ``rich_help_panel``."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments first, then the groups in the order of their first options, the others last."""
        groups: dict[str, list[Any]] = {"Arguments": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            argument = parameter.param_type_name == "argument"
            name = "Arguments" if argument else getattr(parameter, "rich_help_panel", None) or "Options"
            if record is not None:
                groups.setdefault(name, []).append(record)
        groups["Options"] = groups.pop("Options", [])
        for name, records in groups.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


def group(summary: str | None = None, **more: Any) -> typer.Typer:
    """A group of commands. Its help is plain: it reads the same in a terminal, a pipe and the README."""
    return typer.Typer(
        help=summary,
        context_settings=CONTEXT_SETTINGS,
        **{
            "cls": Group,
            "no_args_is_help": True,
            "add_completion": False,
            "rich_markup_mode": None,
            "pretty_exceptions_enable": False,
            **more,
        },
    )


@cache
def added() -> dict[str, Command]:
    """The commands of all other distributions, in their order."""
    tables = (entry.load() for entry in sorted(metadata.entry_points(group=GROUP), key=lambda entry: entry.name))
    return {name: command for table in tables for name, command in table.items()}


def refuse_absent(name: str) -> None:
    """Raise ``BadInputError`` for a command of ``secvm-lab`` where that is not installed."""
    if name in IN_LABORATORY and name not in added():
        raise in_laboratory(f"'secvm {name}'")


def in_laboratory(what: str) -> BadInputError:
    """The complaint that something belongs to a distribution that is not installed."""
    return BadInputError(
        f"{what} is part of secvm-lab, which is not installed",
        next_step="Call ./secvm in a clone of the repository, or install it from there: pip install . ./lab",
    )


def not_installed(module: str | None, command: str) -> NotInstalledError | None:
    """The complaint that a package is missing which an extra of ``secvm`` brings; None for any other package."""
    package = (module or "").partition(".")[0]
    if package not in EXTRAS:
        return None
    extras = EXTRAS[package]
    return NotInstalledError(f"'secvm {command}'", package, command if command in extras else extras[0])
