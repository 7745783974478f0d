"""``Simulation``: a whole federation in one process, and a list of operations that happen to it.

    Simulation(way="round", rounds=2, seed=7).play([("until", "open"), ("crash", "relay", 3, 8), ("upload", 3)])

Everything inside is real, see the package. ``play`` returns what happened, or raises ``SimulationError`` with what is
wrong and with a test to paste. The same arguments and the same list come to the same end.

A test to paste: what was played, and what was wrong with it.

The shortest list that still goes wrong: operations are left out, as many as can be.
"""

from __future__ import annotations

import asyncio
import gc
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from secvm.errors import LocalProtocolError
from secvm_lab.simulation.checks import check_end, check_now, is_over, what_is_left
from secvm_lab.simulation.execution import Happenings
from secvm_lab.simulation.machines.loop import VirtualLoop
from secvm_lab.simulation.memoised import remembering
from secvm_lab.simulation.operations import Op
from secvm_lab.simulation.world import Parts, World


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

    def __init__(self, *, way: str = "round", rounds: int = 1, seed: int = 0, parts: type[Parts] = Parts) -> None:
        """``way``: how packages travel (``question.WAYS``). ``parts``: other parties than the honest ones."""
        self._told = {"way": way, "rounds": rounds, "seed": seed}
        self._parts = parts

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
        world = World(**self._told, parts=self._parts)  # type: ignore[arg-type]
        happenings = Happenings(world)
        try:
            for op in ops:
                await happenings.do(op)
                _raise(check_now(world))
            await happenings.heal()
            _raise(check_now(world))
            waited = 0.0
            while not is_over(world):
                if waited > _ENDING_S:
                    _raise([f"this goes on for ever: {what_is_left(world)}"])
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
