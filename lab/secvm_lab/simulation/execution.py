"""Operations, carried out: what each of them does to a world (``operations`` says which there are)."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from secvm.participant.storage.state import Status
from secvm.runtime.http.server import HttpRequest
from secvm_lab.simulation.machines.lives import KilledError
from secvm_lab.simulation.operations import Op
from secvm_lab.simulation.parties.nodes import SimulatedNode
from secvm_lab.simulation.question import DEPOSIT_AFTER_S, GRACE_S, GRID, LENGTH_S
from secvm_lab.simulation.world import World

#: Instants of a slot, in milliseconds from its beginning.
_INSTANTS = {
    "before opening": -200,
    "open": 200,
    "before closing": 1000 * LENGTH_S - 200,
    "closed": 1000 * LENGTH_S + 200,
    "deposit": 1000 * DEPOSIT_AFTER_S - 10,
    "before end": 1000 * (LENGTH_S + GRACE_S) - 10,
    "over": 1000 * (LENGTH_S + GRACE_S) + 10,
    "next slot": 1000 * GRID.period_s,
}
#: An upload that does not come is not waited for longer than this.
_PATIENCE_S = 70.0


class Happenings:
    """Operations, by name."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.done = world.done

    async def do(self, op: Op) -> None:
        """One of them. What it starts goes on while others come."""
        name, *given = op
        self.done[f"op {name}"] += 1
        # Somebody may die of what was asked of it; that is noted elsewhere.
        with contextlib.suppress(KilledError):
            await getattr(self, str(name).replace(" ", "_"))(*given)
        # Everybody who was told something has a turn.
        await asyncio.sleep(0)

    # ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def wait(self, seconds: int) -> None:
        await asyncio.sleep(seconds)

    async def until(self, phase: str) -> None:
        """The next such instant of a slot."""
        now, after = self.world.clocks["database"].true_now(), _INSTANTS[phase]
        slot = GRID.slot_of(now) - 1
        while GRID.start(slot) + after <= now:
            slot += 1
        await asyncio.sleep((GRID.start(slot) + after - now) / 1000)

    async def upload(self, count: int) -> None:
        """Until so many packages more have left devices."""
        wanted, waited = self.done["sent"] + count, 0.0
        while self.done["sent"] < wanted and waited < _PATIENCE_S:
            await asyncio.sleep(0.5)
            waited += 0.5

    # ── people ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def join(self, name: str) -> None:
        world = self.world
        self.done["joined"] += world.device(name).join(world.document, world.envelope)

    async def leave(self, name: str) -> None:
        self.done["left"] += self.world.device(name).leave(self.world.document)

    async def pause(self, name: str) -> None:
        self.done["paused"] += self.world.device(name).set_status(self.world.document, Status.PAUSED)

    async def resume(self, name: str) -> None:
        self.done["resumed"] += self.world.device(name).set_status(self.world.document, Status.JOINED)

    async def resend(self, which: int) -> None:
        """One of the newest capsules on the wire once more, byte for byte, from whose it was."""
        wire = self.world.wire
        if wire:
            newest = wire[list(wire)[-1]]
            self._send(*newest[-1 - which % len(newest)])
            self.done["resent"] += 1

    async def replay(self, which: int) -> None:
        """Somebody else sends what somebody sent before, perhaps in a round before."""
        wire = self.world.wire
        if wire:
            oldest = wire[next(iter(wire))]
            self._send("somebody", oldest[which % len(oldest)][1])
            self.done["replayed"] += 1

    def _send(self, who: str, capsule: bytes) -> None:
        direct = self.world.relay is None
        headers = {"content-type": "message/ohttp-req", "secvm-credential": who}
        request = HttpRequest("POST", "/v1/capsule" if direct else "/r", "", headers, capsule, "127.0.0.1")
        answering = self.world.network.deliver(request, "coordinator" if direct else "relay")
        # Nobody waits for the answer.
        answering.add_done_callback(lambda done: done.cancelled() or done.exception())

    # ── faults ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def fate(self, link: str, fate: str) -> None:
        self.world.network.strike(link, fate)

    async def crash(self, name: str, points: int, gone_s: int) -> None:
        """Now, or at a point of what it does next."""
        party = self.world.parties.get(name)
        if party is None or party.life.dead:
            return
        self.world.gone[name] = gone_s
        if points:
            party.life.left = points
        else:
            party.life.kill()

    async def stall(self, name: str, seconds: int) -> None:
        """It stands still for so long, as if stopped, and goes on."""
        party = self.world.parties.get(name)
        if party is not None and not party.life.dead and party.life.stalled is None:
            life = party.life
            life.stall()
            self.done["stalled"] += 1
            asyncio.get_running_loop().call_later(seconds, life.go_on)

    async def fail_over(self, points: int) -> None:
        """Somebody else leads, right before a change that the driver is about to make."""
        if points:
            self.world.database.thief = points
        else:
            self.world.database.take_over()

    async def full(self, name: str, seconds: int) -> None:
        disk = self._disk(name)
        if disk is not None:
            disk.full = True
            asyncio.get_running_loop().call_later(seconds, setattr, disk, "full", False)

    async def fsync(self, name: str, happened: bool) -> None:
        disk = self._disk(name)
        if disk is not None:
            disk.failing.append(happened)

    def _disk(self, name: str) -> Any:
        if name == "database":
            return self.world.database
        party: Any = self.world.parties.get(name)
        found: Any = None if party is None else party.disk
        return found

    async def jump(self, name: str, seconds: int) -> None:
        clock = self.world.clocks[name]
        clock.jump(1000 * seconds)
        self.done["jumped"] += 1

    async def operate(self, name: str, action: str) -> None:
        node = self.world.nodes[int(name[-1])]
        if not node.life.dead and node.life.stalled is None:
            await self._operate(node, action)

    # ── the end of all faults ────────────────────────────────────────────────────────────────────────────────────────

    async def heal(self) -> None:
        """From now on everything works: whoever is gone comes back, clocks are right, people go on."""
        world = self.world
        world.network.heal()
        world.database.thief = 0
        for disk in [self._disk(name) for name in ("database", *world.parties) if not name.startswith("node")]:
            disk.full = False
            disk.failing.clear()
        for party in world.parties.values():
            party.life.left = 0
            party.life.go_on()
            party.start()
        for clock in world.clocks.values():
            if clock.ahead_ms:
                clock.jump(-clock.ahead_ms)
        await asyncio.sleep(0)
        for device in world.devices:
            if device.device is not None and not device.distrusts(world.document):
                device.set_status(world.document, Status.JOINED)
        for node in world.nodes:
            if not node.life.dead:
                await self._operate(node, "resume")
                break

    async def _operate(self, node: SimulatedNode, action: str) -> None:
        # In the node's name, and without an answer where it dies of it.
        asked = node.life.spawn(node.operate(action, self.world.document.digest))
        await asyncio.wait([asked], timeout=5)
        if asked.done() and not asked.cancelled() and asked.exception() is None:
            self.done[f"operator {action}"] += asked.result() == 200
