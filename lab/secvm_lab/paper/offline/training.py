"""Train what is missing, and keep each model as soon as it is done.

A ``Sweeper`` trains any number of models over the rows of one recipe: on this machine, or on many.
Which models share a pass, and where they are trained, does not show in what they become.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning._kernels.layout import PreparedRows
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import HashBinning
from secvm_lab.engine import Swept, sweep
from secvm_lab.engine.collapsed import CollapsedRows
from secvm_lab.engine.cuda.sweeping import sweep_on
from secvm_lab.paper.offline.crowd import Crowd, MadeUpCrowd, Recipe
from secvm_lab.paper.offline.models import Model, Stored, Trained, as_json, from_json, key_of
from secvm_lab.paper.offline.splits import Splits
from secvm_lab.paper.twitter.on_device import DeviceWords

if TYPE_CHECKING:
    from secvm.learning.rows import BinnedRows
    from secvm_lab.cluster.sweep import ClusterSweep
    from secvm_lab.engine.cuda.device import Device
    from secvm_lab.engine.cuda.people import DevicePeople
    from secvm_lab.paper.offline.settings import Settings

#: Model-rounds done.
Advance = Callable[[int], None]


#: ``engine.sweep`` over a recipe: every model's result, as soon as it is there. Labels and masks are of those who take
#: part.
Sweeper = Callable[..., Iterator[Swept]]


class LocalSweeper:
    """On this machine. It keeps the rows of the last recipe."""

    def __init__(self) -> None:
        self._last: tuple[Recipe, PreparedRows | CollapsedRows] | None = None

    def __call__(
        self,
        recipe: Recipe,
        labels: NDArray[np.int64],
        experiments: Sequence[Experiment],
        *,
        threads: int,
        **settings: Any,
    ) -> Iterator[Swept]:
        return sweep(self.rows(recipe, threads), labels, experiments, threads=threads, states=False, **settings)

    def rows(self, recipe: Recipe, threads: int) -> PreparedRows | CollapsedRows:
        """Of the people who take part."""
        if self._last is None or self._last[0] != recipe:
            self._last = None  # before the next: two crowds at once are one too many
            self._last = recipe, recipe.prepared(threads=threads)
        return self._last[1]


#: Why unhashed people who are made up are refused, and what to do.
UNHASHED = "unhashed, made-up people have a bin for each of 2^29 words, which no GPU holds"
BY_BINS = "Name numbers of bins with --bins, or leave --device away."


class DeviceSweeper:
    """On the GPU of this machine. It keeps the words of the last made-up crowd there, and hashes them anew."""

    def __init__(self, device: Device, settings: Settings | None = None) -> None:
        """Raise ``BadInputError`` where a GPU cannot hold what these settings ask for."""
        if settings is not None and isinstance(settings.crowd, MadeUpCrowd):
            unhashed = (None in settings.bins and "1b" in settings.figures) or None in settings.asked_bins
            if unhashed or "1a" in settings.figures:
                raise BadInputError(UNHASHED, next_step=BY_BINS)
        self._device = device
        self._drawn: tuple[MadeUpCrowd, DeviceWords] | None = None

    def __call__(
        self,
        recipe: Recipe,
        labels: NDArray[np.int64],
        experiments: Sequence[Experiment],
        *,
        threads: int,
        **settings: Any,
    ) -> Iterator[Swept]:
        return sweep_on(self._device, self._people(recipe, threads), labels, experiments, states=False, **settings)

    def _people(self, recipe: Recipe, threads: int) -> DevicePeople | BinnedRows:
        """Of the people who take part."""
        crowd = recipe.crowd
        if isinstance(crowd, MadeUpCrowd) and recipe.bins is not None and recipe.taken is None:
            if self._drawn is None or self._drawn[0] != crowd:
                self._drawn = None  # before the next: two crowds at once are one too many
                self._drawn = crowd, DeviceWords(self._device, crowd.people, crowd.seed)
            return self._drawn[1].binned(HashBinning(recipe.bins, recipe.salt, recipe.hashes))
        if isinstance(crowd, MadeUpCrowd):
            raise BadInputError(UNHASHED, next_step=BY_BINS)
        rows = crowd.rows(recipe.bins, recipe.hashes, recipe.salt, threads=threads)
        return rows if recipe.taken is None else rows.take(np.flatnonzero(recipe.take))


class ClusterSweeper(LocalSweeper):
    """On the workers of a cluster (``secvm_lab.cluster``).

    Made-up people are made where they are needed, from their recipe. Those of a file are read here, kept until others
    are asked for, and sent: the file need not be anywhere else.
    """

    def __init__(self, cluster: ClusterSweep) -> None:
        super().__init__()
        self._cluster = cluster

    def __call__(
        self,
        recipe: Recipe,
        labels: NDArray[np.int64],
        experiments: Sequence[Experiment],
        *,
        threads: int,
        **settings: Any,
    ) -> Iterator[Swept]:
        people = recipe if isinstance(recipe.crowd, MadeUpCrowd) else self.rows(recipe, threads)
        return self._cluster(people, labels, experiments, threads=threads, states=False, **settings)


@dataclass
class Trainer:
    """Gives trained models: those that are stored as they are, the others after training them."""

    crowd: Crowd
    splits: Splits
    stored: Stored
    sweeper: Sweeper
    threads: int = 1
    #: Models trained by this run.
    computed: int = 0
    _keys: dict[Model, str] = field(default_factory=dict, repr=False)

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """0 or 1 for each person."""
        return self.crowd.labels()

    def missing(self, models: Iterable[Model]) -> list[Model]:
        """Those that are not stored, each once; models that share rows stand together, unhashed ones last."""
        each = dict.fromkeys(models)
        wanted = [model for model in each if self.stored.get(self._key(model)) is None]
        # Trajectories of one split begin alike: its models stand together.
        return sorted(
            wanted,
            key=lambda m: (m.bins is None, m.bins or 0, m.hashes, m.salt, m.rounds, isinstance(m.split, str), m.split),
        )

    def train(self, models: Iterable[Model], advance: Advance = lambda _: None) -> Mapping[Model, Trained]:
        """All of them, trained."""
        models = list(models)
        missing = self.missing(models)
        groups: dict[tuple[Recipe, int], list[Model]] = {}
        for model in missing:
            groups.setdefault((self._recipe(model), model.rounds), []).append(model)
        for (recipe, _), group in groups.items():
            self._train_group(recipe, group, advance)
        return {model: from_json(self.stored.take(self._key(model))) for model in models}

    def _recipe(self, model: Model) -> Recipe:
        """Half a crowd has fewer words, and fewer of them in common: unhashed, it is laid out alone."""
        if model.bins is not None or isinstance(model.split, int):
            return Recipe(self.crowd, model.bins, model.hashes, bytes.fromhex(model.salt))
        take = np.zeros(self.crowd.n_people, np.bool_)
        take[self.splits.half(model.split).people] = True
        return Recipe(self.crowd, None, 1, b"", np.packbits(take).tobytes())

    def _train_group(self, recipe: Recipe, models: list[Model], advance: Advance) -> None:
        take = recipe.take
        splits = dict.fromkeys(model.split for model in models)
        masks = {split: [mask[take] for mask in self.splits.masks(split)] for split in splits}
        left = len(models) * models[0].rounds

        def advance_once(_first: int, together: int, _round: int) -> None:
            # Models that part where lanes are full begin anew, and a round counts once.
            nonlocal left
            steps = min(together, left)
            left -= steps
            advance(steps)

        swept = self.sweeper(
            recipe,
            self.labels[take],
            [model.experiment(recipe.n_bins, self.crowd.label_names) for model in models],
            train=np.stack([masks[model.split][0] for model in models], axis=1),
            test=np.stack([masks[model.split][1] for model in models], axis=1),
            rounds=models[0].rounds,
            threads=self.threads,
            progress=advance_once,
        )
        for one in swept:
            self.stored.put(self._key(models[one.model]), as_json(Trained(one.cells, one.two_cycle_spells)))
            self.computed += 1

    def _key(self, model: Model) -> str:
        if model not in self._keys:
            self._keys[model] = key_of(model, self.crowd, self.splits)
        return self._keys[model]
