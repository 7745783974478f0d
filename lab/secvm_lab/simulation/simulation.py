"""``Simulation``: a whole federation in one process, and a list of operations that happen to it.

    Simulation(way="round", rounds=2, seed=7).play([("until", "open"), ("crash", "relay", 3, 8), ("upload", 3)])

Everything inside is real, see the package. ``play`` returns what happened, or raises ``SimulationError`` with what is
wrong and with a test to paste: the shortest list that still goes wrong, operations being left out, as many as can be.
The same arguments and the same list come to the same end.

While simulations are played, what was signed, verified or read once is remembered. Thousands of lists begin alike: the
same keys sign the same bytes, the same documents are read. Ed25519 gives equal signatures for equal bytes, a signature
that fits once fits always, and documents never change; so what is remembered is no other answer, only a quicker one.
What does **not** fit is not remembered: it is looked at each time.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any
from unittest import mock

from secvm.coordinator.intake import running as present
from secvm.coordinator.store import memory, rules
from secvm.crypto import notes, signing
from secvm.crypto.sealing import kem
from secvm.errors import LocalProtocolError
from secvm.participant.consent.policies import Consent, Statement
from secvm.protocol.documents.ending import Ending
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.log.policy import LogTerms
from secvm_lab.simulation.checks import check_end, check_now, what_is_left
from secvm_lab.simulation.execution import Happenings
from secvm_lab.simulation.machines.loop import VirtualLoop
from secvm_lab.simulation.operations import Op
from secvm_lab.simulation.world import World

_MOST = 2**14
_SHARDS = 2
_CHECK, _SIGN = signing.VerifyKey.check, signing.SigningKey.sign
_STATEMENT = Consent.statement


@lru_cache(maxsize=_MOST)
def _checked(key: signing.VerifyKey, signature: bytes, message: bytes) -> None:
    _CHECK(key, signature, message)


@lru_cache(maxsize=_MOST)
def _signed(key: signing.SigningKey, message: bytes) -> bytes:
    return _SIGN(key, message)


@lru_cache(maxsize=64)
def _statement(consent: Consent, document: ExperimentDocument) -> Statement:
    return _STATEMENT(consent, document)


#: What is remembered, by where it stands.
_REMEMBERED: tuple[tuple[Any, str, Any], ...] = (
    (signing.VerifyKey, "check", _checked),
    (signing.SigningKey, "sign", _signed),
    (kem, "_x25519_public", lru_cache(maxsize=_MOST)(kem._x25519_public)),  # noqa: SLF001  (a function of the bytes)
    (present, "gateway_key", lru_cache(maxsize=_MOST)(present.gateway_key)),
    (ExperimentDocument, "from_bytes", lru_cache(maxsize=64)(ExperimentDocument.from_bytes)),
    (RoundManifest, "from_bytes", lru_cache(maxsize=_MOST)(RoundManifest.from_bytes)),
    (Ending, "from_bytes", lru_cache(maxsize=_MOST)(Ending.from_bytes)),
    (LogTerms, "witness_keys", property(lru_cache(maxsize=8)(LogTerms.witness_keys.fget))),  # type: ignore[attr-defined]
    (notes.Note, "from_bytes", lru_cache(maxsize=_MOST)(notes.Note.from_bytes)),
    (Consent, "statement", _statement),
    # An epoch of ten packages needs no sixteen shards.
    (memory, "SHARDS", _SHARDS),
    (rules, "SHARDS", _SHARDS),
)


@contextlib.contextmanager
def remembering() -> Iterator[None]:
    """Inside of this block everything is remembered; what was remembered before is still known."""
    with contextlib.ExitStack() as held:
        for place, name, instead in _REMEMBERED:
            held.enter_context(mock.patch.object(place, name, instead))
        yield


def shrink(ops: Sequence[Op], fails: Callable[[Sequence[Op]], bool]) -> list[Op]:
    """Leave out what can be left out, large pieces first. ``fails`` plays a list, and says whether it still goes wrong.

    What is left goes wrong, and nothing of it can be left out alone.
    """
    left = list(ops)
    size = max(1, len(left) // 2)
    while size:
        at = 0
        while at < len(left):
            shorter = left[:at] + left[at + size :]
            if fails(shorter):
                left = shorter
            else:
                at += size
        size //= 2
    return left


def as_test(told: Mapping[str, object], ops: Sequence[Op], fault: str) -> str:
    """Python that plays the same again."""
    first = fault.partition("\n")[0]
    name = "_".join(re.findall(r"[a-z]+", first.lower())[:9]) or "what_happened"
    arguments = ", ".join(f"{key}={value!r}" for key, value in told.items())
    lines = "".join(f"        {op!r},\n" for op in ops)
    return (
        "from secvm_lab.simulation import Simulation\n\n\n"
        f"def test_repro_{name}() -> None:\n"
        f"    # {first}\n"
        f"    Simulation({arguments}).play([\n{lines}    ])\n"
    )


#: When all faults are over: so long may it take until everything has ended, in steps of so much. A clock that was
#: wrong may have put a round off by some slots.
_ENDING_S, _STEP_S = 3600.0, 30.0


class SimulationError(AssertionError):
    """Something is wrong that must never be."""

    @property
    def sentence(self) -> str:
        """What it is, without the test to paste."""
        return str(self).partition("\n")[0]


class Simulation:
    """A federation, and what happens to it."""

    def __init__(self, *, way: str = "round", rounds: int = 1, seed: int = 0) -> None:
        """``way``: how packages travel (``question.WAYS``)."""
        self._told = {"way": way, "rounds": rounds, "seed": seed}

    def play(self, ops: Sequence[Op]) -> Counter[str]:
        """Let all of it happen, then let everything come to its end; how often what has happened."""
        loop = VirtualLoop()
        # What a list leaves behind is looked through once, afterwards, and not hundreds of times meanwhile.
        collects = gc.isenabled()
        gc.disable()
        try:
            with remembering():
                return loop.play(self._play(ops))
        except SimulationError as fault:
            raise SimulationError(f"{fault}\n\n{as_test(self._told, ops, str(fault))}") from None
        finally:
            loop.close()
            if collects:
                gc.enable()

    def shortest(self, ops: Sequence[Op]) -> SimulationError:
        """What is wrong with a list that goes wrong, with as few operations as it takes."""
        found = self._fault(ops)
        if found is None:
            raise LocalProtocolError("this list goes well")
        wanted = _kind(found)

        def fails(shorter: Sequence[Op]) -> bool:
            fault = self._fault(shorter)
            return fault is not None and _kind(fault) == wanted

        return self._fault(shrink(ops, fails)) or found

    def _fault(self, ops: Sequence[Op]) -> SimulationError | None:
        try:
            self.play(ops)
        except SimulationError as fault:
            return fault
        return None

    async def _play(self, ops: Sequence[Op]) -> Counter[str]:
        world = World(**self._told)  # type: ignore[arg-type]
        happenings = Happenings(world)
        try:
            for op in ops:
                await happenings.do(op)
                _raise(check_now(world))
            await happenings.heal()
            _raise(check_now(world))
            waited = 0.0
            while left := what_is_left(world):
                if waited > _ENDING_S:
                    _raise([f"this goes on for ever: {left}"])
                await asyncio.sleep(_STEP_S)
                waited += _STEP_S
                _raise(check_now(world))
            _raise(check_end(world))
            return world.all_done()
        except asyncio.CancelledError:
            raise SimulationError("time stands still: somebody runs in circles, or waits for nothing") from None
        finally:
            await world.close()


def _kind(fault: SimulationError) -> str:
    """What went wrong, whichever round or device it was."""
    return re.sub(r"[0-9]+", "", fault.sentence)[:40]


def _raise(wrong: list[str]) -> None:
    if wrong:
        raise SimulationError("; ".join(wrong[:3]))
