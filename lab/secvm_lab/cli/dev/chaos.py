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
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secvm.cli.output import Format, FormatOption, emit, note

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
    told["seconds"] = round(time.monotonic() - begun, 1)
    told["peak_rss_mb"] = round(
        max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024, 1
    )
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
    by_kind = {kind: sum(count for (one, _), count in done.items() if one == kind) for kind in _KINDS}
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


_KINDS = ("kill", "stop", "cut", "slow", "loss", "delay", "disk", "restart")
_WHOM = ("node", "driver", "database", "relay", "entry", "mix", "witness", "host")
_SUMS = ("stops", "taken_over", "cuts", "slows", "losses", "delays", "disk_full", "disk_full_noticed", "restarts")
_MORE_SUMS = ("unopened", "scheduled", "acknowledged", "lost", "counted_twice", "given_up", "forks")
_LISTS = ("audit", "accused", "last_words")
_MAPPINGS = ("kills", "ended_by_themselves", "answers")


def _added(before: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    """Several runs as one."""
    both = {**before, "identical": before["identical"] and one["identical"]}
    both |= {name: before[name] + one[name] for name in (*_SUMS, *_MORE_SUMS, *_LISTS)}
    both |= {
        name: {key: before[name].get(key, 0) + one[name].get(key, 0) for key in {**before[name], **one[name]}}
        for name in _MAPPINGS
    }
    return both


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
