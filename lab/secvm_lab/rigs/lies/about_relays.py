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

    tell: Callable[[], AuditedHistory]
    #: Names of ``auditor.findings.FaultKind``.
    found: frozenset[str]
    #: Whether signed bytes prove it.
    proved: bool = True
    #: Whether the relays' doors are asked.
    doors: bool = True

    @property
    def name(self) -> str:
        """How it is called."""
        return self.tell.__name__


RELAYED_LIES: dict[str, RelayedLie] = {}


def _lie(*found: str, proved: bool = True, doors: bool = True) -> Callable[[Callable[[], AuditedHistory]], Any]:
    def kept(tell: Callable[[], AuditedHistory]) -> Callable[[], AuditedHistory]:
        RELAYED_LIES[tell.__name__] = RelayedLie(tell, frozenset(found), proved, doors)
        return tell

    return kept


def _after_one(name: str) -> AuditedHistory:
    """A history with one honest round."""
    made = AuditedHistory(name)
    made.announce()
    made.conclude()
    return made


def _with(name: str, **lies: Callable[[Any], Any]) -> AuditedHistory:
    """One honest round, and one with these lies, to the end."""
    made = _after_one(name)
    made.announce(clients=_FEW, lies=lies)
    made.conclude()
    made.end()
    return made


# ── the coordinator's documents ──────────────────────────────────────────────────────────────────────────────────────


@_lie("WINDOW")
def more_time_for_relays() -> AuditedHistory:
    """The round is open a second longer than the experiment says."""

    def longer(manifest: Any) -> Any:
        return replace(manifest, instants=replace(manifest.instants, open_by=manifest.instants.open_by + 1000))

    return _with("longer", manifest=longer)


@_lie("BROKEN_CHAIN")
def another_past() -> AuditedHistory:
    """A manifest names another one as the one before."""
    return _with("past", manifest=lambda told: replace(told, previous=_OTHER))


@_lie("BROKEN_CHAIN")
def two_manifests_for_a_round() -> AuditedHistory:
    """``manifest/latest`` is not the one under its number."""
    made = _after_one("two manifests")
    other = replace(made.rounds[0].manifest, count_seed_hash=bytes(32)).signed([COORDINATOR])
    made.files[f"{made.place}/manifest/latest"] = other
    return made


@_lie("MANIFEST_UNREADABLE", proved=False)
def manifest_of_a_stranger() -> AuditedHistory:
    """A manifest without the coordinator's signature."""
    made = _after_one("stranger")
    made.files[f"{made.place}/manifest/2"] = made.rounds[0].following().manifest.signed([STRANGER])
    return made


@_lie("MANIFEST_NOT_SHOWN", proved=False)
def manifest_withheld() -> AuditedHistory:
    """A round that is over has no manifest any more."""
    made = _after_one("withheld")
    made.announce(clients=_FEW)
    made.conclude()
    del made.files[f"{made.place}/manifest/1"]
    return made


@_lie("COMMITMENT")
def key_of_the_coordinators_own() -> AuditedHistory:
    """The coordinator signs the mixing relay's commitment itself, with a key that it holds."""
    return _with("own key", manifest=lambda told: replace(told, mix=told.mix_commitment.signed(STRANGER)))


@_lie("USED_BEFORE")
def count_key_used_twice() -> AuditedHistory:
    """A count key whose seed is public already, two rounds later."""
    made = _after_one("twice")
    made.announce(clients=_FEW)
    made.conclude()
    first = made.rounds[0]
    again = {"count_key": first.manifest.count_key, "count_seed_hash": first.manifest.count_seed_hash}
    lies = {
        "manifest": lambda told: replace(told, **again),
        "opening": lambda told: replace(told, count_seed=first.count_seed),
    }
    made.announce(clients=_FEW, lies=lies)
    made.conclude()
    return made


@_lie("OPENING_NOT_SHOWN", proved=False)
def opening_withheld() -> AuditedHistory:
    """The next manifest names an opening that nobody can read."""
    made = _with("no opening")
    del made.files[f"{made.place}/opening/2"]
    return made


@_lie("OPENING_UNREADABLE", proved=False)
def opening_of_a_stranger() -> AuditedHistory:
    """An opening without the coordinator's signature."""
    made = _after_one("opened by a stranger")
    made.files[f"{made.place}/opening/1"] = made.openings[0].signed([STRANGER])
    return made


@_lie("OTHER_OPENING")
def opening_exchanged() -> AuditedHistory:
    """What is shown as the opening is not what the ending names."""
    made = _after_one("exchanged")
    made.announce(clients=_FEW)
    made.conclude(lost=3)
    made.end()
    other = replace(made.openings[1], entry_reveal=None)
    made.files[f"{made.place}/opening/2"] = other.signed([COORDINATOR])
    return made


@_lie("FORGED_STATEMENT")
def count_forged() -> AuditedHistory:
    """The coordinator signs the entry relay's count itself."""
    made = _after_one("forged")
    one = made.announce(clients=_FEW)
    made.conclude(opening=replace(one.opening, entry_count=one.entry_count.signed(STRANGER)))
    return made


