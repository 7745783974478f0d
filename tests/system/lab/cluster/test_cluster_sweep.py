"""The sweep of many machines against the sweep of one: the same bytes, whoever dies meanwhile."""

from __future__ import annotations

import itertools
import os
import pickle
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from secvm.errors import BadInputError, ClusterError
from secvm.learning._kernels.layout import prepare
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.experiment import Experiment
from secvm.learning.thinning import Thinning
from secvm_lab.cluster.connection import is_exposed
from secvm_lab.cluster.group import Bits, Group, KeptRows, SentRows, cut, difference, this_program, train_group
from secvm_lab.cluster.sweep import ClusterSweep
from secvm_lab.engine import Swept, collapse, sweep
from tests.unit.lab.cluster import on_workers
from tests.unit.lab.cluster.on_workers import SmallRecipe, some_rows

#: Far more than anything here takes; what does not come by then never comes.
BOUND_S = 60
MODELS, ROUNDS = 37, 12


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file for each process of the cluster: the addresses that its sockets had."""
    return tmp_path_factory.mktemp("sockets")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, watched: Path) -> Iterator[LocalCluster]:
    watching = on_workers.WATCH_SOCKETS.format(folder=str(watched))
    exec(watching, {})  # of this process too, where the scheduler is; there is no way to take it off again
    with (
        dask.config.set(
            {
                "distributed.worker.preload": [watching],
                # On a busy machine a killed worker takes longer to come back than it is waited for by default.
                "distributed.deploy.lost-worker-timeout": "1 hour",
            }
        ),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            host="127.0.0.1",
            scheduler_port=0,
            dashboard_address="127.0.0.1:0",  # it has to be somewhere; any free port will do
            local_directory=str(tmp_path_factory.mktemp("workers")),
            memory_limit=0,
        ) as cluster,
    ):
        yield cluster


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    """A client of the cluster, with both workers there: a test before may have ended one."""
    with Client(cluster.scheduler_address, set_as_default=False, timeout=BOUND_S) as client:
        client.wait_for_workers(2, timeout=BOUND_S)
        yield client


def ask(n_bins: int, lambda_: str = "1e-3") -> Experiment:
    return Experiment(n_bins=n_bins, labels=("n", "p"), rule=Pegasos(lambda_=Fraction(lambda_), averaging=2))


ROWS, LABELS = some_rows(3, n=400, words=20, bins=90)
EXPERIMENTS = [ask(90, lambda_) for lambda_ in ("1e-4", "1e-2", "1/10", "1", "1e-3")] * 8
_DRAWN = np.random.default_rng(4).random((400, MODELS))
HOW: dict[str, Any] = {
    "experiments": EXPERIMENTS[:MODELS],
    "train": _DRAWN < 0.8,
    "test": _DRAWN > 0.9,
    "rounds": ROUNDS,
    "evaluate": [3, ROUNDS],
}


@pytest.fixture(scope="module")
def alone() -> list[Swept]:
    return list(sweep(ROWS, LABELS, **HOW))


def assert_same(one: list[Swept], other: list[Swept]) -> None:
    assert [a.model for a in one] == [b.model for b in other]
    for a, b in zip(one, other, strict=True):
        assert a.state.to_bytes() == b.state.to_bytes()
        assert a.cells.dtype == b.cells.dtype
        assert np.array_equal(a.cells, b.cells)
        assert (a.evaluated, a.two_cycle_spells) == (b.evaluated, b.two_cycle_spells)


def test_cluster_gives_the_bytes_of_one_machine_in_the_same_order(client: Client, alone: list[Swept]) -> None:
    told: list[tuple[int, int, int]] = []
    found = list(ClusterSweep(client)(ROWS, LABELS, **HOW, threads=2, progress=lambda *what: told.append(what)))
    assert_same(found, alone)
    # Every round of every group once, as on one machine; there, one group after the other.
    assert sorted(told) == [(first, min(16, MODELS - first), t) for first in (0, 16, 32) for t in range(1, ROUNDS + 1)]


def test_rows_laid_out_already_are_sent_once_for_all_sweeps(client: Client, alone: list[Swept]) -> None:
    rows = prepare(ROWS)
    cluster_sweep = ClusterSweep(client)
    assert_same(list(cluster_sweep(rows, LABELS, **HOW)), alone)
    (sent,) = [key for key in client.who_has() if key.startswith("SentRows")]
    assert_same(list(cluster_sweep(rows, LABELS, **HOW)), alone)
    assert [key for key in client.who_has() if key.startswith("SentRows")] == [sent]


def test_models_that_share_lanes_and_rows_that_are_collapsed_are_as_on_one_machine(client: Client) -> None:
    collapsed = collapse(ROWS)
    train = np.repeat(_DRAWN[:, :3] < 0.8, 12, axis=1)
    experiments = [ask(90, lambda_) for lambda_ in ("1e-7", "1e-6", "1e-3", "1/10")] * 9
    how: dict[str, Any] = {"train": train, "rounds": ROUNDS, "states": True}
    expected = list(sweep(ROWS, LABELS, experiments, **how))
    found = list(ClusterSweep(client)(collapsed, LABELS, experiments, **how))
    assert_same(found, expected)
    assert [one.shared_rounds for one in found] == [one.shared_rounds for one in expected]
    (without, *_) = ClusterSweep(client)(collapsed, LABELS, experiments, **{**how, "states": False})
    assert without.state.vectors == {}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=40), st.integers(1, 4))
def test_groups_follow_each_other_and_have_no_more_ways_than_lanes(models: list[tuple[int, int]], lanes: int) -> None:
    everybody = np.arange(20)
    train = np.array([everybody % 4 != split for split, _ in models]).reshape(-1, 20).T
    experiments = [ask(90, ("1e-4", "1e-2", "1")[which]) for _, which in models]
    groups = cut(experiments, train, None, lanes=lanes)
    assert [model for group in groups for model in range(group.start, group.stop)] == list(range(len(models)))
    ways = [{split for split, _ in models[group]} for group in groups]
    assert all(1 <= len(some) <= lanes for some in ways)
    # None could have been longer.
    for some, after in itertools.pairwise(groups):
        assert len({split for split, _ in models[some.start : after.start + 1]}) == lanes + 1


def test_recipe_is_made_once_by_each_worker_and_kept_for_the_next_sweep(client: Client, tmp_path: Path) -> None:
    recipe = SmallRecipe(5, str(tmp_path))
    rows, labels = some_rows(5, n=200, words=15, bins=60)
    experiments = [ask(60)] * 40
    train = np.random.default_rng(6).random((200, 40)) < 0.9
    expected = list(sweep(rows, labels, experiments, train=train, rounds=8))
    cluster_sweep = ClusterSweep(client)
    for _ in range(2):
        assert_same(list(cluster_sweep(recipe, labels, experiments, train=train, rounds=8)), expected)
    made = [int(file.name.partition("-")[0]) for file in tmp_path.iterdir()]
    assert len(made) == len(set(made))
    assert set(made) <= set(client.run(os.getpid).values())


def test_who_stops_early_leaves_no_work_behind(client: Client, tmp_path: Path) -> None:
    def interrupt(*_: int) -> None:
        raise KeyboardInterrupt

    recipe = SmallRecipe(8, str(tmp_path))
    labels = some_rows(8, 200, 15, 60)[1]
    endless = ClusterSweep(client)(recipe, labels, [ask(60)] * 40, rounds=10**7, evaluate=[], progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        next(endless)
    # Each has one thread: it only comes to this when the group is given up.
    for address in client.scheduler_info()["workers"]:
        free = client.submit(os.getpid, workers=[address], pure=False)
        assert free.result(timeout=BOUND_S) > 0


def test_refusals_of_the_engine_come_back_as_they_are(client: Client) -> None:
    swift = Experiment(n_bins=90, labels=("n", "p"), rule=Swift(), thinning=Thinning(rho=Fraction(3)))
    with pytest.raises(BadInputError) as here:
        list(sweep(ROWS, LABELS, [swift], rounds=2))
    with pytest.raises(BadInputError) as there:
        list(ClusterSweep(client)(ROWS, LABELS, [swift], rounds=2))
    assert str(there.value) == str(here.value)


def test_worker_of_another_version_is_refused_by_name(client: Client) -> None:
    address = next(iter(client.scheduler_info()["workers"]))
    client.run(on_workers.pretend, "1.0", workers=[address])
    try:
        with pytest.raises(ClusterError, match=rf"worker {address} runs numpy 1\.0, and this machine \d"):
            list(ClusterSweep(client)(ROWS, LABELS, **HOW))
    finally:
        client.run(on_workers.pretend, None, workers=[address])


def test_worker_that_came_late_with_another_version_is_refused_too(client: Client) -> None:
    labels = Bits.of((LABELS == 1)[:, None])
    other = {**this_program(), "Python": "2.7"}
    group = Group(0, [ask(90)], labels, None, None, 1, None, 1, None, "nobody listens", other)
    with pytest.raises(ClusterError, match=r"worker tcp://127\.0\.0\.1:\d+ runs Python 3\.\d+, and this machine 2\.7"):
        client.submit(train_group, group, SentRows(prepare(ROWS)), pure=False).result(timeout=BOUND_S)


def test_nothing_leaves_this_machine(client: Client, watched: Path) -> None:
    list(ClusterSweep(client)(ROWS, LABELS, **HOW))
    told = {int(file.name): set(file.read_text(encoding="utf-8").split()) for file in watched.iterdir()}
    assert {os.getpid(), *client.run(os.getpid).values()} <= set(told)
    assert set.union(*told.values()) <= {"127.0.0.1", "local"}


def test_without_workers_it_says_so_and_gives_up(tmp_path: Path) -> None:
    notices: list[str] = []
    with (
        LocalCluster(
            n_workers=0, host="127.0.0.1", scheduler_port=0, dashboard_address="127.0.0.1:0", processes=True
        ) as nobody,
        ClusterSweep(nobody.scheduler_address, patience_s=0.1, notice=notices.append) as cluster_sweep,
        pytest.raises(ClusterError, match=r"there was no worker at tcp://127\.0\.0\.1:\d+ for 0\.1 seconds"),
    ):
        list(cluster_sweep(ROWS, LABELS, **HOW))
    assert [notice.partition(" at ")[0] for notice in notices] == ["there is no worker"]


@pytest.mark.parametrize("listens", [False, True])
def test_scheduler_that_does_not_answer_is_one_sentence(listens: bool) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        if listens:
            silent.listen()
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ClusterError, match=f"no scheduler answers at {address}"):
            ClusterSweep(address, connect_s=0.3)


def test_server_of_another_kind_is_one_sentence() -> None:
    def greet() -> None:
        talking, _ = server.accept()
        with talking:
            talking.sendall(b"220 mail.example ready for more than enough\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as thread:
        thread.submit(greet)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ClusterError, match=f"no scheduler answers at tcp://{address}"):
            ClusterSweep(address, connect_s=BOUND_S)


def test_worker_is_not_taken_for_a_scheduler(client: Client) -> None:
    address = next(iter(client.scheduler_info()["workers"]))
    with pytest.raises(BadInputError, match=f"{address} is no scheduler .*: something else listens there"):
        ClusterSweep(address, connect_s=BOUND_S)


@pytest.mark.parametrize("address", ["nonsense", "", "http://127.0.0.1:80", "tls://127.0.0.1:1"])
def test_address_that_is_none_is_bad_input(address: str) -> None:
    with pytest.raises(BadInputError, match="is no scheduler that can be called"):
        ClusterSweep(address, connect_s=0.3)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"rounds": 0}, "at least one round"),
        ({"evaluate": [ROUNDS + 1]}, "outside the sweep"),
        ({"train": np.ones((400, 2), np.bool_)}, "whether the person trains it"),
        ({"test": np.ones((3, MODELS), np.bool_)}, "whether the person tests it"),
        ({"labels": LABELS + 1}, "two labels"),
    ],
)
def test_nonsense_is_refused_before_anything_is_sent(client: Client, wrong: Any, sentence: str) -> None:
    given = {"labels": LABELS, **HOW, **wrong}
    with pytest.raises(BadInputError, match=sentence) as there:
        next(ClusterSweep(client)(ROWS, **given))
    with pytest.raises(BadInputError) as here:
        next(sweep(ROWS, **given))
    assert str(there.value) == str(here.value)


@pytest.mark.parametrize("lay_out", [prepare, collapse])
def test_repro_arrays_that_dask_packed_at_odd_addresses_were_compiled_for_anew(lay_out: Callable[..., Any]) -> None:
    rows = lay_out(ROWS)
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(SentRows(rows), protocol=5, buffer_callback=buffers.append)
    odd = [memoryview(bytearray(b"." + buffer.raw()))[1:] for buffer in buffers]
    assert not all(np.frombuffer(one, np.int64, len(one) // 8).flags.aligned for one in odd)
    back = pickle.loads(pickled, buffers=odd)
    assert sys.getsizeof(back) >= sum(len(one) for one in odd)
    for before, after in zip(tables(rows), tables(back.rows), strict=True):
        assert np.array_equal(before, after)
        assert after.flags.aligned
        assert after.flags.writeable


def tables(rows: Any) -> list[NDArray[Any]]:
    inner = tables(rows.prepared) if hasattr(rows, "prepared") else []
    return inner + [part for part in vars(rows).values() if isinstance(part, np.ndarray)]


@given(arrays.arrays(np.bool_, arrays.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=40)))
def test_bits_are_the_same_bools_again(table: NDArray[np.bool_]) -> None:
    bits = Bits.of(table)
    assert bits.packed.nbytes == -(-len(table) // 8) * table.shape[1]
    assert np.array_equal(bits.table(), table)


@given(st.lists(st.integers(0, 3), max_size=20))
def test_worker_keeps_the_rows_of_the_last_recipe(asked: list[int]) -> None:
    made: list[int] = []
    rows = prepare(ROWS)

    class Counted(int):
        def prepared(self, *, threads: int) -> Any:
            made.append(int(self))
            return rows

    kept = KeptRows()
    for one in asked:
        assert kept.get(Counted(one), threads=1) is rows
    assert made == [one for i, one in enumerate(asked) if i == 0 or asked[i - 1] != one]


def test_what_travels_does_not_print_people() -> None:
    labels = Bits.of((LABELS == 1)[:, None])
    group = Group(0, [ask(90)], labels, labels, None, 1, None, 1, None, "topic", {})
    told = repr([labels, group, SentRows(prepare(ROWS))])
    assert "array" not in told
    assert "[[" not in told


@pytest.mark.parametrize(
    ("address", "exposed"),
    [
        ("tcp://127.0.0.1:8786", False),
        ("tcp://localhost:8786", False),
        ("tcp://[::1]:8786", False),
        ("tls://10.0.0.5:8786", False),
        ("tcp://10.0.0.5:8786", True),
        ("tcp://machine.example:8786", True),
    ],
)
def test_plain_tcp_beyond_this_machine_is_noticed(address: str, exposed: bool) -> None:
    assert is_exposed(address) == exposed


def test_programs_differ_in_what_decides_results() -> None:
    here = this_program()
    assert difference(here, here) is None
    assert difference({}, here) == f"runs SecVM with the digest (missing), and this machine {here[next(iter(here))]}"
    assert here["Python"] == f"{sys.version_info.major}.{sys.version_info.minor}"
