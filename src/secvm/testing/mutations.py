"""Mutations: things that keep packages from being lost or counted twice, each taken out of the real source.

A mutation is a few replacements of text. In a tree so changed, the tests that it names must fail: that shows that they
look at what they are there for. What is taken out, and what it would do to people:

    fencing            a driver that was stopped and wakes up later changes what another one drives by now
    dedup              a package that was sent again counts twice
    commit before ack  a package is acknowledged, and lost with the process
    count before send  a device tells more than its ledger knows, after a crash in the wrong moment
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from secvm.errors import BadInputError

_LISTS = "tests/simulation/test_op_lists.py"


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement: a text that stands in a file exactly once."""

    file: str
    find: str
    put: str

    def apply(self, root: Path) -> None:
        """Change the file. Raises ``BadInputError`` where the text is not there, or more than once."""
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.find) != 1:
            raise BadInputError(f"{self.file} has changed: a mutation finds its place {text.count(self.find)} times")
        path.write_text(text.replace(self.find, self.put), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Mutation:
    """What is taken out, and who must notice."""

    edits: tuple[Edit, ...]
    #: As pytest names them; each of them fails.
    tests: tuple[str, ...]


MUTATIONS: Mapping[str, Mutation] = {
    "fencing": Mutation(
        (
            Edit(
                "src/secvm/coordinator/store/memory.py",
                "if self._term is not None and (self._term != self._lead.term or self._lead.holder is None):",
                "if self._lead.term < 0:",
            ),
        ),
        (f"{_LISTS}::test_a_driver_that_lost_its_lead_changes_nothing",),
    ),
    "fencing in the database": Mutation(
        (
            Edit(
                "src/secvm/coordinator/store/sql/driver.sql",
                "SELECT true FROM driver WHERE term = %(term)s AND NOT resigned FOR SHARE;",
                "SELECT true FROM driver WHERE term >= %(term)s;",
            ),
        ),
        ("tests/stores/test_nodes_on_a_store.py::test_stale_driver_can_do_nothing",),
    ),
    "dedup": Mutation(
        (
            Edit(
                "src/secvm/coordinator/counting.py",
                "        first = seen.first(words)\n",
                "        first = seen.first(words) | True\n",
            ),
        ),
        (f"{_LISTS}::test_what_is_sent_again_counts_once",),
    ),
    "commit before ack": Mutation(
        (
            Edit(
                "src/secvm/coordinator/ingest.py",
                "        return self._commits.add(item)\n",
                "        self._commits.add(item)\n"
                "        early: asyncio.Future[Response] = asyncio.get_running_loop().create_future()\n"
                "        early.set_result(item.reply(None))\n"
                "        return early\n",
            ),
            Edit(
                "src/secvm/relay/modes.py",
                "        self._under_way[table.epoch, digest] = future\n        return asyncio.shield(future)\n",
                "        self._under_way[table.epoch, digest] = future\n        return accepted()\n",
            ),
        ),
        (
            f"{_LISTS}::test_what_a_coordinator_acknowledged_survives_its_end",
            f"{_LISTS}::test_what_a_relay_acknowledged_survives_its_end",
        ),
    ),
    "count before send": Mutation(
        (
            Edit(
                "src/secvm/participant/membership.py",
                "            # From here on it counts: nothing of the round exists before.\n"
                "            enter(around.state, document, manifest.round_number, around.consent)\n",
                "",
            ),
            Edit(
                "src/secvm/participant/membership.py",
                "            self.tell(SendSucceeded(due.package_id), now)\n",
                "            self.tell(SendSucceeded(due.package_id), now)\n"
                "            enter(self._around.state, self.document, self._round, self._around.consent)\n",
            ),
        ),
        (f"{_LISTS}::test_a_round_is_in_the_ledger_before_its_first_package_leaves",),
    ),
}


__all__ = ["MUTATIONS", "Edit", "Mutation"]
