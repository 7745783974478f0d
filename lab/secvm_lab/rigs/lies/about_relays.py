"""Lies in an experiment with two relays, one or more for every rule of the auditor: by a relay, or by the coordinator.

A lie is a history that is honest up to it, and consistent with it from there on: whatever follows from the false
statement is made to follow, by whoever has the keys. ``found`` is exactly what an auditor finds; one without these
checks finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from secvm.learning import aggregate
from secvm.protocol.documents.recomputation import Model, model_of
from secvm.protocol.relays.batches import capsule_digest
from secvm.protocol.relays.commitments import part_path
from secvm.protocol.relays.counts import EntryReveal
from secvm.protocol.relays.cover_parts import Role
from secvm.protocol.relays.shards import SHARD, read_sub_tally, write_sub_tally
from secvm_lab.rigs.histories.audited_history import AuditedHistory
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR, MIX, STRANGER, RelayedRound
from secvm_lab.rigs.histories.sealed_round import SealedRound

#: Below the floor: the model stays whether the round is opened or not, so that the lie is the only thing to be seen.
_FEW = 2
_OTHER = "1" * 64


@dataclass(frozen=True, slots=True)
class RelayedLie:
    """One way to lie."""

    lie: Callable[[AuditedHistory], object]
    #: Names of ``auditor.findings.FaultKind``.
    found: frozenset[str]
    #: Whether signed bytes prove it.
    proved: bool
    #: Whether the relays' doors are asked.
    doors: bool
    #: Rounds before it.
    honest: int

    def tell(self) -> AuditedHistory:
        """Honest rounds, and what the liar makes of them and adds."""
        made = AuditedHistory(self.lie.__name__)
        for _ in range(self.honest):
            made.announce()
            made.conclude()
        self.lie(made)
        return made


RELAYED_LIES: dict[str, RelayedLie] = {}


def _lie(*found: str, proved: bool = True, doors: bool = True, honest: int = 1) -> Callable[[Any], Any]:
    def kept(lie: Callable[[AuditedHistory], object]) -> Callable[[AuditedHistory], object]:
        RELAYED_LIES[lie.__name__] = RelayedLie(lie, frozenset(found), proved, doors, honest)
        return lie

    return kept


def _round(made: AuditedHistory, **lies: Callable[[Any], Any]) -> None:
    """One more round, with these lies."""
    made.announce(clients=_FEW, lies=lies)
    made.conclude()


def _last(made: AuditedHistory, **lies: Callable[[Any], Any]) -> None:
    """One more round, with these lies, and the end."""
    _round(made, **lies)
    made.end()


# ── the coordinator's documents ──────────────────────────────────────────────────────────────────────────────────────


@_lie("WINDOW")
def more_time_for_relays(made: AuditedHistory) -> None:
    """The round is open a second longer than the experiment says."""

    def longer(manifest: Any) -> Any:
        return replace(manifest, instants=replace(manifest.instants, open_by=manifest.instants.open_by + 1000))

    _last(made, manifest=longer)


@_lie("BROKEN_CHAIN")
def another_past(made: AuditedHistory) -> None:
    """A manifest names another one as the one before."""
    _last(made, manifest=lambda told: replace(told, previous=_OTHER))


@_lie("BROKEN_CHAIN")
def two_manifests_for_a_round(made: AuditedHistory) -> None:
    """``manifest/latest`` is not the one under its number."""
    other = replace(made.rounds[0].manifest, count_seed_hash=bytes(32)).signed([COORDINATOR])
    made.files[f"{made.place}/manifest/latest"] = other


@_lie("MANIFEST_UNREADABLE", proved=False)
def manifest_of_a_stranger(made: AuditedHistory) -> None:
    """A manifest without the coordinator's signature."""
    made.files[f"{made.place}/manifest/2"] = made.rounds[0].following().manifest.signed([STRANGER])


