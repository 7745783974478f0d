"""``secvm dev extension``: the browser extension's packages, linted, with their sizes and permissions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from secvm.cli.output import Format, FormatOption, emit
from secvm_lab.cli.dev.checkout import find_or_refuse


def extension(
    out: Annotated[
        Path | None, typer.Option(help="Folder for the packages; extension/dist else.", show_default=False)
    ] = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Build the browser extension for Chromium and Firefox.

    The same sources give the same bytes. Refused is a package that is too large, that asks for a permission which is
    not listed, or in which Mozilla's linter finds a fault. Example:

    \b
        ./secvm dev extension
    """
    from secvm_lab.extension import MOST_BUNDLED_BYTES, build, check, lint

    source = find_or_refuse() / "extension"
    packages = build(source, out)
    for package in packages:
        check(package, source)
    faults = [fault for package in packages if package.browser == "firefox" for fault in lint(package, source)]
    lines = []
    for package in packages:
        lines += [
            f"{package.file}",
            f"  {package.gzipped:,} bytes gzipped; scripts {package.bundled:,} of {MOST_BUNDLED_BYTES:,}",
            f"  sha256 {package.sha256}",
            *(f"  {kind}: {', '.join(asked)}" for kind, asked in package.permissions.items() if asked),
        ]
    result = {
        "packages": [
            {
                "browser": each.browser,
                "file": str(each.file),
                "sha256": each.sha256,
                "bytes": each.bytes,
                "gzipped": each.gzipped,
                "bundled": each.bundled,
                "permissions": each.permissions,
            }
            for each in packages
        ],
        "faults": faults,
    }
    emit(result, output_format, text="\n".join([*lines, *faults]))
    if faults:
        raise typer.Exit(1)
