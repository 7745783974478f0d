"""Groups of commands, which all look alike."""

from __future__ import annotations

from typing import Any

import typer

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def group(summary: str | None = None, **more: Any) -> typer.Typer:
    """A group of commands. Its help is plain: it reads the same in a terminal, a pipe and the README."""
    return typer.Typer(
        help=summary,
        context_settings=CONTEXT_SETTINGS,
        **{
            "no_args_is_help": True,
            "add_completion": False,
            "rich_markup_mode": None,
            "pretty_exceptions_enable": False,
            **more,
        },
    )
