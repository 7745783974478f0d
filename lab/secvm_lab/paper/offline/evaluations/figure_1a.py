"""Fig. 1a: test accuracy by round without hashing, for several numbers of averaged weight vectors.

The paper's protocol: the crowd is cut into halves A and B, and each into nine tenths that train and a tenth that tests.
λ is the one with the best accuracy on A's test people in the last round, two vectors averaged (of equals the smallest);
with it B is trained, and B's test people make the figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from secvm_lab.paper.offline.models import Model, Trained
from secvm_lab.paper.offline.results import series
from secvm_lab.paper.offline.settings import AVERAGED, AVERAGING, LAMBDAS, Settings


def models(settings: Settings) -> list[Model]:
    """What is trained on A: every λ."""
    return [settings.model("A", None, lambda_=value) for value in LAMBDAS]


def chosen(settings: Settings, trained: Mapping[Model, Trained]) -> str:
    """The λ that A chooses."""
    return max(LAMBDAS, key=lambda value: float(trained[settings.model("A", None, lambda_=value)].accuracy[-1]))


def models_of_b(settings: Settings, lambda_: str) -> list[Model]:
    """What is trained on B with the chosen λ."""
    return [settings.model("B", None, lambda_=lambda_, averaging=length) for length in AVERAGED]


def result(settings: Settings, trained: Mapping[Model, Trained]) -> dict[str, Any]:
    """A curve for each number of averaged vectors, and how λ was chosen."""
    value = chosen(settings, trained)
    tested = {name: len(settings.splits.half(name).test) for name in ("A", "B")}

    def one(model: Model, half: str) -> dict[str, Any]:
        return series([trained[model]], labels=settings.crowd.label_names, tested=tested[half])

    return {
        "lambda": value,
        "choice": [{"lambda": v, **one(m, "A")} for v, m in zip(LAMBDAS, models(settings), strict=True)],
        "curves": [{"averaging": model.averaging, **one(model, "B")} for model in models_of_b(settings, value)],
        "accuracy": one(settings.model("B", None, lambda_=value, averaging=AVERAGING), "B")["mean"],
        "test_people": tested["B"],
    }
