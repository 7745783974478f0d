"""What the tests of a model say, for people: the same lines after ``secvm train`` and ``secvm evaluate``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from secvm.cli.output import table


def headline(result: Mapping[str, Any]) -> list[str]:
    """The score first, then what became of each label."""
    if result.get("accuracy") is not None:
        low, high = result["accuracy_interval"]
        first = f"accuracy {result['accuracy']:.4f}  (95 %: {low:.4f} to {high:.4f}), {result['n_test']} people"
        rows = [("label", "recall", "precision", "share")]
        for label, recall in result["recall"].items():
            shares = (recall, result["precision"][label], result["baseline"][label])
            rows.append((label, *("-" if share is None else f"{share:.4f}" for share in shares)))
        return [first, *table(rows)]
    if result.get("mae") is not None:
        r2 = "-" if result["r2"] is None else f"{result['r2']:.4f}"  # of equal labels there is none
        return [f"mean absolute error {result['mae']:.6g}, r2 {r2}, {result['n_test']} people"]
    return ["nobody was tested: give --test, --test-fraction or --split-file"]
