"""A log with two faces, a witness on real sockets, and a clock that stands where it is put."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from secvm.crypto.merkle import Tree, leaf_hash
from secvm.crypto.notes import NoteKey
from secvm.crypto.signing import SigningKey
from secvm.protocol.log.checkpoints import Checkpoint, SignedCheckpoint, read_checkpoint
from secvm.protocol.log.proofs import CosigningRequest, read_cosignatures
from secvm.runtime.clock import ClockSteering, SteeredClock
from secvm.runtime.settings import read_settings, settings_text
from secvm.witness.decision import CosigningQuestion, KnownLog, read_question
from secvm.witness.main import WitnessService, make
from secvm.witness.settings import WitnessSettings
from secvm.witness.store import WitnessStore
from tests.rigs.clocks import jump
from tests.rigs.services import service_running
from tests.unit.relay.helpers import Answered, ask

LOG_NAME = "coordinator.example/a"
LOG = SigningKey(b"\1" * 32)
OTHER = SigningKey(b"\2" * 32)
#: Other logs that the witness knows.
OTHER_NAMES = [f"coordinator.example/{number}" for number in range(100)]
LOGS = {log.origin: log for log in (KnownLog.of_coordinator(name, LOG.public) for name in (LOG_NAME, *OTHER_NAMES))}
ORIGIN = f"{LOG_NAME}/secvm/v2"
START_S = 1_767_225_600
#: Leaves that the two faces of the log share, and leaves of each.
COMMON, MOST = 5, 14


def another(number: int) -> str:
    """The origin of another log."""
    return f"{OTHER_NAMES[number]}/secvm/v2"


def tree(face: str) -> Tree:
    return Tree(leaf_hash(b"%d" % i if i < COMMON else f"{face}{i}".encode()) for i in range(MOST))


#: Two histories of one log; up to ``COMMON`` leaves they are the same.
FACES = {face: tree(face) for face in "ab"}


def checkpoint(face: str, size: int, origin: str = ORIGIN) -> Checkpoint:
    return Checkpoint(origin, size, FACES[face].root(size))


def request(face: str, old: int, size: int, *, origin: str = ORIGIN, key: SigningKey = LOG) -> bytes:
    """What a log with this face asks a witness."""
    path = FACES[face].consistency_proof(old, size) if old <= size else ()
    return CosigningRequest(old, path, checkpoint(face, size, origin).sign(key)).to_bytes()


def question(face: str, old: int, size: int, *, origin: str = ORIGIN) -> CosigningQuestion:
    found = read_question(request(face, old, size, origin=origin), LOGS)
    assert isinstance(found, CosigningQuestion)
    return found


def are_a_chain(found: Iterable[Checkpoint]) -> bool:
    """Whether one log could have been all of these: then one of the two faces was."""
    each = list(found)
    return any(all(one.root == FACES[face].root(one.size) for one in each) for face in FACES)


@dataclass
class Place:
    """A folder with everything that a witness needs."""

    folder: Path
    steering: ClockSteering = field(init=False)
    key: NoteKey = field(init=False)

    def __post_init__(self) -> None:
        self.steering = ClockSteering(self.folder / "clock", now=1000 * START_S, limit=1000 * START_S)
        self.key = make(self.settings_file())

    def go_to(self, second: int) -> None:
        """Let it be that time."""
        jump(self.steering, 1000 * second)

    def settings_file(self, **changes: Mapping[str, Any]) -> Path:
        tables: dict[str, dict[str, Any]] = {
            "listen": {"port": 0},
            "witness": {"name": "witness.example/w1", "key_file": self.folder / "key"},
            "store": {"path": self.folder / "store.db"},
            "[logs]": {"name": LOG_NAME, "key": LOG.public.data.hex()},
            "limits": {},
            "testing": {"clock": self.folder / "clock"},
        }
        for name, table in changes.items():
            tables[name] |= table
        more = "".join(f'[[logs]]\nname = "{name}"\nkey = "{LOG.public.data.hex()}"\n' for name in OTHER_NAMES)
        path = self.folder / "witness.toml"
        path.write_text(settings_text(tables) + more, encoding="utf-8")
        return path

    def cosigned(self, answer: Answered, asked: bytes) -> SignedCheckpoint:
        """The checkpoint with the witness's line under it, which is good."""
        assert answer.status == 200, answer
        note = CosigningRequest.from_bytes(asked).checkpoint
        origin = note.partition(b"\n")[0].decode()
        signed = read_checkpoint(note, log=NoteKey(origin, LOG.public)).cosigned(*read_cosignatures(answer.body))
        assert list(signed.times([self.key])) == [self.key]
        return signed


@dataclass
class Running:
    """A witness that serves."""

    port: int
    log: io.StringIO
    store: WitnessStore

    async def submit(self, body: bytes) -> Answered:
        return await ask(self.port, "POST", "/add-checkpoint", body)


@asynccontextmanager
async def running(place: Place, **changes: Any) -> AsyncIterator[Running]:
    """A witness, until the block ends; then it has drained."""
    log = io.StringIO()
    settings = read_settings(place.settings_file(**changes), WitnessSettings)
    witness = WitnessService(settings, clock=SteeredClock(place.folder / "clock"), log_to=log)
    async with service_running(witness.run) as (port, _):
        yield Running(port, log, witness._store)
