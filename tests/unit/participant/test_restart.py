"""A device may die at any moment: no scheduled package is lost, and none is ever sent with other content."""

from hypothesis import strategies as st

from secvm.participant.device import Device
from secvm.participant.storage.state import DeviceState, Status
from tests.unit.participant.world import BUDGET, START, Fate, World

#: (what, how long it lasts in milliseconds, or at which moment from now on the device dies)
OPS = st.lists(
    st.one_of(
        st.tuples(st.just("live"), st.integers(0, 60_000)),
        st.tuples(st.sampled_from(["die", "power cut"]), st.integers(0, 40)),
        st.tuples(st.sampled_from(["pause", "resume", "sleep"]), st.integers(0, 30_000)),
    ),
    max_size=8,
)
FATES = st.lists(st.sampled_from([Fate.ARRIVES, Fate.LOST, Fate.ANSWER_LOST, Fate.BUSY]), max_size=20)


class Life:
    """A device that is started again whenever it dies."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.device: Device = world.joined()

    async def live(self, *deaths: tuple[int, bool], until: int) -> None:
        self.device = await self.world.survived(self.device, list(deaths), until=until)

    async def act(self, what: str, number: int) -> None:
        world = self.world
        if what in ("pause", "resume"):
            other = DeviceState(world.folder)
            other.set_status(world.of.digest, Status.PAUSED if what == "pause" else Status.JOINED)
            other.close()
        if what in ("die", "power cut"):
            await self.live((number, what == "power cut"), until=world.clock.now() + 40_000)
            world.points.left = None
        elif what == "sleep":
            world.clock.advance(number)
        else:
            await self.live(until=world.clock.now() + number)


def check_round(world: World, manifest_closes: int) -> None:
    """Whoever joined has sent exactly B distinct capsules, all in the window, and they all arrived; others nothing."""
    distinct = {one.capsule for one in world.net.seen}
    joined = DeviceState(world.folder)
    history = joined.history(world.of.digest)
    joined.close()
    assert len(distinct) == (BUDGET if history else 0)
    assert all(START <= one.at < manifest_closes for one in world.net.seen)
    assert world.net.arrived == distinct
    for one in history:
        assert (one.packages, one.acknowledged, one.lost) == (BUDGET, BUDGET, 0)


def test_overdue_packages_are_drawn_anew_over_what_is_left(world: World, device: Device) -> None:
    manifest = world.publish(1)
    late = manifest.closes_at - 100_000
    world.drive(device, until=manifest.opens_at)
    device.close()
    world.clock.advance(late - world.clock.now())
    world.drive(world.start(), until=manifest.accept_until)
    assert world.distinct() == BUDGET
    times = sorted(one.at for one in world.net.seen)
    assert all(late <= at < manifest.closes_at for at in times)
    # Not in one burst.
    assert len(set(times)) > BUDGET // 2
    assert times[-1] - times[0] > 10_000
