"""Thousands of lists of operations over a whole federation: whatever happens, nothing is lost or counted twice.

``secvm_lab.simulation`` says what is real in it, what may happen and what must hold. Here hypothesis draws the
lists, with four emphases; a failure is shrunk, and the last thing that is printed is a test to paste here. What was
found that way stays, as ``test_repro_…``.
"""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm_lab.simulation import KINDS, WEIGHTS, Op, Simulation, SimulationError, table
from secvm_lab.simulation.machines.network import FATES
from tests.effort import DEEP, scaled

#: So many lists for each emphasis; together 250 in the default tier, and five thousand in the deep one.
LISTS = scaled(63, 1250)
#: What is drawn more often than usual.
EMPHASES: dict[str, Mapping[str, int]] = {
    "all of it": WEIGHTS,
    "processes": {**WEIGHTS, "crash": 24, "stall": 6, "upload": 10},
    "network and disks": {**WEIGHTS, "fate": 24, "fsync": 8, "full": 5, "resend": 5, "upload": 10},
    "drivers and clocks": {**WEIGHTS, "fail over": 12, "stall": 6, "jump": 6, "until": 10},
}
#: What must have happened, and not only been asked for, in every thousand lists, some twenty times on average.
ALWAYS = (
    "sent", "due", "refused", "kept", "deposits", "counted", "tallied", "crashes", "faults", "stalled", "terms", "left",
    "taken over", "disk failures", "jumped", "joined", "paused", "resumed", "resent", "replayed", "operator resume",
)  # fmt: skip
#: And what is rarer, where it is drawn more often.
EFFECTS: dict[str, tuple[str, ...]] = {
    "all of it": ("open", "full", "failed", "operator pause", "operator stop", *FATES),
    "processes": (),
    "network and disks": ("open", "full", "failed", *FATES),
    "drivers and clocks": (),
}


@pytest.mark.takes(minutes=2)
@pytest.mark.parametrize("emphasis", EMPHASES)
def test_whatever_happens_each_acknowledged_package_is_counted_once(emphasis: str) -> None:
    done, lists = Counter[str](), 0

    @settings(max_examples=LISTS)
    @given(
        ops=st.lists(st.sampled_from(table(EMPHASES[emphasis])), min_size=2, max_size=16),
        way=st.sampled_from(["direct", "round", "round"]),
        rounds=st.sampled_from([1, 1, 1, 1, 1, 2]),
        seed=st.integers(0, 11),
    )
    def play(ops: list[Op], way: str, rounds: int, seed: int) -> None:
        nonlocal lists, done
        done += Simulation(way=way, rounds=rounds, seed=seed).play(ops)
        lists += 1

    play()
    assert lists >= LISTS
    # Each kind was asked for, and each had its effect, where there are lists enough for the rarest.
    if DEEP:
        assert {f"op {name}" for name in KINDS} <= done.keys()
        assert [name for name in (*ALWAYS, *EFFECTS[emphasis]) if not done[name]] == []


def test_there_are_enough_lists_and_each_emphasis_has_every_kind() -> None:
    assert LISTS * len(EMPHASES) >= scaled(250, 5000)
    assert all(set(weights) == set(KINDS) for weights in EMPHASES.values())


def test_undisturbed_everything_is_counted() -> None:
    for way in ("direct", "round"):
        done = Simulation(way=way, rounds=2, seed=1).play([])
        assert (done["tallied"], done["counted"], done["sent"]) == (2, 15, 15), way


def test_the_same_list_comes_to_the_same_end() -> None:
    ops: list[Op] = [("until", "open"), ("crash", "node 0", 13, 8), ("fate", "package", "late"), ("upload", 6)]
    assert Simulation(rounds=2, seed=3).play(ops) == Simulation(rounds=2, seed=3).play(ops)


