"""A ``Figure`` as a PNG or SVG file, drawn with matplotlib (the extra ``plots``) in the colours of the pages.

The reader's own settings of matplotlib are set aside and neither date nor version is written, so that one figure is
one file.
"""

from __future__ import annotations

import importlib.util
import io
import math
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

from secvm.errors import NotInstalledError

if TYPE_CHECKING:
    from secvm.pages.figure import Bars, Curve, Figure

_SHEET = (files("secvm.pages") / "static" / "look.css").read_text(encoding="utf-8")
#: Every colour of the pages' sheet by its name, in daylight: its first block.
_DAY = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", _SHEET.partition("}")[0]))
_CURVES = tuple(_DAY[f"c{i}"] for i in range(8))
_INK, _SOFT, _EDGE = (_DAY[name] for name in ("ink", "soft", "edge"))
#: Inches, and dots of an inch: 1,440 × 810.
_SIZE, _DOTS = (9.6, 5.4), 150
#: Of levels to compare with.
_DASHES = ((1.5, 2.5), (6, 3.5), (6, 2.5, 1.5, 2.5))


def check_drawable() -> None:
    """Refuse in a sentence where no picture can be drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        raise NotInstalledError("drawing", "matplotlib", "plots")


def picture(figure: Figure, kind: Literal["png", "svg"] = "png") -> bytes:
    """The picture, always in daylight.

    Raises
    ------
    BadInputError
        Without the extra ``plots``.
    """
    check_drawable()
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure as Sheet  # noqa: PLC0415

    with mpl.rc_context():
        mpl.rcdefaults()
        # Names are written as text, and ids follow from what is drawn.
        mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": figure.name})
        sheet: Any = Sheet(figsize=_SIZE, dpi=_DOTS, layout="constrained")
        FigureCanvasAgg(sheet)
        sheet.get_layout_engine().set(w_pad=0.14, h_pad=0.12)
        axes: Any = sheet.add_subplot()
        _draw_axes(axes, figure)
        if figure.bars is not None:
            _draw_bars(axes, figure.bars)
        for curve in figure.curves:
            _draw_curve(axes, curve)
        axes.margins(x=0)
        across = {x for curve in figure.curves for x in curve.x}
        if len(across) == 1 and figure.bars is None and not figure.shades:
            # All in one place: the axis would have no width, and matplotlib would warn whoever runs the command.
            (x,) = across
            axes.set_autoscalex_on(False)
            axes.set_xlim((x / 2, 2 * x) if figure.log_across else (x - 1, x + 1))
        axes.set_ylim(figure.lowest, figure.highest)
        handles, names = axes.get_legend_handles_labels()
        # The order of the figure: what lies behind the curves was drawn before them.
        behind = len(names) - len(figure.curves)
        handles, names = handles[behind:] + handles[:behind], names[behind:] + names[:behind]
        if names:
            # Outside, so that it covers nothing.
            look = {"frameon": False, "labelcolor": _INK, "fontsize": 10, "ncols": _columns(names)}
            sheet.legend(handles, names, loc="outside lower left", **look)
        buffer = io.BytesIO()
        unsaid = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
        sheet.savefig(buffer, format=kind, dpi=_DOTS, metadata=unsaid)
    return buffer.getvalue()


def _columns(names: list[str]) -> int:
    return max(1, min(len(names), 110 // (max(map(len, names)) + 6)))


def _draw_axes(axes: Any, figure: Figure) -> None:
    from matplotlib.ticker import PercentFormatter  # noqa: PLC0415

    axes.set_title(figure.title, loc="left", color=_INK, fontsize=13, fontweight="bold", pad=26)
    axes.text(0, 1.025, figure.up, transform=axes.transAxes, color=_SOFT, fontsize=10.5)
    axes.set_xlabel(figure.across, color=_SOFT, fontsize=10.5)
    if figure.log_across:
        axes.set_xscale("log")
    if figure.places:
        axes.set_xticks([place.value for place in figure.places], [place.label for place in figure.places])
        axes.minorticks_off()
    if figure.percent:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.grid(visible=True, axis="y", color=_EDGE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=_SOFT, labelsize=10, length=3)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(which="minor", length=2, color=_SOFT)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_SOFT)
    for place, rule in enumerate(figure.rules):
        dashes = (0, _DASHES[place % len(_DASHES)])
        axes.axhline(rule.value, color=_SOFT, linewidth=1.2, linestyle=dashes, label=rule.name)
    named = set[str]()
    for shade in figure.shades:
        label = None if shade.name in named else shade.name
        named.add(shade.name)
        axes.axvspan(shade.low, shade.high, facecolor=_SOFT, alpha=0.13, linewidth=0, label=label)


def _draw_bars(axes: Any, bars: Bars) -> None:
    below = [0.0] * len(bars.x)
    for stack in bars.stacks:
        heights = [value if math.isfinite(value) else 0.0 for value in stack.values]
        colour = _CURVES[stack.colour % len(_CURVES)]
        axes.bar(bars.x, heights, 0.72 * bars.apart, below, color=colour, linewidth=0, label=stack.name)
        below = [sum(pair) for pair in zip(below, heights, strict=True)]


def _draw_curve(axes: Any, curve: Curve) -> None:
    colour = _CURVES[curve.colour % len(_CURVES)]
    few = len(curve.x) < 25
    if curve.band is not None:
        axes.fill_between(curve.x, *curve.band, color=colour, alpha=0.15, linewidth=0)
        if len(curve.x) == 1:
            axes.vlines(curve.x, *curve.band, color=colour, alpha=0.28, linewidth=5)
    axes.plot(
        curve.x,
        curve.y,
        color=colour,
        linewidth=1.8,
        linestyle=(0, (4, 2.5)) if curve.dashed else "-",
        marker="o" if few else None,
        markersize=4,
        label=curve.name,
        zorder=3,
    )
