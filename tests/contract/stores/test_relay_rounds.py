"""Both relays' rounds under whatever befalls their machines: one draw for a label, the same bytes, one reveal each.

Three things can happen to a relay: its process is killed, its disk is put back to an older state, its machine restarts
and loses what was in memory. The first changes nothing. After the other two a round may be lost; never is anything
drawn over a second batch, and never does a relay say two different things.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from secvm.crypto.sealing.layers import INNER_BYTES, open_inner
from secvm.errors import RemoteProtocolError
from secvm.protocol.relays.batches import capsule_digest, split_piece
from secvm.protocol.relays.counts import entry_reveal
from tests.effort import scaled
from tests.unit.relay.relayed import (
    BUDGET,
    COUNT_KEY,
    ENTRY_KEY,
    ENTRY_SECRET,
    LABEL,
    LIMITS,
    MIX_SECRET,
    PACKAGES,
    PARTS,
    TIMES,
    Fate,
    Killed,
    Machine,
    entry_count,
    handed_to,
    mix_count,
    sealed,
    submission,
    until_nothing,
)

Told = list[bytes | None]
Survive = Callable[[Callable[[], object]], object]


def entry_life(machine: Machine, survive: Survive) -> Told:
    """Everything that an entry relay says and hands on in a whole round; each act is done again until it is done."""
    told: Told = []
    for pair in ((0, 1), (2, 3)):
        group = [submission(client) for client in pair]
        survive(lambda group=group: machine.start().take(group, LIMITS, 1500))  # type: ignore[misc]
    survive(lambda: until_nothing(machine.start(), TIMES.accept_until))
    told.append(machine.start().count)
    told.append(machine.start().piece(0))
    survive(lambda: machine.start().handed_on())
    survive(lambda: until_nothing(machine.start(), TIMES.batch_by))
    survive(lambda: machine.start().answer(mix_count(told[0] or b""), 3500))
    survive(lambda: until_nothing(machine.start(), 3500))
    told.append(machine.paper("entry_reveal"))
    return told


def mix_life(machine: Machine, survive: Survive) -> Told:
    """The same of a mixing relay."""
    told: Told = []
    outers = sorted((sealed(number)[1] for number in range(4 * BUDGET + PACKAGES)), key=capsule_digest)
    count = entry_count(outers, clients=4)

    def comes() -> None:
        if 0 not in machine.start().announce(count, TIMES.batch_by):
            machine.start().put(0, b"".join(outers), TIMES.batch_by)
        machine.start().complete(count, TIMES.batch_by)

    survive(comes)
    survive(lambda: until_nothing(machine.start(), TIMES.batch_by))
    told.append(machine.start().count)
    told.append(machine.start().piece(0))
    survive(lambda: machine.start().handed_on())
    survive(lambda: until_nothing(machine.start(), TIMES.mix_by))
    reveal = entry_reveal(ENTRY_SECRET, told[0] or b"", parts=PARTS).signed(ENTRY_KEY)
    survive(lambda: machine.start().answer(reveal, 4500))
    survive(lambda: until_nothing(machine.start(), 4500))
    told.append(machine.paper("mix_reveal"))
    return told


@pytest.mark.parametrize(("role", "life"), [("entry", entry_life), ("mix", mix_life)])
def test_killed_at_any_moment_a_relay_says_and_hands_on_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str, life: Callable[[Machine, Survive], Told]
) -> None:
    fate = Fate()
    fate.patch(monkeypatch)
    whole = Machine(tmp_path / "whole", role)
    expected = life(whole, lambda act: act())
    assert None not in expected
    moments = fate.moment
    fate.end_process()
    assert moments > 40
    # Every moment in the deep tier; here every few, beginning with another one for each role.
    every = scaled(6, 1)
    for dies_at in range(1 + len(role) % every, moments + 1, every):
        machine = Machine(tmp_path / f"{dies_at}", role)
        fate.moment, fate.dies_at = 0, dies_at

        def survive(act: Callable[[], object], machine: Machine = machine) -> None:
            try:
                act()
            except Killed:
                fate.end_process()
                machine.round = machine.keeping = None
                survive(act)

        assert life(machine, survive) == expected, f"killed at moment {dies_at}"
        assert machine.draws.seen == whole.draws.seen, "two draws, or over another batch"
        left = machine.everything()
        assert machine.secret.secret not in left
        assert not any(sealed(number)[1][16:32] in left for number in range(BUDGET))
        fate.end_process()
        shutil.rmtree(machine.folder)


class TwoRelays(RuleBasedStateMachine):
    """Two relays, a coordinator that takes what it is handed, and bad luck."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="secvm-relays-"))
        self.machines = {role: Machine(self.folder / role, role) for role in ("entry", "mix")}
        self.now = 1500
        self.copies: dict[str, Path] = {}
        self.said: dict[str, set[bytes]] = {}
        self.received: set[int] = set()
        self.patched = pytest.MonkeyPatch()
        self.fate = Fate()
        self.fate.patch(self.patched)
        #: Whether a disk was put back or a memory lost: then a round may stay unopened.
        self.luck = True

    def teardown(self) -> None:
        self.fate.end_process()
        self.patched.undo()
        shutil.rmtree(self.folder)

    def do(self, act: Callable[[], object]) -> None:
        """An act of the processes; who dies in it is gone, and who refuses refuses."""
        try:
            act()
        except Killed:
            self.fate.end_process()
            self.fate.dies_at = None
            for machine in self.machines.values():
                machine.round = machine.keeping = None
        except RemoteProtocolError:
            pass

    def start(self, role: str) -> Any:
        return self.machines[role].start()

    @rule(client=st.integers(0, 4))
    def submit(self, client: int) -> None:
        def act() -> None:
            self.start("entry").take([submission(client)], LIMITS, self.now)
            self.received.add(client)

        self.do(act)

    @rule(to=st.sampled_from([TIMES.accept_until, TIMES.batch_by, TIMES.mix_by, 4500]))
    def time_passes(self, to: int) -> None:
        self.now = max(self.now, to)

    @rule(role=st.sampled_from(["entry", "mix"]), steps=st.integers(1, 8))
    def advance(self, role: str, steps: int) -> None:
        for _ in range(steps):
            self.do(lambda: self.start(role).advance(self.now))

    @rule()
    def entry_hands_on(self) -> None:
        def act() -> None:
            entry = self.start("entry")
            if entry.is_waiting(self.now):
                handed_to(self.start("mix"), entry, self.now)
                self.hear("entry batch", entry.piece(0))
                entry.handed_on()

        self.do(act)

    @rule()
    def mix_hands_on(self) -> None:
        def act() -> None:
            mix = self.start("mix")
            if mix.is_waiting(self.now):
                self.hear("mix batch", mix.piece(0))
                mix.handed_on()

        self.do(act)

    @rule()
    def they_answer(self) -> None:
        for reader, writer, name in (("entry", "mix", "mix_count"), ("mix", "entry", "entry_reveal")):

            def act(reader: str = reader, writer: str = writer, name: str = name) -> None:
                self.start(writer)
                paper = self.machines[writer].paper(name)
                if paper is not None:
                    self.start(reader).answer(paper, self.now)

            self.do(act)

    @rule(moments=st.integers(1, 12))
    def one_will_be_killed(self, moments: int) -> None:
        self.fate.dies_at = self.fate.moment + moments

    @rule(role=st.sampled_from(["entry", "mix"]))
    def save_the_disk(self, role: str) -> None:
        self.copies[role] = self.machines[role].save()

    @precondition(lambda self: self.copies)
    @rule(role=st.sampled_from(["entry", "mix"]))
    def restore_the_disk(self, role: str) -> None:
        if role in self.copies:
            self.luck = False
            self.machines[role].restore(self.copies[role])

    @rule(role=st.sampled_from(["entry", "mix"]))
    def lose_the_memory(self, role: str) -> None:
        self.luck = False
        self.machines[role].restart()

    def hear(self, what: str, data: bytes) -> None:
        self.said.setdefault(what, set()).add(data)

    @invariant()
    def one_draw_for_a_label_ever(self) -> None:
        for machine in self.machines.values():
            assert len({root for _, root in machine.draws.seen}) <= 1

    @invariant()
    def nobody_says_two_things(self) -> None:
        for role, names in (("entry", ("entry_count", "entry_reveal")), ("mix", ("mix_count", "mix_reveal"))):
            self.do(lambda role=role: self.start(role))  # type: ignore[misc]
            for name in names:
                self.do(lambda role=role, name=name: self.heard(role, name))  # type: ignore[misc]
        assert all(len(found) == 1 for found in self.said.values()), {k: len(v) for k, v in self.said.items()}

    def heard(self, role: str, name: str) -> None:
        paper = self.machines[role].paper(name)
        if paper is not None:
            self.hear(name, paper)

    @invariant()
    def what_was_acknowledged_is_in_the_batch(self) -> None:
        for batch in self.said.get("mix batch", ()):
            found = split_piece(batch, INNER_BYTES)
            assert all(open_inner(COUNT_KEY, LABEL, capsule) for capsule in found)
            if self.luck:
                wanted = {sealed(100 * client + number)[0] for client in self.received for number in range(BUDGET)}
                assert wanted <= set(found)


