"""``secvm dev house``: how large the tree is, beside what it may be and what it was."""

from __future__ import annotations

from typing import Annotated

import typer

from secvm.cli.output import Format, FormatOption, emit
from secvm_lab.cli.dev.checkout import find_or_refuse


def house(
    *,
    places: Annotated[bool, typer.Option("--places", help="Also where the places are that a number counts.")] = False,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Count lines, modules and ways to do one thing.

    Code lines have a token that is neither comment nor docstring. Example:

    \b
        ./secvm dev house --places
    """
    from secvm_lab.house import BEFORE, LIMITS, as_text, details, longest_test, modules_of
    from secvm_lab.house import house as counted

    root = find_or_refuse()
    modules = modules_of(root)
    found, longest = counted(modules), longest_test(root)
    where = details(modules) if places else {}
    text = as_text(found, longest) + "".join(
        f"\n{name.replace('_', ' ')}\n" + "".join(f"  {one}\n" for one in listed) for name, listed in where.items()
    )
    result = {"now": found, "before": BEFORE, "limits": LIMITS, "longest_test": longest}
    emit(result | ({"places": where} if places else {}), output_format, text=text)
