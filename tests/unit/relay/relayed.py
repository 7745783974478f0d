"""A round with two relays whose secrets a test knows: plan, sealed submissions, and processes that die anywhere."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest

from secvm.crypto.sealing.kem import X25519PrivateKey, X25519PublicKey
from secvm.crypto.sealing.layers import BulkSealer, seal_both, seal_inner
from secvm.crypto.sealing.part_streams import part_key, seals
from secvm.crypto.signing import SigningKey
from secvm.protocol.relays.batches import capsule_digest, capsule_root
from secvm.protocol.relays.commitments import RoundSecret, entry_commitment, mix_commitment
from secvm.protocol.relays.counts import EntryCount, MixCount
from secvm.protocol.relays.manifest import Instants
from secvm.relay.admission import Identity
from secvm.relay.batches import round_custody, rounds
from secvm.relay.batches.ledger import RoundLedger
from secvm.relay.batches.round_custody import RoundCustody, RoundPlan, RoundSecrets
from secvm.relay.batches.rounds import BatchRound
from secvm.relay.database import RelayDatabase
from secvm.relay.entry.intake import IncomingSubmission, IntakeLimits, read_submission
from secvm.relay.entry.rounds import EntryRound
from secvm.relay.mix import MixRound

EXPERIMENT = "ab" * 32
ROUND = 3
LABEL = hashlib.sha256(b"the manifest").digest()
TIMES = Instants(
    opens_at=1000, closes_at=2000, accept_until=2100, batch_by=3000, mix_by=4000, reveal_by=5000, open_by=6000
)
#: B, D and S.
BUDGET, PACKAGES, PARTS = 3, 8, 4
LIMITS = IntakeLimits(quota=2, network_quota=5, submissions=100)
ENTRY_KEY, MIX_KEY = SigningKey(b"e" * 32), SigningKey(b"x" * 32)
COUNT_KEY = X25519PrivateKey.derive(b"c" * 32)
#: What the relays' dice give: the tests know it, and search for it.
ENTRY_SECRET, MIX_SECRET = RoundSecret(b"E" * 31 + b"!"), RoundSecret(b"X" * 31 + b"!")


def plan(**changes: Any) -> RoundPlan:
    """The round."""
    named = {"experiment": EXPERIMENT, "round_number": ROUND, "parts": PARTS}
    told: dict[str, Any] = {
        "label": LABEL,
        "experiment": EXPERIMENT,
        "round_number": ROUND,
        "instants": TIMES,
        "budget": BUDGET,
        "packages": PACKAGES,
        "parts": PARTS,
        "token_bytes": 0,
        "count_key": COUNT_KEY.public_key.to_bytes(),
        "entry_key": ENTRY_KEY.public,
        "mix_key": MIX_KEY.public,
        "entry_commitment": entry_commitment(ENTRY_SECRET, **named),  # type: ignore[arg-type]
        "mix_commitment": mix_commitment(MIX_SECRET, **named),  # type: ignore[arg-type]
    }
    return RoundPlan(**{**told, **changes})


def package(number: int) -> bytes:
    """Thirty-two bytes, as good as any to a relay."""
    return hashlib.sha256(b"package %d" % number).digest()


def sealed(number: int, label: bytes = LABEL) -> tuple[bytes, bytes]:
    """Inner and outer capsule of a device's package."""
    ephemerals = hashlib.shake_256(b"ephemeral %d" % number).digest(64)
    return seal_both(COUNT_KEY.public_key, MIX_SECRET.mix_key.public_key, label, ephemerals, package(number))


def body(client: int, budget: int = BUDGET) -> bytes:
    """A submission's content."""
    outers = [sealed(100 * client + number)[1] for number in range(budget)]
    in_order: list[bytes] = sorted(outers, key=capsule_digest)
    return b"".join(in_order)


def submission(client: int) -> IncomingSubmission:
    """A submission."""
    return read_submission(Identity(b"client %d" % client), body(client), budget=BUDGET, token_bytes=0)


