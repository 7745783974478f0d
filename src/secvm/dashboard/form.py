"""What the form of a new experiment takes from the declarations of its parts: a module that the page imports.

    export const DECLARED = {"fields": {"privacy.epsilon": {"default": "1", "hint": "…"}, …},
                             "rules": {NAME: {"about": "few rounds", "settings": ["step_size", …]}, …}}

Fields have the names of a specification. Rules of other packages are among them where they are installed.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import orjson

from secvm.errors import BadInputError
from secvm.learning.aggregate.descent import DEPLOYED, RULES, DescentRule
from secvm.learning.common_settings import BINS, HASHES, USUAL_TRAIN_SHARE
from secvm.learning.declared import Setting
from secvm.privacy.target import PrivacyTarget

#: The module's name among the page's files.
NAME = "declared.js"


def declared_module() -> bytes:
    """The module."""
    settings = {f"privacy.{setting.name}": setting for setting in PrivacyTarget.settings()}
    settings |= {"binning.bins": BINS, "binning.hashes": HASHES}
    fields = {name: {"default": _text(setting), "hint": setting.sentence} for name, setting in settings.items()}
    rules = {rule.name: rule for rule in (DEPLOYED, *filter(None, map(_rule, RULES)))}
    for rule in reversed(rules.values()):
        # What is left empty is chosen by a plan, or is the rule's own.
        fields |= {f"descent.{each.name}": {"default": "", "hint": each.sentence} for each in rule.settings()}
    fields["descent.rule"] = {"default": DEPLOYED.name, "hint": ""}
    fields["train_share"] = {"default": f"{float(100 * USUAL_TRAIN_SHARE):g}", "hint": ""}
    told = {
        "fields": fields,
        "rules": {name: {"about": rule.about, "settings": rule.setting_names()} for name, rule in rules.items()},
    }
    return b"export const DECLARED = " + orjson.dumps(told) + b";\n"


def _rule(name: str) -> type[DescentRule] | None:
    """The rule of a name; None: its package is broken, which is no reason to show no form."""
    try:
        return RULES.find(name)
    except BadInputError:
        return None


def _text(setting: Setting) -> str:
    """A default as somebody would type it: no exponents."""
    if setting.default is None:
        return ""
    ratio = Fraction(setting.default)
    return f"{Decimal(ratio.numerator) / Decimal(ratio.denominator):f}"
