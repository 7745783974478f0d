"""``secvm bench``: the benchmarks of the checkout, ``benchmarks/NAME.py``.

A benchmark is a module with

- a docstring, whose first line is what the list shows;
- ``add_arguments(parser: argparse.ArgumentParser) -> None``, its own options;
- ``run(arguments: argparse.Namespace) -> dict[str, object]``, which measures and returns the result;
- perhaps ``as_text(result) -> str``, where the result is better read as a table.

Files whose name begins with an underscore are helpers, not benchmarks.
"""

import argparse
import ast
import importlib
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from secvm.cli.output import Format, FormatOption, emit
from secvm.errors import BadInputError
from secvm_lab.cli.dev.checkout import find_or_refuse


class _Parser(argparse.ArgumentParser):
    """An argument parser that complains the way the whole program does."""

    def error(self, message: str) -> NoReturn:
        raise BadInputError(message, next_step=f"Try '{self.prog} --help'.")


def _found(folder: Path) -> dict[str, Path]:
    return {file.stem: file for file in sorted(folder.glob("*.py")) if not file.stem.startswith("_")}


def _summary(file: Path) -> str:
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]


def bench(
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[NAME] [OPTIONS]...", show_default=False)] = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Run a benchmark, or list them.

    The options after NAME are the benchmark's own; 'secvm bench NAME --help' shows them.
    """
    root = find_or_refuse()
    found = _found(root / "benchmarks")
    if not arguments:
        summaries = {name: _summary(file) for name, file in found.items()}
        emit(summaries, output_format, text=None if summaries else "there are no benchmarks yet")
        return

    name, *options = arguments
    if name not in found:
        raise BadInputError(f"there is no benchmark {name!r}", next_step="'secvm bench' lists them.")
    sys.path.insert(0, str(root))  # benchmarks may share helpers
    module = importlib.import_module(f"benchmarks.{name}")
    parser = _Parser(
        prog=f"secvm bench {name}", description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--format", type=Format, choices=list(Format), default=output_format, dest="output_format")
    module.add_arguments(parser)
    chosen = parser.parse_args(options)
    result = module.run(chosen)
    as_text = getattr(module, "as_text", None)
    emit(result, chosen.output_format, text=None if as_text is None else as_text(result))


#: NAME ends our own options: what follows it belongs to the benchmark.
bench.context_settings = {"allow_interspersed_args": False, "ignore_unknown_options": True}  # type: ignore[attr-defined]  # read by cli.main