def test_a_failure_prints_a_test_to_paste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secvm_lab.simulation.simulation.check_end", lambda _world: ["what must not be: 3 of 4"])
    with pytest.raises(SimulationError) as caught:
        Simulation(way="direct", seed=5).play([("wait", 1), ("crash", "node 1", 2, 8)])
    _, _, code = str(caught.value).partition("\n\n")
    assert "def test_repro_what_must_not_be_of() -> None:" in code
    # It is whole, and finds the same.
    space: dict[str, object] = {}
    exec(compile(code, "repro", "exec"), space)
    (repro,) = (value for name, value in space.items() if name.startswith("test_repro_"))
    assert callable(repro)
    with pytest.raises(SimulationError, match="what must not be"):
        repro()


# Seeds of these and of what was found are fixed: a list and a seed are one case, and its effects are counted.

# ── one thing each: what secvm_lab.cli.dev.mutations takes out is missed here ────────────────────────────────────────


def test_a_driver_that_lost_its_lead_changes_nothing() -> None:
    for points in range(1, 9):
        done = Simulation(way="direct", seed=1).play([("fail over", points), ("until", "over"), ("wait", 120)])
        assert done["taken over"] == 1
    # Also not one that was stopped for so long that another one drives.
    done = Simulation(way="round", seed=1).play(
        [
            ("until", "before end"),
            *[("stall", node, 90) for node in ("node 0", "node 1")],
            ("fail over", 0),
            ("wait", 120),
        ]
    )
    assert (done["taken over"], done["stalled"]) == (1, 2)


def test_what_is_sent_again_counts_once() -> None:
    for way in ("direct", "round"):
        again: list[Op] = [("resend", which) for which in (0, 1, 2)]
        done = Simulation(way=way, seed=4).play([("upload", 3), *again, ("fate", "package", "double"), ("upload", 6)])
        assert done["resent"] == 3
        assert done["counted"] == done["sent"] == 9


def test_what_a_coordinator_acknowledged_survives_its_end() -> None:
    ends = 0
    for node in ("node 0", "node 1"):
        for points in range(1, 11):
            done = Simulation(way="direct", seed=1).play([("upload", 2), ("crash", node, points, 8), ("upload", 6)])
            ends += done["crashes"]
    assert ends == 20


def test_what_a_relay_acknowledged_survives_its_end() -> None:
    ends = 0
    for points in range(1, 16):
        done = Simulation(way="round", seed=6).play([("upload", 2), ("crash", "relay", points, 1), ("until", "closed")])
        ends += done["crashes"]
    assert ends == 15


def test_a_round_is_in_the_ledger_before_its_first_package_leaves() -> None:
    done = Simulation(way="direct", seed=4).play([("upload", 1), ("crash", "device 1", 0, 1), ("upload", 6)])
    assert done["sent"] >= 9


# ── what was found ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_repro_a_driver_that_lost_its_lead_did_not_end() -> None:
    # A cancellation that came while others were being ended was swallowed: the node drove its old term for ever, and
    # never showed the ending that the next driver signed (coordinator.log.cosigning.first_of, Driver.run).
    Simulation(way="round", rounds=1, seed=2).play([("upload", 6), ("fail over", 8), ("wait", 120)])
    Simulation(way="direct", rounds=2, seed=5).play(
        [("upload", 1), ("fail over", 8), ("until", "closed"), ("until", "before closing")]
    )


def test_repro_a_device_never_heard_that_an_experiment_was_over_before_its_first_round() -> None:
    Simulation(way="round", rounds=2, seed=6).play([("operate", "node 0", "stop")])


def test_repro_a_device_that_was_paused_while_it_asked_never_heard_that_it_was_over() -> None:
    Simulation(way="round", rounds=1, seed=2111415982).play(
        [("jump", "device 2", 5), ("operate", "node 1", "stop"), ("pause", "device 2"), ("upload", 3)]
    )


def test_repro_a_node_that_stood_still_looks_at_its_clock_when_it_goes_on() -> None:
    # Of the simulation itself: it took the time at which a batch had come for that at which it was looked at.
    Simulation(way="round", rounds=1, seed=3).play(
        [("until", "before opening"), ("stall", "node 0", 90), ("jump", "node 0", 70), ("until", "before end")]
    )
