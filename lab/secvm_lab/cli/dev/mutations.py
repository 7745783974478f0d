"""``secvm dev mutations``: what keeps packages from being lost or counted twice, taken out of the real source.

A mutation is a few replacements of text. In a tree so changed, the tests that it names must fail: that shows that they
look at what they are there for. What is taken out, and what it would do to people:

    fencing            a driver that was stopped and wakes up later changes what another one drives by now
    dedup              a package that was sent again counts twice
    commit before ack  a package is acknowledged, and lost with the process
    count before send  a device tells more than its ledger knows, after a crash in the wrong moment

and of relays' cover (docs/protocol.md §25 to §31), what each would tell somebody of a person:

    draw again after restart                    the average of two draws over one batch has less noise
    same noise for another batch                the difference of two batches has none
    cover sealed for another key                cover that does not open is told apart, and hides nobody
    pk_X without X's signature                  whoever put the key there opens the outer layer
    reveal that does not name X's count         a mixing relay that signs counts until the opened part suits it
    seeded dice because the document is marked  whoever marks an experiment as a test subtracts all cover
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from secvm.cli.output import Format, FormatOption, emit, note
from secvm.errors import BadInputError
from secvm_lab.cli.dev.checkout import find_or_refuse
from secvm_lab.cli.time_left import used

_LISTS = "tests/system/simulation/test_op_lists.py"
_ENTRY, _MIX = "tests/unit/relay/test_entry_rounds.py", "tests/unit/relay/test_mix_rounds.py"
_EXPERIMENTS = "tests/unit/relay/test_experiments.py"
_SUBMISSION = "tests/unit/protocol/relays/test_relay_submission.py"


class Edit:
    """One replacement: a text that stands in a file exactly once, and who must notice."""

    def __init__(self, file: str, find: str, put: str, *tests: str) -> None:
        """``tests``: as pytest names them; each of them fails."""
        self.file, self.find, self.put, self.tests = file, find, put, tests

    def apply(self, root: Path) -> None:
        """Change the file. Raises ``BadInputError`` where the text is not there, or more than once."""
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.find) != 1:
            raise BadInputError(f"{self.file} has changed: a mutation finds its place {text.count(self.find)} times")
        path.write_text(text.replace(self.find, self.put), encoding="utf-8")


#: What is taken out.
MUTATIONS: Mapping[str, Sequence[Edit]] = {
    "fencing": [
        Edit(
            "src/secvm/coordinator/store/sqlite.py",
            "if self._term is not None and self._term not in self._holders:",
            "if self._term is not None and self._term < 0:",
            f"{_LISTS}::test_a_driver_that_lost_its_lead_changes_nothing",
        ),
    ],
    "fencing in the database": [
        Edit(
            "src/secvm/coordinator/store/sql/driver.sql",
            "SELECT true FROM driver WHERE term = %(term)s AND NOT resigned FOR SHARE;",
            "SELECT true FROM driver WHERE term >= %(term)s;",
            "tests/contract/stores/test_nodes_on_a_store.py::test_stale_driver_can_do_nothing",
        ),
    ],
    "dedup": [
        Edit(
            "src/secvm/coordinator/counting/epoch_count.py",
            "        chosen.tally(words, seen.first(words), plan)\n",
            "        chosen.tally(words, seen.first(words) | True, plan)\n",
            f"{_LISTS}::test_what_is_sent_again_counts_once",
        ),
    ],
    "commit before ack": [
        Edit(
            "src/secvm/coordinator/intake/ingest.py",
            "        return self._commits.add(item)\n",
            "        self._commits.add(item)\n"
            "        early: asyncio.Future[HttpResponse] = asyncio.get_running_loop().create_future()\n"
            "        early.set_result(item.reply(None))\n"
            "        return early\n",
            f"{_LISTS}::test_what_a_coordinator_acknowledged_survives_its_end",
        ),
        Edit(
            "src/secvm/relay/store.py",
            "        self._under_way[table.epoch, digest] = future\n        return asyncio.shield(future)\n",
            "        self._under_way[table.epoch, digest] = future\n        return accepted()\n",
            f"{_LISTS}::test_what_a_relay_acknowledged_survives_its_end",
        ),
    ],
    "count before send": [
        Edit(
            "src/secvm/participant/membership.py",
            "        # From here on it counts: nothing of the round exists before.\n"
            "        enter(around.state, document, round_number, around.consent)\n",
            "",
        ),
        Edit(
            "src/secvm/participant/plain/membership.py",
            "            self.tell(events.SendSucceeded(due.package_id), now())\n",
            "            self.tell(events.SendSucceeded(due.package_id), now())\n"
            "            from secvm.participant.consent.ledger import enter\n"
            "            state, number = self._around.state, self.round_number\n"
            "            enter(state, self.document, number, self._around.consent)\n",
            f"{_LISTS}::test_a_round_is_in_the_ledger_before_its_first_package_leaves",
        ),
    ],
    # The same for what a relay's cover rests on.
    "draw again after restart": [
        Edit(
            "src/secvm/relay/batches/round_custody.py",
            "        return self.secrets.find(plan.experiment, plan.round_number)\n",
            "        return self.secrets.make(plan.experiment, plan.round_number, os.urandom)\n",
            f"{_ENTRY}::test_a_machine_that_restarted_has_no_secret_and_never_draws_again",
            f"{_MIX}::test_a_machine_that_restarted_never_draws_again",
        ),
    ],
    "same noise for another batch": [
        Edit(
            "src/secvm/relay/batches/round_custody.py",
            "self.ledger.mark(plan.label, BATCH, root) and self.secrets.mark(plan.label, BATCH, root)",
            "self.ledger.mark(plan.label, BATCH, root)",
            f"{_ENTRY}::test_a_disk_restored_alone_draws_over_no_other_batch",
        ),
        Edit(
            "src/secvm/relay/batches/rounds.py",
            "        other = root is not None and remembered not in (None, root)\n",
            "        other = remembered is not None and root is None and False\n",
            f"{_MIX}::test_a_disk_restored_alone_draws_over_no_other_batch",
        ),
    ],
    "cover sealed for another key": [
        Edit(
            "src/secvm/relay/role.py",
            'mix_key = plan.mix_commitment.public_key if role == "entry" else None',
            'mix_key = count_key if role == "entry" else None',
            f"{_EXPERIMENTS}::test_cover_is_sealed_for_the_keys_of_the_rounds_own_manifest",
        ),
    ],
    "pk_X without X's signature": [
        Edit(
            "src/secvm/protocol/relays/manifest.py",
            "        commitment = kind.read(envelope, relay.key)\n",
            "        commitment = kind.enclosed(envelope) if relay.key else None\n",
            f"{_EXPERIMENTS}::test_manifests_that_bind_a_relay_to_what_it_never_said_are_refused",
        ),
    ],
    "reveal that does not name X's count": [
        Edit(
            "src/secvm/relay/mix.py",
            "            mix_count=MixCount.enclosed(own).digest,\n",
            "            mix_count=reveal.answered,\n",
            f"{_MIX}::test_the_first_valid_reveal_that_names_our_count_is_answered",
        ),
    ],
    "look for an own capsule that is no canary": [
        Edit(
            "src/secvm/protocol/relays/submission.py",
            "        return self.places[-1]\n",
            "        return self.places[0]\n",
            f"{_SUBMISSION}::test_canary_is_a_null_under_the_root_of_its_request",
        ),
    ],
    "seeded dice because the document is marked": [
        Edit(
            "src/secvm/relay/batches/experiments.py",
            "        seed = self._own.seed\n",
            "        marked = any(one.test for one, _ in self._served.values())\n"
            '        seed = self._own.seed or ("0" if marked else None)\n',
            f"{_EXPERIMENTS}::test_a_relay_throws_seeded_dice_only_where_it_was_started_with_a_seed",
        ),
    ],
}

#: pytest's word for "some tests failed"; anything else is another fault.
_FAILED = 1


def mutations(
    *,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help="Only this one; may be given again.")
    ] = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Take safeguards out, and see that tests fail.

    The tree is copied. There, one after the other, the fencing of drivers, the count's "each capsule once", the commit
    before each acknowledgement and the ledger's entry before each sending are taken out of the source, and the tests
    named for each are run, before and after. Ends with 1 if one of them does not notice. Example:

    \b
        ./secvm dev mutations --format json
        ./secvm dev mutations --only fencing --only "commit before ack"
    """
    only = only or []
    unknown = sorted(set(only) - set(MUTATIONS))
    if unknown:
        raise BadInputError(f"there is no mutation '{unknown[0]}'", next_step=f"Known: {', '.join(MUTATIONS)}.")
    begun = time.monotonic()
    chosen = {name: edits for name, edits in MUTATIONS.items() if not only or name in only}
    told: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory(prefix="secvm-mutations-") as folder:
        root = copied(find_or_refuse(), Path(folder))
        passes = not _fails(root, [test for edits in chosen.values() for test in noticing(edits)])
        note(f"unchanged: {'all of them pass' if passes else 'SOME FAIL ALREADY'}")
        for name, edits in chosen.items():
            by = _killed_by(root, edits)
            told[name] = {"killed": passes and len(by) == len(noticing(edits)), "by": by}
            note(f"without {name}: {', '.join(by) or 'NOBODY NOTICES'}")
    right = all(one["killed"] for one in told.values())
    result = {
        "mutations": told,
        "unchanged_passes": passes,
        "all_killed": right,
        **used(begun, resource.RUSAGE_CHILDREN),
    }
    emit(result, output_format)
    if not right:
        raise typer.Exit(1)


