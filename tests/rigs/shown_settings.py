"""What a how-to page shows of a party's settings, held to the settings themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from secvm.runtime.settings import Settings
from tests.conftest import ROOT


def shown_toml(page: str, number: int = 0) -> str:
    """A block of settings on a page of ``docs/how-to``."""
    text = (ROOT / "docs/how-to" / page).read_text(encoding="utf-8")
    return str(re.findall(r"^```toml\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)[number])


def table_kind(kind: Any) -> type[Settings]:
    """The settings in a table, however it is annotated."""
    kinds = [kind, *getattr(kind, "__args__", ())]
    return next(one for one in kinds if isinstance(one, type) and issubclass(one, Settings))


def check_shown(read: Settings, shown: str, tables: Iterable[str], given_anyway: Iterable[str] = ()) -> None:
    """Every setting of these tables is shown, with its default where it has one that TOML can write."""
    for name in tables:
        table = getattr(read, name)
        for key, inner in table_kind(type(read).model_fields[name].annotation).model_fields.items():
            assert re.search(rf"^{key} = ", shown, re.MULTILINE), key
            if not inner.is_required() and inner.default is not None and key not in given_anyway:
                assert getattr(table, key) == inner.default, key


def check_units(kind: type[Settings], counted: Iterable[str]) -> None:
    """Every number has its unit in its name, or counts things."""
    for field in kind.model_fields.values():
        for key, inner in table_kind(field.annotation).model_fields.items():
            if inner.annotation in {int, float} and not key.endswith(("_s", "_ms", "_bytes")):
                assert key in counted, key


def written(folder: Path, text: str) -> Path:
    """A file of settings with this content."""
    path = folder / "settings.toml"
    path.write_text(text, encoding="utf-8")
    return path
