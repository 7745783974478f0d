"""``secvm dev chaos``: real processes over sockets, killed, stopped, cut off and short of disk, and the bytes they must
end in all the same.
"""

from __future__ import annotations

import contextlib
import resource
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secvm.cli.output import Format, FormatOption, emit, note
from secvm_lab.cli.time_left import used

if TYPE_CHECKING:
    from secvm_lab.chaos.run import ChaosPlan, Played


class Store(StrEnum):
    """Where the coordinator keeps its rounds."""

    SQLITE = "sqlite"
    POSTGRES = "postgres"


class Experiment(StrEnum):
    """What the federation plays."""

    PLAIN = "plain"
    COVERED = "covered"


def chaos(
    *,
    experiment: Annotated[
        Experiment, typer.Option("--experiment", help="One without a guarantee, or one whose cover two relays add.")
    ] = Experiment.PLAIN,
    kills: Annotated[
        int, typer.Option("--kills", help="SIGKILLs of nodes, driver, database, entry and mix; others besides.", min=0)
    ] = 200,
    faults: Annotated[
        str, typer.Option("--faults", help="Which faults come: some of kill, stop, loss, network, disk and restart.")
    ] = "kill,stop,loss,network,disk,restart",
    seed: Annotated[int, typer.Option("--seed", help="Of people, learning and faults.", min=0)] = 0,
    participants: Annotated[int, typer.Option("--participants", help="Devices.", min=10, max=500)] = 24,
    rounds: Annotated[int, typer.Option("--rounds", help="Rounds.", min=1, max=100)] = 8,
    nodes: Annotated[int, typer.Option("--nodes", help="Coordinator nodes, with PostgreSQL.", min=1, max=8)] = 3,
    store: Annotated[Store, typer.Option("--store", help="One file, or PostgreSQL and nodes.")] = Store.POSTGRES,
    minutes: Annotated[
        float, typer.Option("--minutes", help="Go on with further seeds; begin no run after so long.", min=0)
    ] = 0.0,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Disturb a federation, and compare with an undisturbed one.

    PostgreSQL, coordinator nodes and the driver they elect, two relays, witnesses and devices run on this machine. They
    are killed with SIGKILL, stopped for longer than a driver's lease, cut off and slowed (network namespaces: needs
    root and iproute2), the doors before them lose and delay messages, and their disks are filled (needs root); of two
    relays that add cover the machine of one is started again, once. At the end no acknowledged package is lost, none
    counts twice, an auditor finds nothing, no device accuses anybody, and the weights are, byte for byte, those of the
    undisturbed run; with cover, whose dice are new in each run, those of the same rounds offline.
    Ends with 1 where that is not so, says how to see it again, and keeps the processes' files.
    JSON keys: runs, seed, experiment, store, nodes, participants, rounds, kills (node, driver, database, relay, entry,
    mix, witness, host), stops, taken_over, cuts, slows, slowed_by, losses, delays, disk_full, disk_full_noticed,
    restarts, unopened, network, disk, scheduled, acknowledged, lost, counted_twice, given_up, identical, audit, forks,
    accused, ended_by_themselves, last_words, answers, seconds, peak_rss_mb.
    Example:

    \b
        ./secvm dev chaos
        ./secvm dev chaos --experiment covered --kills 40 --rounds 3
        ./secvm dev chaos --store sqlite --kills 30 --rounds 3 --minutes 30
    """
    from secvm_lab.chaos.run import ChaosPlan

    begun = time.monotonic()
    told: dict[str, Any] = {}
    right = True
    runs = 0
    with _sigterm_unwinds():
        while right and (runs == 0 or time.monotonic() < begun + 60 * minutes):
            plan = ChaosPlan(
                participants=participants,
                rounds=rounds,
                nodes=nodes if store is Store.POSTGRES else 1,
                store=store.value,
                kills=kills,
                faults=tuple(one.strip() for one in faults.split(",") if one.strip()),
                seed=seed + runs,
                descent=("swift", "pegasos")[(seed + runs) % 2],
                experiment=experiment.value,
            )
            one, right = _run(plan)
            runs += 1
            told = one if not told else _added(told, one)
    told = {"runs": runs, **told}
    told |= used(begun, resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    emit(told, output_format)
    if not right:
        raise typer.Exit(1)


def _run(plan: ChaosPlan) -> tuple[dict[str, Any], bool]:
    """One plan, undisturbed and disturbed: what came of it, and whether all is well."""
    from secvm_lab.chaos.run import play

    begun = time.monotonic()

    def say(sentence: str) -> None:
        note(f"[{time.monotonic() - begun:6.1f} s] {sentence}")

    folder = Path(tempfile.mkdtemp(prefix="secvm-chaos-"))
    kept = False
    try:
        for name in ("undisturbed", "disturbed"):
            (folder / name).mkdir()
        undisturbed = None
        if not plan.covered:
            say(f"seed {plan.seed}: {plan.rounds} rounds undisturbed")
            undisturbed = play(folder / "undisturbed", plan, disturbed=False)
            say(f"undisturbed: {undisturbed.verdict.acknowledged} packages acknowledged, none lost")
        kept = True
        disturbed = play(folder / "disturbed", plan, say=say)
        told = _told(plan, undisturbed, disturbed)
        right = disturbed.right and bool(told["identical"]) and (undisturbed is None or undisturbed.right)
        kept = not right
        if not right:
            note(
                f"again: ./secvm dev chaos --experiment {plan.experiment} --seed {plan.seed} --kills {plan.kills}"
                f" --faults {','.join(plan.faults)}"
                f" --participants {plan.participants} --rounds {plan.rounds} --nodes {plan.nodes} --store {plan.store}"
            )
    except KeyboardInterrupt:
        kept = False
        raise
    else:
        return told, right
    finally:
        if kept:
            note(f"what every process told is kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _told(plan: ChaosPlan, undisturbed: Played | None, disturbed: Played) -> dict[str, Any]:
    verdict, done = disturbed.verdict, disturbed.done
    by_kind = Counter[str]()
    for (kind, _), count in done.items():
        by_kind[kind] += count
    network = "tried" if by_kind["cut"] else f"not tried: {disturbed.no_network or 'not asked for'}"
    disk = "tried" if by_kind["disk"] else f"not tried: {disturbed.no_disk or 'not asked for'}"
    return {
        "seed": plan.seed,
        "experiment": plan.experiment,
        "store": plan.store,
        "nodes": plan.nodes,
        "participants": plan.participants,
        "rounds": plan.rounds,
        "kills": {name: sum(n for (kind, whom), n in done.items() if (kind, whom) == ("kill", name)) for name in _WHOM},
        "stops": by_kind["stop"],
        "taken_over": disturbed.taken_over,
        "cuts": by_kind["cut"],
        "slows": by_kind["slow"],
        "slowed_by": disturbed.slowed_by,
        "losses": by_kind["loss"],
        "delays": by_kind["delay"],
        "disk_full": by_kind["disk"],
        "disk_full_noticed": disturbed.disks_noticed,
        "restarts": by_kind["restart"],
        "unopened": len(disturbed.unopened),
        "network": network,
        "disk": disk,
        "scheduled": verdict.scheduled,
        "acknowledged": verdict.acknowledged,
        "lost": verdict.lost,
        "counted_twice": verdict.counted_twice,
        "given_up": disturbed.given_up,
        "identical": disturbed.state == disturbed.offline
        and (undisturbed is None or disturbed.state == undisturbed.state),
        "audit": disturbed.audit,
        "forks": disturbed.forks,
        "accused": disturbed.accused,
        "ended_by_themselves": dict(disturbed.ended_by_themselves),
        "last_words": disturbed.last_words,
        "answers": {str(status): count for status, count in sorted(disturbed.answers.items())},
    }


_WHOM = ("node", "driver", "database", "relay", "entry", "mix", "witness", "host")
#: What several runs of one command have in common.
_SAME = ("nodes", "participants", "rounds", "seed")


def _added(before: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    """Several runs as one: counts and lists together; what is told in words is the first run's."""

    def both(name: str, old: Any, new: Any) -> Any:
        if isinstance(old, bool):
            return old and new
        if isinstance(old, dict):
            return {key: old.get(key, 0) + new.get(key, 0) for key in {**old, **new}}
        return old + new if isinstance(old, int | list) and name not in _SAME else old

    return {name: both(name, old, one[name]) for name, old in before.items()}


@contextlib.contextmanager
def _sigterm_unwinds() -> Iterator[None]:
    """SIGTERM ends this as Ctrl-C does: processes, namespaces and mounts of ours go with us."""

    def unwind(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