@_lie("MANIFEST_NOT_SHOWN", proved=False)
def manifest_withheld(made: AuditedHistory) -> None:
    """A round that is over has no manifest any more."""
    _round(made)
    del made.files[f"{made.place}/manifest/1"]


@_lie("COMMITMENT")
def key_of_the_coordinators_own(made: AuditedHistory) -> None:
    """The coordinator signs the mixing relay's commitment itself, with a key that it holds."""
    _last(made, manifest=lambda told: replace(told, mix=told.mix_commitment.signed(STRANGER)))


@_lie("USED_BEFORE")
def count_key_used_twice(made: AuditedHistory) -> None:
    """A count key whose seed is public already, two rounds later."""
    _round(made)
    first = made.rounds[0]
    again = {"count_key": first.manifest.count_key, "count_seed_hash": first.manifest.count_seed_hash}
    lies = {
        "manifest": lambda told: replace(told, **again),
        "opening": lambda told: replace(told, count_seed=first.count_seed),
    }
    _round(made, **lies)


@_lie("OPENING_NOT_SHOWN", proved=False)
def opening_withheld(made: AuditedHistory) -> None:
    """The next manifest names an opening that nobody can read."""
    _last(made)
    del made.files[f"{made.place}/opening/2"]


@_lie("OPENING_UNREADABLE", proved=False)
def opening_of_a_stranger(made: AuditedHistory) -> None:
    """An opening without the coordinator's signature."""
    made.files[f"{made.place}/opening/1"] = made.openings[0].signed([STRANGER])


@_lie("OTHER_OPENING")
def opening_exchanged(made: AuditedHistory) -> None:
    """What is shown as the opening is not what the ending names."""
    made.announce(clients=_FEW)
    made.conclude(lost=3)
    made.end()
    other = replace(made.openings[1], entry_reveal=None)
    made.files[f"{made.place}/opening/2"] = other.signed([COORDINATOR])


@_lie("FORGED_STATEMENT")
def count_forged(made: AuditedHistory) -> None:
    """The coordinator signs the entry relay's count itself."""
    one = made.announce(clients=_FEW)
    made.conclude(opening=replace(one.opening, entry_count=one.entry_count.signed(STRANGER)))


@_lie("SEED")
def seed_of_another_key(made: AuditedHistory) -> None:
    """The published seed opens nothing."""
    _last(made, opening=lambda told: replace(told, count_seed=bytes(32)))


@_lie("ENDING")
def round_after_the_ending(made: AuditedHistory) -> None:
    """The experiment was ended, and goes on."""
    made.end()
    made.announce(clients=_FEW)


@_lie("ENDING")
def ending_of_another_round(made: AuditedHistory) -> None:
    """The ending names another last manifest."""
    made.end(manifest=_OTHER)


# ── counts and reveals ───────────────────────────────────────────────────────────────────────────────────────────────


@_lie("ENTRY_EQUATION", "FALSE_OPENING")
def capsules_without_a_client(made: AuditedHistory) -> None:
    """The entry relay hands on one capsule more than its submissions and cover."""
    _last(
        made,
        entry_count=lambda told: replace(told, capsules=told.capsules + 1),
        mix_count=lambda told: replace(told, refused=told.refused + 1),
    )


@_lie("MIX_EQUATION", "FALSE_OPENING")
def capsules_lost_in_the_mix(made: AuditedHistory) -> None:
    """The mixing relay hands on one less than it says that it refused."""
    _last(made, mix_count=lambda told: replace(told, refused=told.refused + 1))


@_lie("COUNTS_DISAGREE", "FALSE_OPENING")
def count_after_another_batch(made: AuditedHistory) -> None:
    """The mixing relay counted after another count of the entry relay."""
    _last(made, mix_count=lambda told: replace(told, entry_count=_OTHER))


@_lie("TWO_STATEMENTS_OF_MIX", "FALSE_OPENING")
def second_count_published(made: AuditedHistory) -> None:
    """Reveals answer one count of the mixing relay, and another one is published."""
    one = made.announce(clients=_FEW)
    # A root of the same length is all that an opening tells of the capsules.
    second = replace(one.mix_count, root=bytes(32)).signed(MIX)
    made.conclude(opening=replace(one.opening, mix_count=second))
    # At its own door it shows the second one too.
    for door in made.doors.values():
        door.clear()


