"""``secvm dev check``, ``fix``, ``lock`` and ``house``: what people who change the code run.

``check`` is what continuous integration runs too. ``fix`` writes docs/reference/experiment.md: every setting of an
experiment, out of what its parts declare. ``house`` says how large the tree is, beside what it may be and what it was.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from secvm.cli.output import Format, FormatOption, emit, note
from secvm.learning.aggregate.descent import DEPLOYED, OFFLINE, RULES
from secvm.learning.declared import BINS, BUDGET, HASHES, TRAIN_SHARE, Setting, shown
from secvm.learning.experiment import Robust
from secvm.learning.losses import LOSSES
from secvm.learning.thinning import Thinning
from secvm.privacy.target import PrivacyTarget
from secvm_lab.cli.dev.checkout import call, find_or_refuse, tool
from secvm_lab.cli.dev.tiers import parallel

_HEAD = f"""# Settings of an experiment

Written by `./secvm dev fix` out of what rules, losses and the other parts of an experiment declare
(`learning.declared`); a test compares. Specifications ([how to run an experiment](../how-to/run-an-experiment.md)),
documents, model files, the estimators, the command line, the planner and the form all read these declarations. Numbers
may be written exactly, as text such as "7/10". Rules and losses of other packages are found by the entry points
`{RULES.group}` and `{LOSSES.group}`.
"""


def reference() -> str:
    """The whole page."""
    common = [BINS, HASHES, BUDGET, TRAIN_SHARE]
    parts = [
        _HEAD,
        "## Every experiment\n",
        _table(common),
        "## Privacy: `[privacy]`, `PrivacyTarget`\n",
        'What is meant where nothing is said; `privacy = "none"` is an experiment without a guarantee.\n',
        _table(PrivacyTarget.settings()),
        "## Descent rules: `[descent]`, `--descent`\n",
        f"Where nobody says which: `{DEPLOYED.name}` over devices, `{OFFLINE.name}` offline.\n",
        "With a guarantee, what is not given is chosen by public numbers.\n",
    ]
    for rule in RULES.built_in.values():
        usual = rule.usual_thinning
        parts += [
            f"### `{rule.name}`: {rule.about}\n",
            f"Thinning where nobody says which: {f'ρ = {usual}' if usual.rho is not None else usual}.\n",
            _table([rule.rounds(), *rule.settings()]),
        ]
    parts += ["## Thinning: `descent.thinning`, `--thinning`\n", "A number is ρ, `q=Q` a share, or `none`.\n"]
    parts += [_table(Thinning.settings()), "## Losses: `loss`, `--loss`\n", _losses()]
    parts += ["## Robustness: `[robust]`\n", _table(Robust.settings())]
    return "\n".join(parts)


def _table(settings: Iterable[Setting]) -> str:
    rows = ["| setting | range | default | what it is |", "|---|---|---|---|"]
    rows += [f"| `{each.name}` | {each.limits} | {_default(each)} | {each.sentence} |" for each in settings]
    return "\n".join(rows) + "\n"


def _default(setting: Setting) -> str:
    usual, numbers = setting.default, setting.for_numbers
    told = ("none" if setting.optional else "must be given") if usual is None else shown(usual)
    return told if numbers is None else f"{told}; for numbers as labels {shown(numbers)}"


def _losses() -> str:
    rows = ["| loss | label | parameter: `loss_parameter` | what it is |", "|---|---|---|---|"]
    for shape in LOSSES.built_in.values():
        own = [f"{each.sentence[:-1]} ({each.limits}; default {_default(each)})" for each in shape.settings()]
        label = "number" if shape.regression else "class"
        rows.append(f"| `{shape.name}` | {label} | {own[0] if own else 'none'} | {(shape.__doc__ or '').strip()} |")
    return "\n".join(rows) + "\n"


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
    from secvm_lab.house import BEFORE, LIMITS, as_text, longest_test, modules_of
    from secvm_lab.house import house as counted
    from secvm_lab.house import places as places_of

    root = find_or_refuse()
    modules = modules_of(root)
    found, longest = counted(modules), longest_test(root)
    where = places_of(modules) if places else {}
    text = as_text(found, longest) + "".join(
        f"\n{name.replace('_', ' ')}\n" + "".join(f"  {one}\n" for one in listed) for name, listed in where.items()
    )
    result = {"now": found, "before": BEFORE, "limits": LIMITS, "longest_test": longest}
    emit(result | ({"places": where} if places else {}), output_format, text=text)


# import-linter has no `python -m`; a script in .venv/bin would break when the checkout is moved.
_LINT_IMPORTS = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_logo=True))"

_COMPILE = [
    *("uv", "pip", "compile", "--quiet"),
    *("--universal", "--python-version", "3.11"),
    *("--generate-hashes", "--no-emit-index-url", "--no-header", "--no-annotate"),
]


def typed_folders(root: Path) -> list[str]:
    """Name the folders that mypy looks at: those of ours that hold Python."""
    return [name for name in ("src", "lab", "tests", "benchmarks", "vectors") if any((root / name).rglob("*.py"))]


def check(
    *, tests: Annotated[bool, typer.Option("--tests/--no-tests", help="Run the unit tests as well.")] = True
) -> None:
    """Check format, lint, types, imports, unit tests.

    Every step is run, also after one that failed; the last line names those that did.
    """
    root = find_or_refuse()
    steps: dict[str, list[str]] = {
        "format": tool("ruff", "format", "--check", "--quiet"),
        "lint": tool("ruff", "check", "--quiet"),
        "types": tool("mypy", *typed_folders(root)),
        "imports": ["-P", "-c", _LINT_IMPORTS],
        "dependencies": tool("uv", "pip", "check", "--quiet", "--python", sys.executable),
    }
    if tests:
        steps["unit tests"] = tool("pytest", "-q", *parallel(), "tests/unit")
    failed = []
    for name, arguments in steps.items():
        started = time.monotonic()
        code = call(arguments, root)
        if code == 130:
            raise typer.Exit(code)
        note(f"secvm dev check: {name} {'FAILED' if code else 'passed'} in {time.monotonic() - started:.1f} s")
        if code:
            failed.append(name)
    if failed:
        note(f"secvm dev check: failed: {', '.join(failed)}")
        raise typer.Exit(1)


def fix() -> None:
    """Repair what tools can repair.

    That is: some lint, the format, the description of the operator's API, the reference of an experiment's settings.
    """
    root = find_or_refuse()
    call(tool("ruff", "check", "--fix", "--quiet"), root)
    code = call(tool("ruff", "format", "--quiet"), root)
    _describe_admin(root)
    _refer_to_settings(root)
    raise typer.Exit(code)


def _describe_admin(root: Path) -> None:
    from secvm.coordinator.experiments.openapi import answer

    (root / "docs/admin-openapi.json").write_bytes(answer().body)


def _refer_to_settings(root: Path) -> None:

    (root / "docs/reference").mkdir(exist_ok=True)
    (root / "docs/reference/experiment.md").write_text(reference(), encoding="utf-8")


def lock(
    *, upgrade: Annotated[bool, typer.Option("--upgrade", help="Move every pin to the newest release.")] = False
) -> None:
    """Pin every dependency with its hashes.

    Writes requirements/*.txt, for Linux and macOS and every Python from 3.11. No file there names a place.
    """
    root = find_or_refuse()
    newest = ["--upgrade"] if upgrade else []
    extras = ("estimator", "plots", "relay", "witness", "coordinator", "dashboard", "tokens", "postgres")
    run = [
        "pyproject.toml",
        "--constraints",
        "requirements/constraints.in",
        *(word for extra in extras for word in ("--extra", extra)),
        *("--group", "lab"),
    ]
    # What builds is installed beside what runs: of both, one version.
    build = ["requirements/build.in", "--constraints", "requirements/run.txt"]
    dev = [*run, "--group", "dev", "--constraints", "requirements/run.txt", "--constraints", "requirements/build.txt"]
    for name, what in {"bootstrap": ["requirements/bootstrap.in"], "run": run, "build": build, "dev": dev}.items():
        code = call(tool(*_COMPILE, *newest, *what, "--output-file", f"requirements/{name}.txt"), root)
        if code:
            raise typer.Exit(code)
