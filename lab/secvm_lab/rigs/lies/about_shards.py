"""Lies about what was counted, told at random by a coordinator that opens a round.

A scene is an honest sealed round of one shard or two, made once; a lie changes what is published of it, and whatever
follows from the lie is made to follow and signed anew. Each says what an auditor finds, one of these at the least, and
what a device sees that looks at one shard: the lie in its own shard, the false opening, or nothing. ``secvm dev
trials`` tells them all.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.layers import INNER_BYTES
from secvm.errors import RemoteProtocolError
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.documents.blobs import encode_tally, tally_digest
from secvm.protocol.relays.batches import capsule_digest
from secvm.protocol.relays.counting import Cells
from secvm.protocol.relays.opening import is_opened
from secvm.protocol.relays.recount import Recount, ShardTally
from secvm.protocol.relays.shards import SHARD, ShardRun, read_run, read_sub_tally, write_sub_tally
from secvm_lab.rigs.histories.audited_history import AuditedHistory, draw_told
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR, relayed_document, relayed_experiment
from secvm_lab.rigs.histories.sealed_round import SealedRound
from secvm_lab.rigs.histories.shard_tree import ShardTree

#: What the coordinator has signed, so that its own bytes prove it; everything else are files that nobody signed.
SIGNED = frozenset({"COUNT", "RAW", "SEED"})
#: What a device sees that looks at one shard.
IN_ITS_SHARD, IN_THE_OPENING, NOTHING = "in its shard", "in the opening", "nothing"
#: Histories that scenes are drawn from: so many of one shard, and one of two.
_SMALL, _LARGE = 4, 1


@lru_cache(maxsize=_SMALL + _LARGE)
def _history(number: int) -> AuditedHistory:
    """Two honest rounds, the second of which will be lied about."""
    cover = relayed_experiment().cover
    assert cover is not None
    cover = replace(cover, packages=2400 if number >= _SMALL else 160)
    document = relayed_document(experiment=relayed_experiment(cover=cover))
    made = AuditedHistory(f"counted {number}", document)
    dice = random.Random(number)  # noqa: S311  (a trial can be had again)
    for clients in (2, 5):
        # Below the floor nothing is stepped; nothing but the count is at stake here.
        made.announce(sealed=True, clients=clients, told=draw_told(dice, document, clients))
        made.conclude()
    return made


class Scene:
    """An honest round, published, and whoever will lie about it."""

    def __init__(self, dice: random.Random, *, large: bool | None = None) -> None:
        """One of a few rounds, nine times in ten a small one."""
        large = dice.random() < 0.1 if large is None else large
        self.dice, self.history = dice, _history(_SMALL if large else dice.randrange(_SMALL))
        last = self.history.rounds[-1]
        assert isinstance(last, SealedRound)
        #: The round that is lied about, and what is shown of it.
        self.round = last
        self.files = dict(self.history.files)
        self.opening, self.sub_tallies = last.opening, list(last.sub_tallies)
        #: The shard that the lie is about.
        self.shard = dice.randrange(len(last.sub_tallies))

    @property
    def now(self) -> int:
        """When it is looked at."""
        return self.history.now

    @property
    def cells(self) -> Cells:
        """Of the experiment."""
        return Cells.of(self.round.document.experiment)

    def path(self, what: str, shard: int | None = None) -> str:
        """A file of the round, of the shard that is lied about or of another."""
        number = self.shard if shard is None else shard
        return f"{self.history.place}/{what}/{self.round.round_number}/{number}"

    def counted(self) -> list[int]:
        """Cells in which the shard counts something."""
        return sorted(self._counts())

    def _counts(self) -> dict[int, int]:
        return read_sub_tally(self.sub_tallies[self.shard], cells=self.cells.count, capsules=SHARD)

    def recount(self, more: Mapping[int, int]) -> None:
        """Sign so much more, or less, in cells of the shard, and the net tally that follows."""
        counts, net = Counter(self._counts()), np.zeros(self.cells.count, np.int64)
        for cell, count in more.items():
            counts[cell] += count
            net[cell] = count
        self.sub_tallies[self.shard] = write_sub_tally(counts)
        self.sign(_merged(self.round.net, self.cells.tally(net)))

    def sign(self, net: Tally | None = None, **changes: Any) -> None:
        """Publish an opening with these sub-tallies, and with whatever else is said."""
        made, tree = self.round, ShardTree(self.round.label)
        for k, sub_tally in enumerate(self.sub_tallies):
            tree.append(made.mixed[k * SHARD : (k + 1) * SHARD], sub_tally)
        tally = made.net if net is None else net
        told: dict[str, Any] = {"shards": tree.root, "tally": tally_digest(tally), **changes}
        self.opening = replace(self.opening, **told)
        self.files[f"/v1/blob/{tally_digest(tally)}"] = encode_tally(tally, made.document.experiment)
        self.files[f"{self.history.place}/opening/{made.round_number}"] = self.opening.signed([COORDINATOR])
        for k, sub_tally in enumerate(self.sub_tallies):
            self.files[self.path("tally", k)] = ShardTally(tree.proof(k).path, sub_tally).to_bytes()

    def capsules(self) -> list[bytes]:
        """Of the shard."""
        data = self.files[self.path("capsules")]
        return [data[at : at + INNER_BYTES] for at in range(0, len(data), INNER_BYTES)]

    def show(self, capsules: list[bytes], digests: list[bytes] | None = None) -> None:
        """Serve other capsules, and other digests with them, under the path that was there."""
        self.files[self.path("capsules")] = b"".join(capsules)
        if digests is not None:
            run = read_run(self.files[self.path("shard")], shard=self.shard, capsules=len(self.round.mixed))
            self.files[self.path("shard")] = ShardRun(self.shard, 0, run.path, tuple(digests)).to_bytes()


def _merged(net: Tally, more: Tally) -> Tally:
    """A liar's net tally is never below zero: that could not even be written."""
    both = net.merge(more)
    parts = (both.plus, both.minus, both.participants, both.cells)
    plus, minus, participants, cells = (np.maximum(part, 0) for part in parts)
    return Tally(plus=plus, minus=minus, participants=participants, cells=cells)