@_lie("TWO_STATEMENTS_OF_ENTRY")
def second_count_at_the_door(made: AuditedHistory) -> None:
    """The entry relay shows at its door another count than the published one."""
    one = made.rounds[0]
    other = replace(one, lies={"entry_count": lambda told: replace(told, received=bytes(32))})
    made.doors["entry"] |= other.door(without=("mix_count", "entry_reveal", "mix_reveal"))


def _chosen(made: RelayedRound) -> Callable[[EntryReveal], EntryReveal]:
    def other(told: EntryReveal) -> EntryReveal:
        secret, part = made.secret("entry"), (told.part + 1) % made.parts
        path = part_path(secret.part_seeds(made.parts), part)
        return replace(told, part=part, seed=secret.part_seed(part), path=path)

    return other


@_lie("ENTRY_REVEAL", "FALSE_OPENING")
def part_that_pleases(made: AuditedHistory) -> None:
    """Both relays open the part that they like best."""
    _last(made, entry_reveal=_chosen(RelayedRound(name=made.name, round_number=2)))


@_lie("ENTRY_REVEAL", "FALSE_OPENING")
def seed_of_entry_chosen_later(made: AuditedHistory) -> None:
    """The entry relay shows a seed that it was not bound to."""
    _last(made, entry_reveal=lambda told: replace(told, seed=bytes(32)))


@_lie("MIX_REVEAL", "FALSE_OPENING")
def seed_of_mix_chosen_later(made: AuditedHistory) -> None:
    """The mixing relay shows a seed that it was not bound to."""
    _last(made, mix_reveal=lambda told: replace(told, seed=bytes(32)))


# ── models ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _moved(made: AuditedHistory) -> Model:
    """Another model than the one that follows."""
    tally = aggregate.empty_tally(made.document.experiment)
    tally.participants[:], tally.plus[0, 0] = 9, 20
    return model_of(made.document, aggregate.step(made.document.experiment, made.model.state, tally))


@_lie("TALLY", proved=False)
def tally_withheld(made: AuditedHistory) -> None:
    """Nobody can step from a tally that is not there."""
    del made.files[f"/v1/blob/{made.openings[0].tally}"]
    made.announce(clients=_FEW)


@_lie("FIRST_MODEL", honest=0)
def first_model_not_zero(made: AuditedHistory) -> None:
    """Round 1 begins with what pleases."""
    made.model = _moved(made)
    _round(made)


@_lie("STEP")
def step_after_too_few(made: AuditedHistory) -> None:
    """A round below the floor changes the model."""
    _round(made)
    made.model = _moved(made)
    made.announce(clients=_FEW)


@_lie("STEP")
def step_after_an_unopened_round(made: AuditedHistory) -> None:
    """A round that was not opened changes the model, and the experiment ends with it."""
    made.announce()
    made.conclude(lost=2)
    made.model = _moved(made)
    made.announce(clients=_FEW)


@_lie("STEP", honest=0)
def step_of_another_tally(made: AuditedHistory) -> None:
    """An opened round is stepped, and not from its tally."""
    tally = aggregate.empty_tally(made.document.experiment)
    tally.participants[:], tally.minus[0, 3] = 9, 12
    made.announce(drawn=tally)
    made.conclude()
    made.model = _moved(made)
    made.announce(clients=_FEW)


@_lie("BLOBS", proved=False)
def weights_exchanged(made: AuditedHistory) -> None:
    """What is served as weights is something else."""
    made.files[f"/v1/blob/{made.model.names[2]}"] = b"something else"


# ── capsules ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _sealed(made: AuditedHistory, **changes: Any) -> None:
    """One sealed round."""
    made.announce(sealed=True, clients=_FEW, **changes)
    made.conclude()


