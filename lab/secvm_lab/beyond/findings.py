"""What came out, as values: the page, the text and the JSON are made from the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike

from secvm_lab.beyond import cost, hashes, problems, trial
from secvm_lab.beyond.problems import Problem
from secvm_lab.beyond.texts import FileText, MadeUpText, Text
from secvm_lab.beyond.ways import KINDS

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
    return Findings(asked, networks, hashed, cost.told(problems.BINS, COST_HIDDEN))


def _problems(asked: Asked) -> Iterator[Problem]:
    yield problems.interactions(asked.people, asked.seed)
    yield problems.digits()
    yield problems.words(asked.people, asked.seed)
    if asked.data is not None:
        yield problems.from_file(asked.data, asked.seed)


def _texts(asked: Asked) -> Iterator[tuple[str, Text]]:
    yield "words", MadeUpText(asked.people, asked.seed)
    if asked.data is not None:
        yield "file", FileText(asked.data)
