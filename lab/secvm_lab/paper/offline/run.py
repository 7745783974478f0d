"""The whole evaluation: train what the asked figures need, then say what came of it.

The results are a value that JSON can carry, the same bytes whenever, wherever and in however many attempts they were
made; how long it took is told beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from secvm_lab.paper.offline import baselines, rules
from secvm_lab.paper.offline.model_figures import chosen_lambda, first_models, models_of_b, results
from secvm_lab.paper.offline.models import Model, Trained
from secvm_lab.paper.offline.settings import AVERAGED, Settings
from secvm_lab.paper.offline.statements import statements
from secvm_lab.paper.offline.training import Trainer

#: Figures that are run by themselves, without the engine.
_OTHERS: dict[str, Any] = {"rules": rules, "baselines": baselines}


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Settings, and a trainer for them."""

    settings: Settings
    trainer: Trainer

    @property
    def asked(self) -> int:
        """Different models that the figures are made of."""
        later = len(AVERAGED) if "1a" in self.settings.figures else 0
        return len(set(first_models(self.settings))) + later

    def work(self) -> int:
        """Rounds that are still to be run, of all models together."""
        rounds = sum(model.rounds for model in self.trainer.missing(first_models(self.settings)))
        if "1a" in self.settings.figures:
            rounds += len(AVERAGED) * self.settings.rounds
        for name, figure in _OTHERS.items():
            if name in self.settings.figures:
                rounds += figure.work(self.settings, self.trainer.stored)
        return rounds

    def run(self, advance: Callable[[int], None] = lambda _: None) -> dict[str, Any]:
        """All that was asked for.

        Args:
            advance: called with rounds done; ``work`` says how many there will be.
        """
        settings, trained = self.settings, self._train(advance)
        found = {"data": self._data(), "settings": self._settings(), **results(settings, trained)}
        for name, figure in _OTHERS.items():
            if name in settings.figures:
                found[name] = figure.result(settings, self.trainer.labels, self.trainer.stored, advance)
        found["statements"] = statements(found)
        return found

    def _train(self, advance: Callable[[int], None]) -> Mapping[Model, Trained]:
        trained = dict(self.trainer.train(first_models(self.settings), advance))
        if "1a" in self.settings.figures:
            of_b = models_of_b(self.settings, chosen_lambda(self.settings, trained))
            there = len(of_b) - len(self.trainer.missing(of_b))
            advance(there * self.settings.rounds)
            trained |= self.trainer.train(of_b, advance)
        return trained

    def _data(self) -> dict[str, Any]:
        crowd = self.settings.crowd
        labels = self.trainer.labels
        counts = {name: int((labels == code).sum()) for code, name in enumerate(crowd.label_names)}
        return {**crowd.identity(), "people": crowd.n_people, "words": crowd.n_words, "labels": counts}

    def _settings(self) -> dict[str, Any]:
        settings = self.settings
        return {
            "figures": list(settings.figures),
            "rounds": settings.rounds,
            "lambda": settings.lambda_,
            "splits": settings.n_splits,
            "split_seed": settings.splits.seed,
            "test_share": settings.splits.test_share,
            "splits_per_hash": settings.splits_per_hash,
            "salts": settings.salts,
        }