def _first_of_parts(made: AuditedHistory, role: Role, layer: int) -> frozenset[bytes]:
    """The digest of the first capsule of each part: whichever is opened, one of them is missed."""
    honest = AuditedHistory(made.name).announce(sealed=True, clients=_FEW)
    assert isinstance(honest, SealedRound)
    parts = (honest.part(role, number) for number in range(honest.parts))
    return frozenset(capsule_digest(part.capsules(0)[layer] or b"") for part in parts)


@_lie("PART_OF_ENTRY", doors=False, honest=0)
def cover_dropped_and_nobody_asked(made: AuditedHistory) -> None:
    """Cover of the entry relay is not handed on; without the doors nobody can tell by whom."""
    _sealed(made, mix_leaves_out=_first_of_parts(made, "entry", 0))


@_lie("PART_DROPPED_BY_MIX", honest=0)
def cover_dropped_by_mix(made: AuditedHistory) -> None:
    """The mixing relay replaces capsules that were the entry relay's cover."""
    _sealed(made, mix_leaves_out=_first_of_parts(made, "entry", 0))


@_lie("PART_DROPPED_BY_ENTRY", honest=0)
def cover_never_added_by_entry(made: AuditedHistory) -> None:
    """The entry relay puts something else in the place of some of its cover."""
    _sealed(made, entry_leaves_out=_first_of_parts(made, "entry", 1))


@_lie("PART_OF_MIX", honest=0)
def cover_never_added_by_mix(made: AuditedHistory) -> None:
    """The mixing relay puts something else in the place of some of its own cover."""
    _sealed(made, mix_leaves_out=_first_of_parts(made, "mix", 0))


def _changed(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@_lie("RUNS", proved=False, honest=0)
def digests_exchanged(made: AuditedHistory) -> None:
    """The coordinator shows other digests than the mixing relay signed."""
    _sealed(made)
    path = f"{made.place}/shard/1/0"
    made.files[path] = _changed(made.files[path], len(made.files[path]) - 1)


@_lie("CAPSULES", proved=False, honest=0)
def capsules_exchanged(made: AuditedHistory) -> None:
    """A capsule that is shown is not the one of its digest."""
    _sealed(made)
    path = f"{made.place}/capsules/1/0"
    made.files[path] = _changed(made.files[path], 100)


@_lie("SHARDS", proved=False, honest=0)
def root_of_no_shards(made: AuditedHistory) -> None:
    """The root of the shards is one that no sub-tally in public leads to."""
    _sealed(made, lies={"opening": lambda told: replace(told, shards=bytes(32))})


@_lie("COUNT", honest=0)
def shard_counted_falsely(made: AuditedHistory) -> None:
    """One package more in a sub-tally, and in the net tally with it."""
    _sealed(made, lies={"sub_tallies": lambda told: [_one_more(told[0])], "net": _invented})


@_lie("WITHHELD", proved=False, honest=0)
def capsules_withheld(made: AuditedHistory) -> None:
    """The newest round is opened, and none of its capsules is public."""
    _sealed(made)
    for path in [path for path in made.files if path.endswith("/1/0")]:
        del made.files[path]


@_lie("WITHHELD", proved=False, honest=0)
def sub_tally_withheld(made: AuditedHistory) -> None:
    """Digests and capsules are public, and what they are said to count is not."""
    _sealed(made)
    del made.files[f"{made.place}/tally/1/0"]


def _one_more(sub_tally: bytes) -> bytes:
    counts = read_sub_tally(sub_tally, cells=30, capsules=SHARD)
    return write_sub_tally({**counts, 0: counts.get(0, 0) + 1})


def _invented(net: Any) -> Any:
    plus = net.plus.copy()
    plus[0, 0] += 1
    return replace(net, plus=plus)


@_lie("RAW", honest=0)
def package_invented(made: AuditedHistory) -> None:
    """The coordinator adds one package to the net tally."""
    _sealed(made, lies={"net": _invented})