TestTwoRelays = TwoRelays.TestCase
TestTwoRelays.settings = settings(max_examples=scaled(12, 400), stateful_step_count=30, deadline=None)


def test_a_whole_life_opens_to_all_packages_and_both_parts(tmp_path: Path) -> None:
    entry, mix = Machine(tmp_path / "entry", "entry"), Machine(tmp_path / "mix", "mix")
    entry.start().take([submission(client) for client in range(3)], LIMITS, 1500)
    until_nothing(entry.start(), TIMES.batch_by)
    handed_to(mix.start(), entry.start())
    until_nothing(mix.start(), TIMES.batch_by)
    batch = split_piece(mix.start().piece(0), INNER_BYTES)
    count = mix.start().count
    assert count is not None
    entry.start().answer(count, TIMES.mix_by)
    until_nothing(entry.start(), TIMES.mix_by)
    reveal = entry.paper("entry_reveal")
    assert reveal is not None
    mix.start().answer(reveal, TIMES.mix_by)
    until_nothing(mix.start(), TIMES.mix_by)
    assert mix.paper("mix_reveal") is not None
    own = {sealed(100 * client + number)[0] for client in range(3) for number in range(BUDGET)}
    roots = {role: {root for _, root in machine.draws.seen} for role, machine in (("e", entry), ("x", mix))}
    assert len(roots["e"]) == len(roots["x"]) == 1
    x_cover = {one for part in range(PARTS) for one in mix.draws(MIX_SECRET.part_seed(part), *roots["x"])}
    assert own | x_cover <= set(batch)
    entry.die()
    mix.die()