@_lie("SEED")
def seed_of_another_key() -> AuditedHistory:
    """The published seed opens nothing."""
    return _with("seed", opening=lambda told: replace(told, count_seed=bytes(32)))


@_lie("ENDING")
def round_after_the_ending() -> AuditedHistory:
    """The experiment was ended, and goes on."""
    made = _after_one("after the end")
    made.end()
    made.announce(clients=_FEW)
    return made


@_lie("ENDING")
def ending_of_another_round() -> AuditedHistory:
    """The ending names another last manifest."""
    made = _after_one("another end")
    made.end(manifest=_OTHER)
    return made


# ── counts and reveals ───────────────────────────────────────────────────────────────────────────────────────────────


@_lie("ENTRY_EQUATION", "FALSE_OPENING")
def capsules_without_a_client() -> AuditedHistory:
    """The entry relay hands on one capsule more than its submissions and cover."""
    return _with(
        "one more",
        entry_count=lambda told: replace(told, capsules=told.capsules + 1),
        mix_count=lambda told: replace(told, refused=told.refused + 1),
    )


@_lie("MIX_EQUATION", "FALSE_OPENING")
def capsules_lost_in_the_mix() -> AuditedHistory:
    """The mixing relay hands on one less than it says that it refused."""
    return _with("one less", mix_count=lambda told: replace(told, refused=told.refused + 1))


@_lie("COUNTS_DISAGREE", "FALSE_OPENING")
def count_after_another_batch() -> AuditedHistory:
    """The mixing relay counted after another count of the entry relay."""
    return _with("another batch", mix_count=lambda told: replace(told, entry_count=_OTHER))


@_lie("TWO_STATEMENTS_OF_MIX", "FALSE_OPENING")
def second_count_published() -> AuditedHistory:
    """Reveals answer one count of the mixing relay, and another one is published."""

    def second(opening: Any) -> Any:
        # A root of the same length is all that an opening tells of the capsules.
        return replace(opening, mix_count=replace(made.rounds[-1].mix_count, root=bytes(32)).signed(MIX))

    made = _after_one("second count")
    one = made.announce(clients=_FEW)
    # At its own door it shows the second one too.
    made.conclude(opening=second(one.opening))
    made.doors["entry"].clear()
    made.doors["mix"].clear()
    return made


@_lie("TWO_STATEMENTS_OF_ENTRY")
def second_count_at_the_door() -> AuditedHistory:
    """The entry relay shows at its door another count than the published one."""
    made = _after_one("at the door")
    one = made.rounds[0]
    other = replace(one, lies={"entry_count": lambda told: replace(told, received=bytes(32))})
    made.doors["entry"] |= other.door(without=("mix_count", "entry_reveal", "mix_reveal"))
    return made


def _chosen(made: RelayedRound) -> Callable[[EntryReveal], EntryReveal]:
    def other(told: EntryReveal) -> EntryReveal:
        secret, part = made.secret("entry"), (told.part + 1) % made.parts
        path = part_path(secret.part_seeds(made.parts), part)
        return replace(told, part=part, seed=secret.part_seed(part), path=path)

    return other


@_lie("ENTRY_REVEAL", "FALSE_OPENING")
def part_that_pleases() -> AuditedHistory:
    """Both relays open the part that they like best."""
    name = "pleases"
    plain = RelayedRound(name=name, round_number=2)
    return _with(name, entry_reveal=_chosen(plain))


@_lie("ENTRY_REVEAL", "FALSE_OPENING")
def seed_of_entry_chosen_later() -> AuditedHistory:
    """The entry relay shows a seed that it was not bound to."""
    return _with("entry seed", entry_reveal=lambda told: replace(told, seed=bytes(32)))


@_lie("MIX_REVEAL", "FALSE_OPENING")
def seed_of_mix_chosen_later() -> AuditedHistory:
    """The mixing relay shows a seed that it was not bound to."""
    return _with("mix seed", mix_reveal=lambda told: replace(told, seed=bytes(32)))


# ── models ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _moved(made: AuditedHistory) -> Model:
    """Another model than the one that follows."""
    tally = aggregate.empty_tally(made.document.experiment)
    tally.participants[:], tally.plus[0, 0] = 9, 20
    return model_of(made.document, aggregate.step(made.document.experiment, made.model.state, tally))


@_lie("TALLY", proved=False)
def tally_withheld() -> AuditedHistory:
    """Nobody can step from a tally that is not there."""
    made = _after_one("tally")
    del made.files[f"/v1/blob/{made.openings[0].tally}"]
    made.announce(clients=_FEW)
    return made


@_lie("FIRST_MODEL")
def first_model_not_zero() -> AuditedHistory:
    """Round 1 begins with what pleases."""
    made = AuditedHistory("not zero")
    made.model = _moved(made)
    made.announce(clients=_FEW)
    made.conclude()
    return made


@_lie("STEP")
def step_after_too_few() -> AuditedHistory:
    """A round below the floor changes the model."""
    made = _after_one("too few")
    made.announce(clients=_FEW)
    made.conclude()
    made.model = _moved(made)
    made.announce(clients=_FEW)
    return made


