"""Cover that every device adds to its own packages: a baseline for the laboratory, beside two relays' cover.

Here (ε, δ) holds only if a share γ of the devices that the cover was planned for is honest and delivers. Two relays'
cover needs no such number, and that is why devices' cover is no part of the product (docs/privacy.md). All devices'
shares are drawn at once, by their law; what they add on average is known and taken off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from secvm.estimator.training import OfflineTraining, Population
from secvm.learning import aggregate
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.label_models import LabelModels
from secvm.learning.rows import BinnedRows
from secvm.privacy.planning.noise_settings import NoiseSettings, noise_settings
from secvm.privacy.target import PrivacyTarget
from secvm_lab.baselines.baseline import NOISE, Fitted, Guarantee, clipped, dice
from secvm_lab.baselines.device_cover_plan import SHAPE, DeviceNoise, DevicePlan, plan_devices
from secvm_lab.baselines.plain import number_of_labels


@dataclass(frozen=True)
class DeviceCover:
    """(ε, δ) by the cover of every device, if a share γ of them is honest."""

    target: PrivacyTarget
    contribution: int
    gamma: Fraction = Fraction(1)
    shape: int = SHAPE
    name: str = "devices' cover"
    threads: int = 1

    def planned(self, *, people: int, bins: int, labels: int) -> tuple[NoiseSettings, DevicePlan]:
        """Settings and cover for so many people."""
        models = LabelModels(n_labels=labels, multiclass="ovr")
        settings = noise_settings(
            people=people,
            bins=bins,
            contribution=self.contribution,
            epsilon=float(self.target.epsilon),
            delta=float(self.target.delta),
            covers=1 / self.gamma,
            models=models.most_per_person,
        )
        made = plan_devices(
            self.target,
            people=people,
            bins=bins,
            features=self.contribution,
            rounds=settings.rounds,
            thinning=settings.thinning,
            labels=labels,
            models=models.n_models,
            violable=models.most_per_person,
            gamma=self.gamma,
            shape=self.shape,
        )
        return settings, made

    def fit(self, rows: BinnedRows, labels: NDArray[np.int64], *, seed: int) -> Fitted:
        n_labels = number_of_labels(labels)
        settings, made = self.planned(people=len(rows), bins=rows.n_bins, labels=n_labels)
        experiment = Experiment(
            n_bins=rows.n_bins,
            labels=tuple(str(label) for label in range(n_labels)),
            rule=settings.rule,
            thinning=settings.thinning,
            features_per_person=self.contribution,
        )
        training = _UnderCover(experiment, made, devices=len(rows), seed=seed, threads=self.threads)
        people = Population(rows=clipped(rows, self.contribution, seed=seed), labels=labels.astype(np.int64))
        for _ in range(settings.rounds):
            training.advance(people)
        epsilon, delta = float(self.target.epsilon), float(self.target.delta)
        return Fitted(
            self.name,
            aggregate.evaluation_weights(experiment, training.state),
            experiment.models,
            Guarantee(epsilon, delta, f"{made.honest} honest devices", "privacy losses, exact laws"),
            {"budget": float(made.budget), "cover_mean": made.cover_mean},
        )


class _UnderCover(OfflineTraining):
    """Rounds whose tallies have every device's cover in them, less what it is on average."""

    def __init__(self, experiment: Experiment, plan: DevicePlan, *, devices: int, seed: int, threads: int) -> None:
        super().__init__(experiment, seed=seed.to_bytes(8, "little"), threads=threads)
        self._plan, self._devices, self._noise_seed = plan, devices, seed

    def received(self, tally: Tally) -> Tally:
        draw = dice(self._noise_seed, NOISE, self.round_number)

        def noised(counts: NDArray[np.int64], noise: DeviceNoise) -> NDArray[np.int64]:
            drawn = draw_devices(draw, noise, self._devices, counts.shape)
            return counts + drawn - round(self._devices * noise.mean)

        train, here = self._plan.train, self._plan.participation
        return replace(
            tally,
            plus=noised(tally.plus, train),
            minus=noised(tally.minus, train),
            # Numbers of people are not negative.
            participants=np.maximum(noised(tally.participants, here), 1),
        )


def draw_devices(
    draw: np.random.Generator, noise: DeviceNoise, devices: int, size: tuple[int, ...]
) -> NDArray[np.int64]:
    """What so many devices together add to each of so many cells, by its law."""
    found: NDArray[np.int64] = draw.negative_binomial(float(devices * noise.share), 1 - noise.p, size).astype(np.int64)
    return found
