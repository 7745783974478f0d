"""Whether the planner of label leakage is right: its AUC and total variation against the game played with dice.

Each setting is played with ``secvm_lab.label_game``: the target's vector known, its label turned over, everybody else
new, the best attacker. ``difference`` is planned minus played AUC, ``law`` what the law says without corrections. With
``--picture`` the AUC over rounds is drawn: the law alone, the plan, and what was played.

    ./secvm bench labels [--targets 100] [--plays 40] [--seed 1] [--picture labels.svg]
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from secvm.files import write_atomically
from secvm.learning.thinning import Thinning
from secvm.pages.figure import Curve, Figure
from secvm.pages.pictures import picture
from secvm.privacy.leakage import auc_of
from secvm_lab.label_game import play
from secvm_lab.privacy.label_leak import LabelGame, label_leak


def game(
    sides: tuple[int, int | None], bins: int, features: int, *, zipf: float = 0.0, rounds: int = 1, q: str = "1"
) -> LabelGame:
    """A setting in one line."""
    thinning = Thinning() if q == "1" else Thinning(q=Fraction(q))
    return LabelGame(
        positive=sides[0], negative=sides[1], bins=bins, features=features, zipf=zipf, rounds=rounds, thinning=thinning
    )


SETTINGS = {
    "uniform, 1:1": game((1000, 1000), 1000, 100),
    "uniform, 1:9": game((300, 2700), 500, 25),
    "zipf .8, 1:1, q .1": game((300, 300), 1000, 100, zipf=0.8, q="1/10"),
    "zipf 1, 1:1": game((2000, 2000), 1000, 50, zipf=1.0),
    "zipf 1.2, 1:9": game((1000, 9000), 1000, 50, zipf=1.2),
    "zipf 1.2, 1:9, q .2, 10 rounds": game((100, 900), 200, 10, zipf=1.2, rounds=10, q="1/5"),
    "zipf 1, 1:1, q .1, 5 rounds": game((500, 500), 1000, 20, zipf=1.0, rounds=5, q="1/10"),
    "zipf 1.1, 3:7, q .05, 10 rounds": game((300, 700), 500, 20, zipf=1.1, rounds=10, q="1/20"),
    "zipf 1.2, half of all bins, 10 rounds": game((3000, 3000), 400, 200, zipf=1.2, rounds=10),
    "ten features, q .1, few people": game((50, 50), 1000, 10, q="1/10"),
    "zipf 1, ten features, q .1, few people": game((50, 50), 1000, 10, zipf=1.0, q="1/10"),
    "zipf 1, five features": game((200, 200), 200, 5, zipf=1.0),
    "zipf 1.2, ten features, 2:3": game((400, 600), 300, 10, zipf=1.2),
    "zipf 1, the same people, q .25, 8 rounds": replace(
        game((200, 600), 200, 20, zipf=1.0, rounds=8, q="1/4"), same_people=True
    ),
    "zipf 1, cover of variance 5, q .25, 8 rounds": replace(
        game((400, 600), 200, 20, zipf=1.0, rounds=8, q="1/4"), cover_variance=5.0
    ),
    "the paper's two worlds, a hundredth": game((346, None), 958, 18),
}

#: What is drawn: small cells, where the law alone is far off.
DRAWN = game((100, 400), 400, 10, zipf=1.0, q="1/10")
_DRAWN_ROUNDS = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--targets", type=int, default=100, help="people whose label is asked for, in each setting")
    parser.add_argument("--plays", type=int, default=40, help="how often both worlds are played for each")
    parser.add_argument("--seed", type=int, default=1, help="of the dice")
    parser.add_argument("--picture", type=Path, help="draw the AUC over rounds into this SVG file")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Plan and play every setting."""
    result: dict[str, object] = {
        name: _compared(setting, arguments.targets, arguments.plays, arguments.seed)
        for name, setting in SETTINGS.items()
    }
    if arguments.picture is not None:
        drawing = draw(targets=arguments.targets, plays=arguments.plays, seed=arguments.seed)
        write_atomically(arguments.picture, drawing.encode())
    return result


def _compared(setting: LabelGame, targets: int, plays: int, seed: int) -> dict[str, float]:
    leak = label_leak(setting)
    played = play(setting, targets=targets, plays=plays, seed=seed)
    return {
        "law": round(leak.law_auc, 3),
        "planned": round(leak.auc, 3),
        "played": round(played.auc, 3),
        "error": round(played.auc_error, 3),
        "difference": round(leak.auc - played.auc, 3),
        "planned_tv": round(leak.total_variation, 3),
        "played_tv": round(played.total_variation, 3),
        "tv_error": round(played.total_variation_error, 3),
    }


def draw(*, targets: int, plays: int, seed: int) -> str:
    """The AUC over rounds as an SVG document that stands alone."""
    games = [replace(DRAWN, rounds=rounds) for rounds in range(1, _DRAWN_ROUNDS + 1)]
    leaks = [label_leak(one) for one in games]
    played = [play(one, targets=targets, plays=plays, seed=seed) for one in games]
    rounds = [one.rounds for one in games]
    figure = Figure(
        "labels",
        title="How fast a label is found",
        description="AUC of the label over rounds: the law alone, the plan, and the game played with dice.",
        across="rounds",
        up="AUC",
        curves=[
            Curve("the law alone", rounds, [auc_of(leak.law_d_squared) for leak in leaks], colour=7, dashed=True),
            Curve("planned", rounds, [leak.auc for leak in leaks], colour=0),
            Curve(
                "played",
                rounds,
                [one.auc for one in played],
                low=[one.auc - 2 * one.auc_error for one in played],
                high=[min(1.0, one.auc + 2 * one.auc_error) for one in played],
                colour=1,
            ),
        ],
        lowest=0.5,
        highest=1.0,
    )
    return picture(figure, "svg").decode()
