"""Pictures of results, drawn with matplotlib (the extra ``plots``), as PNG bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from secvm.errors import BadInputError
from secvm.learning.aggregate.scoring import Share


def pyplot() -> Any:
    """Matplotlib's drawing functions without a screen, or one sentence where it is not installed."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise BadInputError("drawing needs matplotlib", next_step="pip install 'secvm[plots]'") from None
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def draw_curve(curve: Sequence[tuple[int, float]], *, measure: str, n_test: int, result: dict[str, Any]) -> bytes:
    """Test score by round, with the 95 % interval of an accuracy and its baseline."""
    if not curve:
        raise BadInputError("there is no curve to draw without test people")
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    rounds = [r for r, _ in curve]
    values = [v for _, v in curve]
    axes.plot(rounds, values, color="#1f4e79", linewidth=1.6, label=f"test {measure}")
    if measure == "accuracy":
        ends = [Share(round(v * n_test), n_test).interval for v in values]
        axes.fill_between(
            rounds, [e[0] for e in ends], [e[1] for e in ends], color="#1f4e79", alpha=0.15, label="95 % interval"
        )
        majority = max(result["baseline"].values())
        axes.axhline(majority, color="#8a8a8a", linestyle="--", linewidth=1, label="largest label's share")
    spells = [s for s in result["two_cycle_spells"] if s[0] <= rounds[-1]]
    for i, (first, last) in enumerate(spells):
        axes.axvspan(first, last, color="#c0392b", alpha=0.08, label="two-cycle" if i == 0 else None)
    axes.set_xlabel("round")
    axes.set_ylabel(measure)
    axes.set_title(f"{result['descent']}, {result['bins']:,} bins, {result['n_train']:,} people", fontsize=11)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    return png(figure, plt)


def png(figure: Any, plt: Any) -> bytes:
    """The bytes of a drawing, which is let go of."""
    buffer = io.BytesIO()
    # No date, no version: the same curve is the same file.
    figure.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    plt.close(figure)
    return buffer.getvalue()