@_lie("STEP")
def step_after_an_unopened_round() -> AuditedHistory:
    """A round that was not opened changes the model, and the experiment ends with it."""
    made = _after_one("unopened")
    made.announce()
    made.conclude(lost=2)
    made.model = _moved(made)
    made.announce(clients=_FEW)
    return made


@_lie("STEP")
def step_of_another_tally() -> AuditedHistory:
    """An opened round is stepped, and not from its tally."""
    made = AuditedHistory("another tally")
    tally = aggregate.empty_tally(made.document.experiment)
    tally.participants[:], tally.minus[0, 3] = 9, 12
    made.announce(drawn=tally)
    made.conclude()
    made.model = _moved(made)
    made.announce(clients=_FEW)
    return made


@_lie("BLOBS", proved=False)
def weights_exchanged() -> AuditedHistory:
    """What is served as weights is something else."""
    made = _after_one("weights")
    made.files[f"/v1/blob/{made.model.names[2]}"] = b"something else"
    return made


# ── capsules ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _sealed(name: str, **changes: Any) -> AuditedHistory:
    """One sealed round."""
    made = AuditedHistory(name)
    made.announce(sealed=True, clients=_FEW, **changes)
    made.conclude()
    return made


def _first_of_parts(name: str, role: Any, layer: int) -> frozenset[bytes]:
    """The digest of the first capsule of each part: whichever is opened, one of them is missed."""
    made = AuditedHistory(name).announce(sealed=True, clients=_FEW)
    assert isinstance(made, SealedRound)
    return frozenset(capsule_digest(made.part(role, number).capsules(0)[layer] or b"") for number in range(made.parts))


@_lie("PART_OF_ENTRY", doors=False)
def cover_dropped_and_nobody_asked() -> AuditedHistory:
    """Cover of the entry relay is not handed on; without the doors nobody can tell by whom."""
    return _sealed("nobody asked", mix_leaves_out=_first_of_parts("nobody asked", "entry", 0))


@_lie("PART_DROPPED_BY_MIX")
def cover_dropped_by_mix() -> AuditedHistory:
    """The mixing relay replaces capsules that were the entry relay's cover."""
    return _sealed("by mix", mix_leaves_out=_first_of_parts("by mix", "entry", 0))


@_lie("PART_DROPPED_BY_ENTRY")
def cover_never_added_by_entry() -> AuditedHistory:
    """The entry relay puts something else in the place of some of its cover."""
    return _sealed("by entry", entry_leaves_out=_first_of_parts("by entry", "entry", 1))


@_lie("PART_OF_MIX")
def cover_never_added_by_mix() -> AuditedHistory:
    """The mixing relay puts something else in the place of some of its own cover."""
    return _sealed("own cover", mix_leaves_out=_first_of_parts("own cover", "mix", 0))


def _changed(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@_lie("RUNS", proved=False)
def digests_exchanged() -> AuditedHistory:
    """The coordinator shows other digests than the mixing relay signed."""
    made = _sealed("digests")
    path = f"{made.place}/shard/1/0"
    made.files[path] = _changed(made.files[path], len(made.files[path]) - 1)
    return made


@_lie("CAPSULES", proved=False)
def capsules_exchanged() -> AuditedHistory:
    """A capsule that is shown is not the one of its digest."""
    made = _sealed("capsules")
    path = f"{made.place}/capsules/1/0"
    made.files[path] = _changed(made.files[path], 100)
    return made


@_lie("SHARDS", proved=False)
def root_of_no_shards() -> AuditedHistory:
    """The root of the shards is one that no sub-tally in public leads to."""
    return _sealed("shards", lies={"opening": lambda told: replace(told, shards=bytes(32))})


@_lie("COUNT")
def shard_counted_falsely() -> AuditedHistory:
    """One package more in a sub-tally, and in the net tally with it."""
    return _sealed("counted", lies={"sub_tallies": lambda told: [_one_more(told[0])], "net": _invented})


@_lie("WITHHELD", proved=False)
def capsules_withheld() -> AuditedHistory:
    """The newest round is opened, and none of its capsules is public."""
    made = _sealed("withheld capsules")
    for path in [path for path in made.files if path.endswith("/1/0")]:
        del made.files[path]
    return made


@_lie("WITHHELD", proved=False)
def sub_tally_withheld() -> AuditedHistory:
    """Digests and capsules are public, and what they are said to count is not."""
    made = _sealed("withheld tally")
    del made.files[f"{made.place}/tally/1/0"]
    return made


def _one_more(sub_tally: bytes) -> bytes:
    counts = read_sub_tally(sub_tally, cells=30, capsules=SHARD)
    return write_sub_tally({**counts, 0: counts.get(0, 0) + 1})


def _invented(net: Any) -> Any:
    plus = net.plus.copy()
    plus[0, 0] += 1
    return replace(net, plus=plus)


@_lie("RAW")
def package_invented() -> AuditedHistory:
    """The coordinator adds one package to the net tally."""
    return _sealed("invented", lies={"net": _invented})
