"""docs/reference/experiment.md: every setting of an experiment, out of what its parts declare."""

from __future__ import annotations

from collections.abc import Iterable

from secvm.learning.aggregate.descent import DEPLOYED, OFFLINE, RULES
from secvm.learning.declared import BINS, BUDGET, HASHES, TRAIN_SHARE, Setting, shown
from secvm.learning.experiment import Robust
from secvm.learning.losses import LOSSES
from secvm.learning.thinning import Thinning
from secvm.privacy.target import PrivacyTarget

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
