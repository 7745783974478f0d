"""Showcase: a small federation of made-up people with its pages, for whoever looks at them: tests, and the pictures.

    with Showcase(folder) as showcase:
        showcase.play(3)                     # three rounds; then time stands still
        … showcase.url …                     # the operator's page

Between two calls of ``play`` nothing moves but what somebody does on a page.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from secvm.testing.federation import COORDINATOR, Federation, Pace
from secvm.testing.processes import in_memory
from secvm_lab.demo.crowd import made_up
from secvm_lab.demo.plan import Plan

#: Seconds of the federation in one of the machine: few people keep up with more than hundreds do.
_RATE = 30.0


class Showcase:
    """Use it in a ``with``: at the end nothing runs any more."""

    def __init__(
        self,
        folder: Path,
        *,
        participants: int = 30,
        rounds: int = 30,
        bins: int = 256,
        seed: int = 3,
        epsilon: float | None = None,
        **told: object,
    ) -> None:
        """``rounds`` are planned, none is played yet; ``epsilon``: with two relays' cover, and so many words as bins.
        ``told``: of the experiment, such as its title.
        """
        self._plan = Plan(participants=participants, rounds=rounds, hosts=1, seed=seed, bins=bins, epsilon=epsilon)
        crowd = made_up(participants, seed=seed, further=1, vocabulary_size=self._plan.vocabulary_size)
        self._budget = self._plan.experiment(crowd).budget or 0
        self._specification = {**self._plan.specification(crowd), **told}
        self.federation = Federation(
            folder,
            hosts=self._plan.carried(crowd, folder),
            seed=self._plan.dice_seed.decode(),
            pace=Pace(rate=_RATE),
            dashboard=True,
            covered=self._plan.covered,
        )
        #: The last round that is over.
        self.played = 0

    def __enter__(self) -> Self:
        try:
            self.federation.start_servers()
            self.federation.begin(self._specification)
        except BaseException:
            self.federation.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.federation.stop()

    @property
    def url(self) -> str:
        """The operator's page, without a slash at the end."""
        return self.federation.page_url.rstrip("/")

    @property
    def participants(self) -> int:
        """Devices, all of which attend every round."""
        return self._plan.participants

    @property
    def digest(self) -> str:
        """The experiment."""
        return self.federation.digest

    @property
    def admin_key(self) -> str:
        """What an operator types."""
        return self.federation.admin_key

    def play(self, rounds: int = 1, *, midway: Callable[[], None] | None = None) -> None:
        """So many rounds from opening to publication. ``midway``: called in the last one, while half of its window is
        over and time stands still.
        """
        for left in reversed(range(rounds)):
            number = self.played + 1
            look = None if midway is None or left else _Once(self.federation, number, midway)
            self.federation.play_round(number, attending=self.participants, budget=self._budget, look=look)
            self.played = number

    def status(self) -> dict[str, Any]:
        """The coordinator's own public word on the experiment."""
        told: dict[str, Any] = json.loads(
            self.federation.ask(COORDINATOR, "GET", f"/v1/experiment/{self.digest}/status")
        )
        return told

    def operate(self, what: str) -> None:
        """Pause, resume or stop, as an operator with the key and without a page."""
        self.federation.ask(COORDINATOR, "POST", f"/admin/experiments/{self.digest}/{what}", admin=True)


@contextlib.contextmanager
def temporary_showcase(**options: Any) -> Iterator[Showcase]:
    """One in a folder that is gone at the end."""
    with tempfile.TemporaryDirectory(dir=in_memory()) as folder, Showcase(Path(folder), **options) as started:
        yield started


class _Once:
    """Looks at the clock of an open round, and does something when it is in the middle of it."""

    def __init__(self, federation: Federation, number: int, do: Callable[[], None]) -> None:
        self._clock, self._do = federation.clock, do
        self._at: int | None = federation.opens_at(number) + 500 * federation.pace.length_s

    def __call__(self, now: int) -> None:
        if self._at is None or now < self._at:
            return
        self._at = None
        resume = self._clock.freeze()
        try:
            self._do()
        finally:
            resume()