def copied(root: Path, folder: Path) -> Path:
    """The source and its tests, in another folder."""
    unwanted = shutil.ignore_patterns("__pycache__", ".hypothesis", ".pytest_cache")
    for name in ("src", "lab", "tests"):
        shutil.copytree(root / name, folder / name, ignore=unwanted)
    shutil.copy(root / "pyproject.toml", folder)
    return folder


def noticing(edits: Sequence[Edit]) -> list[str]:
    """The tests that must fail after these edits."""
    return [test for edit in edits for test in edit.tests]


def _killed_by(root: Path, edits: Sequence[Edit]) -> list[str]:
    """The tests that fail without it; afterwards the tree is as it was."""
    before = {edit.file: (root / edit.file).read_bytes() for edit in edits}
    try:
        for edit in edits:
            edit.apply(root)
        return [test for test in noticing(edits) if _fails(root, [test])]
    finally:
        for file, data in before.items():
            (root / file).write_bytes(data)


def _fails(root: Path, tests: Sequence[str]) -> bool:
    """Whether one of these fails."""
    arguments = ["-P", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(  # noqa: S603  (our own tests)
        [sys.executable, *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root / "lab")])},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, _FAILED):
        raise BadInputError(f"{tests[0]} could not be run", next_step=done.stdout[-2000:] + done.stderr[-2000:])
    return done.returncode == _FAILED
