"""What came out, as values: the page, the text and the JSON are made from the same ones.

What cover would cost a network: the accountant's own numbers, for a table of costs, not a guarantee.

The accountant counts cells. A network of h hidden units has h times as many, and one person can name h times as many
of them in a round: two relays' cover for the same (ε, δ) grows by both. Asked here as if each parameter that a
person can name were sent for certain. docs/proofs/thinned-cover.md is about the linear model; nothing of it was proved
again for networks, whose entries are sent with chances that differ within a person. The label game
(``label_leakage``) has no network either: a package's sign is not the label's there, and what it tells has not
been computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike

from secvm.learning.cover_law import MAX_PACKAGES
from secvm.learning.thinning import Thinning
from secvm.privacy.planning.relay_plan import RelayQuestion, plan_relays
from secvm.privacy.target import PrivacyTarget
from secvm_lab.beyond import hashes, problems, trial
from secvm_lab.beyond.methods import KINDS
from secvm_lab.beyond.network import Shape
from secvm_lab.beyond.problems import Problem, Text, made_up_text, text_of_file

#: What is asked for: 100,000 people of 30 words, 20 rounds.
PEOPLE, WORDS, ROUNDS = 100_000, 30, 20
TARGET = PrivacyTarget(Fraction(1), most_packages=MAX_PACKAGES)


def cover_costs(n_bins: int, hidden: int) -> dict[str, dict[str, int]]:
    """The linear model's cost, and that of a network with two labels over the same bins.

    ``cells``: what a package can name, parameters and signs. ``named``: the most that one person names in a round.
    ``cover_packages``: what each relay adds to a round.
    """
    shape, costs = Shape(n_bins, hidden), {}
    for name, bins, features in (
        ("linear", n_bins, WORDS),
        ("network", shape.n_parameters - 1, shape.touched(WORDS) - 1),
    ):
        question = RelayQuestion(
            target=TARGET, people=PEOPLE, bins=bins, features=features, rounds=ROUNDS, thinning=Thinning()
        )
        packages = plan_relays(question).cover.packages
        costs[name] = {
            "cells": question.train_cells,
            "named": question.contribution.cells,
            "cover_packages": packages,
        }
    return costs


def told(n_bins: int, hidden: int) -> dict[str, object]:
    """Both costs as stable keys."""
    costs = cover_costs(n_bins, hidden)
    return {
        "asked": {
            "people": PEOPLE,
            "words": WORDS,
            "rounds": ROUNDS,
            "epsilon": float(TARGET.epsilon),
            "delta": float(TARGET.delta),
            "bins": n_bins,
            "hidden": hidden,
        },
        **costs,
        "times": round(costs["network"]["cover_packages"] / costs["linear"]["cover_packages"], 1),
        "proved_for_networks": False,
    }


#: The network whose cover is asked for.
COST_HIDDEN = 8


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command was asked for."""

    people: int
    #: Splits for hashes, and for networks.
    splits: int
    network_splits: int
    rounds: int
    seed: int
    data: str | PathLike[str] | None = None
    most_hashes: int = 4
    threads: int = 1

    @property
    def hashes(self) -> tuple[int, ...]:
        return tuple(range(1, self.most_hashes + 1))

    @property
    def steps(self) -> int:
        """Of progress: trainings of networks and their peers, and hashings."""
        texts = 1 if self.data is None else 2
        n_problems = 3 if self.data is None else 4
        salts = min(hashes.SALTS, self.splits)
        hashed = texts * len(hashes.BINS_PER_WORD) * len(self.hashes) * salts
        return n_problems * len(KINDS) * self.network_splits + hashed


@dataclass(frozen=True, eq=False)
class Findings:
    """Everything that came out."""

    asked: Asked
    networks: tuple[tuple[Problem, Sequence[trial.Outcome]], ...]
    #: By the name of the people.
    hashed: tuple[tuple[str, Sequence[hashes.Cell]], ...]
    cover: dict[str, object]

    def told(self) -> dict[str, object]:
        """As stable keys."""
        return {
            "people": self.asked.people,
            "rounds": self.asked.rounds,
            "seed": self.asked.seed,
            "network": {problem.name: trial.told(problem, outcomes) for problem, outcomes in self.networks},
            "hashes": {name: hashes.told(cells) for name, cells in self.hashed},
            "cover": self.cover,
        }


def find(asked: Asked, advance: Callable[[int], None]) -> Findings:
    """Run both parts."""
    texts = list(_texts(asked))  # a file that will not do is refused before anything takes time
    networks = tuple(
        (
            problem,
            trial.compare(problem, splits=asked.network_splits, rounds=asked.rounds, seed=asked.seed, advance=advance),
        )
        for problem in _problems(asked)
    )
    hashed = tuple(
        (
            name,
            hashes.try_hashes(
                text,
                hashes=asked.hashes,
                splits=asked.splits,
                rounds=asked.rounds,
                seed=asked.seed,
                threads=asked.threads,
                advance=advance,
            ),
        )
        for name, text in texts
    )
    return Findings(asked, networks, hashed, told(problems.BINS, COST_HIDDEN))


def _problems(asked: Asked) -> Iterator[Problem]:
    yield problems.interactions(asked.people, asked.seed)
    yield problems.digits()
    yield problems.words(asked.people, asked.seed)
    if asked.data is not None:
        yield problems.from_file(asked.data, asked.seed)


def _texts(asked: Asked) -> Iterator[tuple[str, Text]]:
    yield "words", made_up_text(asked.people, asked.seed)
    if asked.data is not None:
        yield "file", text_of_file(asked.data)