@dataclass(frozen=True, slots=True)
class CountLie:
    """One way to lie about a count."""

    tell: Callable[[Scene], None]
    #: Names of ``auditor.findings.FaultKind``: an auditor finds one of them.
    found: frozenset[str]
    #: What a device sees.
    device: str

    @property
    def sentence(self) -> str:
        """What it is, in one sentence."""
        return (self.tell.__doc__ or "").strip()

    @property
    def follows(self) -> frozenset[str]:
        """All that may be found: a count that would be below zero cannot be made to follow."""
        return self.found | {"RAW"}

    def told(self, dice: random.Random, *, large: bool | None = None) -> Scene:
        """An honest round, and this lie about it."""
        scene = Scene(dice, large=large)
        self.tell(scene)
        return scene


_LIES: dict[str, CountLie] = {}


def _lie(*found: str, device: str = IN_ITS_SHARD) -> Callable[[Any], Any]:
    def kept(tell: Callable[[Scene], None]) -> Callable[[Scene], None]:
        _LIES[tell.__name__.replace("_", "-")] = CountLie(tell, frozenset(found), device)
        return tell

    return kept


# ── counts that are not what capsules give ───────────────────────────────────────────────────────────────────────────


@_lie("COUNT")
def one_more_in_a_bin(scene: Scene) -> None:
    """A package more in one cell."""
    scene.recount({scene.dice.randrange(scene.cells.count): scene.dice.choice((1, 1, 1, 2, 50))})


@_lie("COUNT")
def moved_between_bins(scene: Scene) -> None:
    """A package counted in another cell than its own."""
    source = scene.dice.choice(scene.counted())
    scene.recount({source: -1, (source + scene.dice.randrange(1, scene.cells.count)) % scene.cells.count: 1})