@dataclass
class Draws:
    """Draws parts as relays do, but for the law: nulls alone. Remembers over which batches."""

    role: str
    seen: set[tuple[bytes, bytes]] = field(default_factory=set)

    def __call__(self, seed: bytes, root: bytes) -> Iterable[bytes]:
        self.seen.add((seed, root))
        key, mix_key = part_key(seed, label=LABEL, root=root, attempt=0), MIX_SECRET.mix_key.public_key
        count_key = X25519PublicKey(COUNT_KEY.public_key.to_bytes())
        for number in range(PACKAGES // PARTS):
            ephemerals, null = seals(key, number, 1), bytes([number]) * 32
            if self.role == "entry":
                yield seal_both(count_key, mix_key, LABEL, ephemerals, null)[1]
            else:
                yield seal_inner(count_key, LABEL, ephemerals[:32], null)


class Killed(BaseException):
    """The process is gone."""


@dataclass
class Fate:
    """Counts the moments at which a process can die with another state of disk or memory; at one of them it does."""

    moment: int = 0
    dies_at: int | None = None
    #: Open files of the process that lives: its end closes them.
    open: list[sqlite3.Connection] = field(default_factory=list)

    def pass_by(self) -> None:
        self.moment += 1
        if self.moment == self.dies_at:
            raise Killed

    def end_process(self) -> None:
        while self.open:
            self.open.pop().close()

    def around(self, do: Callable[..., Any]) -> Callable[..., Any]:
        """The same, and a process can die before it and after it."""

        def done(*arguments: Any, **named: Any) -> Any:
            self.pass_by()
            found = do(*arguments, **named)
            self.pass_by()
            return found

        return done

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        plain, connect = RelayDatabase.transaction, sqlite3.connect

        def connected(*arguments: Any, **named: Any) -> sqlite3.Connection:
            self.open.append(connect(*arguments, **named))
            return self.open[-1]

        monkeypatch.setattr(sqlite3, "connect", connected)

        @contextlib.contextmanager
        def transaction(database: RelayDatabase) -> Iterator[sqlite3.Connection]:
            with plain(database) as db:
                yield db
                # Written, not committed.
                self.pass_by()
            self.pass_by()

        monkeypatch.setattr(RelayDatabase, "transaction", transaction)
        for module, name in (
            (round_custody, "make_secret"),
            (round_custody, "write_secret"),
            (round_custody, "remove_secret"),
            (rounds, "destroy_database"),
        ):
            monkeypatch.setattr(module, name, self.around(getattr(module, name)))
        monkeypatch.setattr(RoundCustody, "keep_leaves", self.around(RoundCustody.keep_leaves))


@dataclass
class Machine:
    """One relay: a disk, a memory, and a process that can die and be started again."""

    folder: Path
    role: str
    #: Of a submission's token.
    token_bytes: int = 0
    draws: Draws = field(init=False)
    keeping: RoundCustody | None = None
    round: Any = None

    def __post_init__(self) -> None:
        self.draws = Draws(self.role)
        for name in ("disk", "memory"):
            (self.folder / name).mkdir(mode=0o700, exist_ok=True, parents=True)

    @property
    def secret(self) -> RoundSecret:
        return ENTRY_SECRET if self.role == "entry" else MIX_SECRET

    def dice(self, count: int) -> bytes:
        return self.secret.secret[:count]

    def token_dice(self, count: int) -> bytes:
        return hashlib.shake_256(b"dice").digest(count)

    def start(self) -> Any:
        """The round, as a new process finds it."""
        if self.round is None:
            disk = self.folder / "disk"
            self.keeping = RoundCustody(RoundLedger(disk / "ledger.db"), RoundSecrets(self.folder / "memory"), disk)
            if self.keeping.ledger.commitment(EXPERIMENT, ROUND) is None:
                self.keeping.secrets.make(EXPERIMENT, ROUND, self.dice)
                self.keeping.ledger.keep_commitment(EXPERIMENT, ROUND, b"commitment of " + self.role.encode())
            if self.role == "entry":
                told = plan(token_bytes=self.token_bytes)
                self.round = EntryRound(told, self.keeping, ENTRY_KEY, self.draws, self.token_dice)
            else:
                self.round = MixRound(
                    plan(),
                    self.keeping,
                    MIX_KEY,
                    self.draws,
                    BulkSealer(),
                    most_capsules=1000,
                )
        return self.round

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.die()

    def die(self) -> None:
        """Without a farewell: whatever was open is closed as the system closes it."""
        if self.round is not None:
            self.round.close()
            self.round = None
        if self.keeping is not None:
            self.keeping.ledger.close()
            self.keeping = None

    def save(self) -> Path:
        """A copy of the disk, between two processes."""
        self.die()
        copy = self.folder.with_name(f"{self.folder.name}-copy")
        shutil.rmtree(copy, ignore_errors=True)
        return Path(shutil.copytree(self.folder / "disk", copy))

    def restore(self, copy: Path) -> None:
        """Put the disk back as it was, and nothing else."""
        self.die()
        shutil.rmtree(self.folder / "disk")
        shutil.copytree(copy, self.folder / "disk")

    def restart(self) -> None:
        """The machine, not only the process: what was in memory is gone."""
        self.die()
        shutil.rmtree(self.folder / "memory")

    def paper(self, name: str) -> bytes | None:
        self.start()
        assert self.keeping is not None
        return self.keeping.ledger.paper(LABEL, name)

    def everything(self) -> bytes:
        """Every byte of disk and memory."""
        files = sorted(file for file in self.folder.rglob("*") if file.is_file())
        return b"".join(file.read_bytes() for file in files)


def entry_count(outers: Iterable[bytes], *, clients: int, key: SigningKey = ENTRY_KEY, **changes: Any) -> bytes:
    """A count over this batch."""
    digests = sorted(map(capsule_digest, outers))
    told = {"label": LABEL, "clients": clients, "received": bytes(32), "capsules": len(digests)}
    return EntryCount(**{**told, "root": capsule_root(digests), **changes}).signed(key)


def mix_count(own: bytes, *, refused: int = 0, key: SigningKey = MIX_KEY, root: bytes = b"m" * 32) -> bytes:
    """A count of the mixing relay that names this count of the entry relay."""
    entry = EntryCount.enclosed(own)
    capsules = entry.capsules - refused + PACKAGES
    count = MixCount(label=LABEL, entry_count=entry.digest, refused=refused, capsules=capsules, root=root)
    return count.signed(key)


def until_nothing(one: BatchRound[Any], now: int) -> list[str]:
    """The steps that are due now."""
    steps = []
    while (step := one.advance(now)) is not None:
        steps.append(step)
    return steps


def handed_to(mix: MixRound, entry: EntryRound, now: int = TIMES.batch_by) -> None:
    """The entry relay's batch, as it travels."""
    assert entry.count is not None
    if 0 not in mix.announce(entry.count, now):
        mix.put(0, entry.piece(0), now)
    mix.complete(entry.count, now)
