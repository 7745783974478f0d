"""Result: what came of an experiment in Python, whether it was simulated or trained by a federation's processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from secvm.errors import BadInputError
from secvm.estimator.model import ModelFile
from secvm.files import write_atomically
from secvm.learning.individual.binning import Binning
from secvm.learning.weights import Weights
from secvm.participant.consent.policies import Consent
from secvm.privacy.statements import plain, relayed_text
from secvm.privacy.statements.relayed import RelayedStatement
from secvm.protocol.documents.experiment import ExperimentDocument

if TYPE_CHECKING:
    from secvm.estimator import SecVMClassifier


class Estimate(NamedTuple):
    """A share of people, and the interval that holds the true one in 95 of 100 cases; no value: nobody was counted."""

    value: float | None
    low: float
    high: float

    def __str__(self) -> str:
        return "–" if self.value is None else f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True)
class Round:
    """One round, by what is public of it: counts, and what the test people say of the model that it began with."""

    number: int
    #: Whether the model went on: not where too few took part, or noise left nobody.
    learnt: bool
    #: Label → how many trained, by the counts; with cover an estimate.
    people: Mapping[str, int]
    #: None: the round was not counted.
    accuracy: Estimate | None
    #: By label. The share of people, ``baseline``, is the recall of somebody who guesses by the shares.
    recall: Mapping[str, Estimate]
    precision: Mapping[str, Estimate]
    baseline: Mapping[str, Estimate]

    @classmethod
    def of(cls, number: int, content: Mapping[str, Any], *, learnt: bool) -> Round:
        """From what a coordinator's public status tells of the round (``status_document.scores``)."""

        def each(name: str) -> dict[str, Estimate]:
            return {label: _estimate(share) for label, share in content.get(name, {}).items()}

        return cls(
            number=number,
            learnt=learnt,
            people=content.get("people", {}),
            accuracy=_estimate(content["accuracy"]) if "accuracy" in content else None,
            recall=each("recall"),
            precision=each("precision"),
            baseline=each("baseline"),
        )

    def row(self) -> dict[str, Any]:
        """All of it as one flat dict: ``accuracy``, ``accuracy_low``, ``recall_north`` and so on."""
        row: dict[str, Any] = {"round": self.number, "learnt": self.learnt}
        row |= {f"people_{label}": count for label, count in self.people.items()}
        shares = {"accuracy": self.accuracy}
        for name in ("recall", "precision", "baseline"):
            shares |= {f"{name}_{label}": share for label, share in getattr(self, name).items()}
        for name, share in shares.items():
            if share is not None:
                row |= {name: share.value, f"{name}_low": share.low, f"{name}_high": share.high}
        return row


def _estimate(share: Mapping[str, Any]) -> Estimate:
    return Estimate(share["value"], share["low"], share["high"])


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """Rounds, model, packages and privacy of an experiment that has ended, or of its first rounds."""

    #: The experiment as devices see it, with the budget and the cover that were planned for it.
    document: ExperimentDocument
    rounds: tuple[Round, ...]
    #: Devices that took part.
    devices: int
    #: By which people are predicted after the last of these rounds.
    weights: Weights
    #: How words become bins, as everybody knows.
    binning: Binning
    #: What its operator should know, such as a model that swings.
    notes: tuple[str, ...] = ()

    @cached_property
    def model_file(self) -> ModelFile:
        """The model as ``secvm experiment export`` writes it."""
        return ModelFile(
            experiment=self.document.experiment,
            binning=self.binning,
            weights=self.weights,
            presence=self.document.features.presence,
            rounds=len(self.rounds),
            # With cover, devices train on bins that have one unit or none, and so whoever predicts must see them.
            one_per_bin=self.document.experiment.cover is not None,
        )

    @property
    def model(self) -> SecVMClassifier:
        """The model, ready to predict."""
        from secvm.estimator import SecVMClassifier  # noqa: PLC0415  (scikit-learn takes a second)

        if self.weights.first:
            raise BadInputError("the model has learnt nothing: in no round did enough people take part")
        return SecVMClassifier.of_model(self.model_file)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as a file, whole or not at all."""
        write_atomically(Path(path), self.model_file.to_bytes())

    @property
    def accuracy(self) -> Estimate | None:
        """Of the model that the last counted round began with, on the people who test."""
        counted = [played.accuracy for played in self.rounds if played.accuracy is not None]
        return counted[-1] if counted else None

    @property
    def packages(self) -> dict[str, int]:
        """How many packages there were: a device's in each round, all devices' in all, and what each relay adds."""
        budget, cover = self.document.budget, self.document.experiment.cover
        return {
            "per_device_and_round": budget,
            "sent": budget * self.devices * len(self.rounds),
            "cover_per_relay_and_round": 0 if cover is None else cover.packages,
        }

    @cached_property
    def privacy(self) -> dict[str, Any]:
        """What a device says before it takes part in all rounds: the guarantee, the risk, and the words.

        The risk is the largest AUC of anybody who asks for a label and knows everything else: .5 is a coin toss, and 1,
        which is that of an experiment without a guarantee, is certainty.
        """
        claimed, statement = self.document.privacy, Consent().statement(self.document)
        words = relayed_text.words(statement) if isinstance(statement, RelayedStatement) else plain.words(statement)
        return {
            "guarantee": "none" if claimed is None else "formal",
            "epsilon": None if claimed is None else float(claimed.epsilon),
            "delta": None if claimed is None else float(claimed.delta),
            "risk": statement.risk,
            "words": words,
        }

    def rows(self) -> list[dict[str, Any]]:
        """A flat dict a round, for a data frame or a CSV file."""
        return [played.row() for played in self.rounds]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the model, as JSON takes it."""
        return {
            "title": self.document.title,
            "labels": list(self.document.experiment.labels),
            "devices": self.devices,
            "rounds": self.rows(),
            "packages": self.packages,
            "privacy": self.privacy,
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        accuracy = "" if self.accuracy is None else f", accuracy {self.accuracy}"
        return f"<Result: {len(self.rounds)} of {self.document.rounds} rounds, {self.devices:,} devices{accuracy}>"

    def __str__(self) -> str:
        labels, privacy = self.document.experiment.labels, self.privacy
        width = max(8, *(len(label) for label in labels)) + len("recall ")
        head = "  ".join(f"{f'recall {label}':>{width}}" for label in labels)
        lines = [
            f"{self.document.title}: {self.devices:,} devices, {len(self.rounds)} of {self.document.rounds} rounds",
            f"round  trained  {'accuracy':<24}  {head}",
        ]
        for played in self.rounds:
            recalls = "  ".join(f"{_short(played.recall.get(label)):>{width}}" for label in labels)
            accuracy = "not counted" if played.accuracy is None else str(played.accuracy)
            lines.append(f"{played.number:>5}  {sum(played.people.values()):>7,}  {accuracy:<24}  {recalls}".rstrip())
        packages = self.packages
        lines.append(f"packages: {packages['sent']:,}, {packages['per_device_and_round']} of each device in a round")
        if privacy["guarantee"] == "formal":
            lines[-1] += f", beside {packages['cover_per_relay_and_round']:,} of each relay"
            lines.append(f"privacy: epsilon {privacy['epsilon']:g} at delta {privacy['delta']:g} over all rounds")
        else:
            lines.append("privacy: no formal guarantee")
        return "\n".join([*lines, *self.notes])


def _short(share: Estimate | None) -> str:
    return "–" if share is None or share.value is None else f"{share.value:.3f}"