@_lie("COUNT")
def sign_swapped(scene: Scene) -> None:
    """A package of a bin counted with the other sign."""
    source = scene.dice.choice([cell for cell in scene.counted() if cell < scene.cells.train])
    scene.recount({source: -1, source ^ 1: 1})


@_lie("COUNT", "CAPSULES")
def package_dropped(scene: Scene) -> None:
    """A package that is not counted, or a capsule that is left out of its file."""
    if scene.dice.random() < 0.5:
        well_formed_called_junk(scene)
        return
    capsules = scene.capsules()
    del capsules[scene.dice.randrange(len(capsules))]
    scene.show(capsules)


@_lie("COUNT", "RUNS")
def package_doubled(scene: Scene) -> None:
    """A package counted twice, or a capsule that stands twice in its shard."""
    if scene.dice.random() < 0.5:
        scene.recount({scene.dice.choice(scene.counted()): 1})
        return
    capsules = scene.capsules()
    at = scene.dice.randrange(len(capsules) - 1)
    capsules[at + 1] = capsules[at]
    scene.show(capsules, [capsule_digest(capsule) for capsule in capsules])


@_lie("RUNS")
def package_invented(scene: Scene) -> None:
    """A capsule of the coordinator's own in the place of one that the mixing relay handed on."""
    capsules = scene.capsules()
    capsules[scene.dice.randrange(len(capsules))] = scene.dice.randbytes(INNER_BYTES)
    capsules.sort(key=capsule_digest)
    scene.show(capsules, [capsule_digest(capsule) for capsule in capsules])


@_lie("COUNT")
def well_formed_called_junk(scene: Scene) -> None:
    """A package that counts is left out as junk."""
    scene.recount({scene.dice.choice(scene.counted()): -1})


@_lie("COUNT")
def junk_called_well_formed(scene: Scene) -> None:
    """Something that is no package, or a null, is counted in a cell."""
    scene.recount({scene.dice.randrange(scene.cells.train): 1})


@_lie("RAW", device=NOTHING)
def counts_that_do_not_add_up(scene: Scene) -> None:
    """Every shard is counted truly, and the net tally is another."""
    more = np.zeros(scene.cells.count, np.int64)
    more[scene.dice.randrange(scene.cells.train)] = scene.dice.choice((1, 2, 100))
    scene.sign(_merged(scene.round.net, scene.cells.tally(more)))


# ── another key ──────────────────────────────────────────────────────────────────────────────────────────────────────


@_lie("SEED", device=IN_THE_OPENING)
def another_key(scene: Scene) -> None:
    """A seed that is not the count key's: under it everything is junk, or whatever pleases."""
    scene.sign(count_seed=scene.dice.randbytes(32))


@_lie("SEED", device=IN_THE_OPENING)
def seed_of_another_round(scene: Scene) -> None:
    """The seed that was published for the round before."""
    scene.sign(count_seed=scene.history.rounds[0].count_seed)


@_lie("SEED", device=IN_THE_OPENING)
def two_scalars_for_one_key(scene: Scene) -> None:
    """A count key with two private scalars, which disagree about some capsules: no seed gives it."""
    scalar, _ = two_scalars(scene.dice)
    public = X25519PrivateKey(scalar).public_key.to_bytes()
    seed = scene.dice.randbytes(32)
    # It is bound to a seed; the key that this gives is not the one that was announced.
    lies = {"count_key": public, "count_seed_hash": hashlib.sha256(seed).digest()}
    made = replace(scene.round, lies={"manifest": lambda told: replace(told, **lies)}, clients=2)
    number, place = made.round_number, scene.history.place
    envelope = made.manifest.signed([COORDINATOR])
    scene.files[f"{place}/manifest/{number}"] = scene.files[f"{place}/manifest/latest"] = envelope
    scene.opening = replace(made.opening, count_seed=seed)
    scene.files[f"{place}/opening/{number}"] = scene.opening.signed([COORDINATOR])
    scene.files[f"/v1/blob/{made.opening.tally}"] = encode_tally(made.net, made.document.experiment)
    scene.round = made


