"""One sweep under way on a cluster: groups go out, results come in, in order.

1. Some more groups than there are workers are out at a time, so that neither the scheduler nor this process ever holds
   the masks and states of all of them.
2. A result is fetched as soon as it is there and handed on when its turn has come.
3. Whose worker is gone begins again elsewhere: dask sees to it. Rows that were sent are lost with the last worker that
   had them; then they are sent again, and so are the groups.
4. Without any worker it says so, waits for one, and gives up after ``patience_s``. Without a scheduler it gives up.
5. Whoever stops early, by an exception or Ctrl-C, leaves no work behind: groups are cancelled, and workers look for
   that after every round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from distributed import Client, Future, KilledWorker

from secvm.errors import ClusterError
from secvm_lab.cluster import connection as connecting
from secvm_lab.cluster.group import Group, Recipe, SentRows, settled, train_group

if TYPE_CHECKING:
    from secvm_lab.engine import Swept

#: Groups out for each that can be worked on at once, and some more: nobody waits for the slowest of them.
_OUT_PER_SLOT, _MORE_OUT = 2, 2
#: How often it is looked whether anybody is there, if nothing is heard.
_TICK_S = 1.0
#: Rows are lost so many times in a row, with no group done in between, before that is no accident.
_LOSSES = 3

_MORE_MEMORY = "Give workers more memory, or start fewer of them on a machine."

Notice = Callable[[str], None]
Progress = Callable[[int, int, int], None]


class Rows:
    """People where workers find them. A recipe is handed on; rows go to one worker, and others copy them from it."""

    def __init__(self, client: Client, people: SentRows | Recipe) -> None:
        self._client = client
        self._people = people
        self._sent: Future | None = None

    def place(self, *, within_s: float) -> Any:
        """What a task gets as its rows."""
        if not isinstance(self._people, SentRows):
            return self._people
        if self._sent is None:
            # hash=False: a digest of a gigabyte would only tell whether somebody has sent the same.
            self._sent = self._client.scatter(self._people, hash=False, timeout=within_s)
        return self._sent

    def forget(self) -> None:
        """They are gone, or not needed any more."""
        self._sent = None


class Run:
    """The groups of one sweep."""

    def __init__(
        self,
        client: Client,
        rows: Rows,
        groups: Sequence[slice],
        make: Callable[[slice], Group],
        *,
        topic: str,
        patience_s: float,
        notice: Notice,
        progress: Progress | None,
    ) -> None:
        """Get ready.

        Args:
            groups: the models of each, in order.
            make: gives a group what travels; called when it is sent.
            topic: a name that no other sweep has.
        """
        self._client, self._rows, self._make = client, rows, make
        self._groups = {models.start: models for models in groups}
        self._left = list(self._groups)
        self._topic, self._patience_s, self._notice, self._progress = topic, patience_s, notice, progress
        #: First model, then a number of rounds, or the future that is done.
        self._heard: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        self._out: dict[int, tuple[Group, Future]] = {}
        self._found: dict[int, list[Swept]] = {}
        #: Rounds of each group that progress was told of.
        self._told: dict[int, int] = {}
        self._sent, self._losses = 0, 0

    def results(self) -> Iterator[Swept]:
        """Every model, in order, as soon as it is there."""
        self._client.subscribe_topic(self._topic, lambda event: self._heard.put(tuple(event[1])))
        try:
            for first in self._groups:
                while first not in self._found:
                    self._send_out()
                    while not self._listen():
                        pass
                yield from self._found.pop(first)
        finally:
            self._stop()

    def _send_out(self) -> None:
        """Fill up what is out."""
        while self._left and len(self._out) + len(self._found) < _OUT_PER_SLOT * self._slots() + _MORE_OUT:
            try:
                rows = self._rows.place(within_s=self._patience_s)
            except OSError:  # whoever should have taken them has gone
                continue
            group = self._make(self._groups[self._left[0]])
            # A new key each time: a result is never one that somebody gave up.
            key = f"{self._topic}-{group.first}-{self._sent}"
            future = self._client.submit(train_group, group, rows, key=key, pure=False)
            future.add_done_callback(lambda done, first=group.first: self._heard.put((first, done)))
            self._out[group.first] = group, future
            self._left.pop(0)
            self._sent += 1

    def _listen(self) -> bool:
        """Take in one message. True: there may be more to send out."""
        try:
            first, said = self._heard.get(timeout=min(_TICK_S, self._patience_s))
        except Empty:
            self._slots()
            return True
        group, future = self._out.get(first, (None, None))
        if group is None:
            return False
        if isinstance(said, int):
            self._tell(group, said)
            return False
        if said is not future:  # of a time before rows were lost
            return False
        self._fetch(group, said)
        return True

    def _fetch(self, group: Group, done: Future) -> None:
        """Take in a group that is done, one way or another."""
        try:
            found = done.result(timeout=self._patience_s)
        except CancelledError:
            found = None
        except KilledWorker as error:
            raise _killing(error.allowed_failures + 1) from None
        except MemoryError:
            raise ClusterError("a worker has too little memory for a group of models", next_step=_MORE_MEMORY) from None
        except TimeoutError:  # its worker has gone since, and another one works on it again
            self._slots()
            self._heard.put((group.first, done))
            return
        if found is None:
            self._begin_again()
            return
        del self._out[group.first]
        self._losses = 0
        self._found[group.first] = [settled(one) for one in found]
        self._tell(group, group.rounds)

    def _begin_again(self) -> None:
        """A group was given up, and not by us: sent rows are gone, or the scheduler is."""
        if self._client.status != "running":
            raise connecting.lost(self._client)
        self._losses += 1
        if self._losses > _LOSSES:
            raise _killing(self._losses)
        self._notice("all workers that had the people are gone; sending them again")
        self._client.cancel([future for _, future in self._out.values()], force=True)
        self._left = sorted([*self._out, *self._left])
        self._out.clear()
        self._rows.forget()

    def _slots(self) -> int:
        """How many groups can be worked on at once; waits for the first worker."""
        slots = connecting.count_slots(self._client, within_s=self._patience_s)
        if slots == 0:
            address = self._client.scheduler.address
            self._notice(f"there is no worker at {address}; waiting for one")
            try:
                self._client.wait_for_workers(1, timeout=self._patience_s)
            except TimeoutError:
                raise ClusterError(
                    f"there was no worker at {address} for {self._patience_s:g} seconds",
                    next_step=f"Start some with `dask worker {address}`, and run this again. Earlier results are good.",
                ) from None
            slots = connecting.count_slots(self._client, within_s=self._patience_s)
        return slots

    def _tell(self, group: Group, rounds: int) -> None:
        """Every round of every group once, though groups take turns, and some begin again."""
        told = self._told.get(group.first, 0)
        if self._progress is not None:
            for t in range(told + 1, rounds + 1):
                self._progress(group.first, len(group.experiments), t)
        self._told[group.first] = max(told, rounds)

    def _stop(self) -> None:
        """Leave nothing behind."""
        if self._client.status == "running":
            self._client.unsubscribe_topic(self._topic)
            self._client.cancel([future for _, future in self._out.values()], force=True)
        self._out.clear()


def _killing(times: int) -> ClusterError:
    return ClusterError(f"workers died {times} times with the same group of models", next_step=_MORE_MEMORY)