def two_scalars(dice: random.Random) -> tuple[bytes, bytes]:
    """Two clamped scalars of X25519 with one public key. On the curve's twist they are different maps."""
    order = 2**252 + 27742317777372353535851937790883648493
    # Clamped: a multiple of 8 from 2^254 on, below 2^255; k and 8·order − k are the same up to the sign, which X25519
    # does not see. Both are in the range only for k that are barely above 2^254.
    first = 2**254 + 8 * dice.randrange(2**120)
    second = 8 * order - first
    return first.to_bytes(32, "little"), second.to_bytes(32, "little")


# ── files that are not the round's ───────────────────────────────────────────────────────────────────────────────────


@_lie("RUNS", "CAPSULES")
def shard_permuted(scene: Scene) -> None:
    """Capsules in another order, or two shards in each other's place."""
    names = ("shard", "capsules", "tally")
    if len(scene.sub_tallies) > 1 and scene.dice.random() < 0.5:
        first, second = ({name: scene.files[scene.path(name, k)] for name in names} for k in (0, 1))
        for name in names:
            scene.files[scene.path(name, 0)], scene.files[scene.path(name, 1)] = second[name], first[name]
        return
    capsules = scene.capsules()
    i, j = scene.dice.sample(range(len(capsules)), 2)
    capsules[i], capsules[j] = capsules[j], capsules[i]
    moved = scene.dice.random() < 0.5
    scene.show(capsules, [capsule_digest(capsule) for capsule in capsules] if moved else None)


@_lie("RUNS", "CAPSULES", "SHARDS")
def shard_truncated(scene: Scene) -> None:
    """One of a shard's files ends too early."""
    path = scene.path(scene.dice.choice(("shard", "capsules", "tally")))
    data = scene.files[path]
    scene.files[path] = data[: scene.dice.randrange(1, len(data))]


@_lie("WITHHELD")
def shard_withheld(scene: Scene) -> None:
    """One of a shard's files is not served, or nothing of the round is."""
    names = ("shard", "capsules", "tally")
    shards = range(len(scene.sub_tallies)) if scene.dice.random() < 0.3 else [scene.shard]
    chosen = names if len(shards) > 1 else scene.dice.choice((("shard",), ("capsules",), ("tally",), names))
    for name in chosen:
        for k in shards:
            del scene.files[scene.path(name, k)]


@_lie("RUNS", "CAPSULES", "SHARDS")
def old_batch_again(scene: Scene) -> None:
    """Files of the round before in the place of this round's."""
    names = scene.dice.choice((("shard", "capsules", "tally"), ("capsules",), ("tally",)))
    scene.shard = 0
    for name in names:
        scene.files[scene.path(name, 0)] = scene.files[f"{scene.history.place}/{name}/1/0"]


# ── a device ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def seen_by_device(scene: Scene) -> str:
    """What a device sees that is led to the shard which is lied about: its canary stands there."""
    document, manifest, opening = scene.round.document, scene.round.manifest, scene.opening
    if not is_opened(opening, manifest, document):
        return IN_THE_OPENING
    recount = Recount.of(document, manifest, opening)
    files = [scene.files.get(scene.path(name)) for name in ("shard", "capsules", "tally")]
    run, capsules, tally = files
    if run is None or capsules is None or tally is None:
        return IN_ITS_SHARD
    try:
        recount.check(
            read_run(run, shard=scene.shard, capsules=recount.capsules), capsules, ShardTally.from_bytes(tally)
        )
    except RemoteProtocolError:
        return IN_ITS_SHARD
    return NOTHING


#: All of them, by name.
COUNT_LIES: Mapping[str, CountLie] = MappingProxyType(_LIES)
