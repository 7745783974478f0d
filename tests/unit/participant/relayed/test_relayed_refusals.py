"""A relay that does not answer: three refusals, then silence until the next round."""

from __future__ import annotations

from itertools import repeat
from typing import NoReturn

import pytest

from secvm.errors import UnreachableError
from secvm.participant.device import Device
from secvm.participant.sending.transport import NotNowError, SendReply
from secvm.protocol.documents.experiment import Relay
from secvm.protocol.plain.session_memory import Phase
from tests.unit.participant.relayed.relayed_world import RelayedWorld
from tests.unit.participant.relayed.test_relayed_tokens import TokenWorld
from tests.unit.participant.world import Fate

#: In which the tests here live.
WORLD = RelayedWorld
SILENCE = "the entry relay entry.example has not answered three times, so it is left alone until the next round"


def told(world: RelayedWorld, device: Device) -> list[str]:
    device.flush()
    return [sentence for _, _, sentence in world.state.abstentions(world.of.digest)]


def test_three_refusals_of_a_request_then_silence_until_the_next_round(world: RelayedWorld, device: Device) -> None:
    world.net.script = repeat(Fate.UNREACHABLE)
    for number in (1, 2):
        world.play_round(device)
        assert len(world.net.requests) == 3 * number
        assert world.member.session.phase is Phase.IDLE
    assert told(world, device) == [SILENCE, SILENCE]
    assert world.member.distrust is None
    world.net.script = iter([])
    world.play_round(device)
    assert [one.acknowledged for one in world.member.rounds.values()] == [0, 0, world.of.budget]


def test_an_answer_ends_the_counting_whatever_it_says(world: RelayedWorld, device: Device) -> None:
    world.net.script = iter([*[Fate.UNREACHABLE] * 2, Fate.BUSY] * 2)
    world.play_round(device)
    assert len(world.net.requests) == 7
    assert [one.acknowledged for one in world.member.rounds.values()] == [world.of.budget]


def test_attempts_are_spread_over_what_is_left_of_the_window(world: RelayedWorld, device: Device) -> None:
    world.net.script = repeat(Fate.UNREACHABLE)
    for _ in range(5):
        world.play_round(device)
    at = [request.at for request in world.net.requests]
    # A relay that is started anew is there again by then.
    assert max(last - first for first, last in zip(at[::3], at[2::3], strict=True)) > 60_000


@pytest.mark.parametrize(("fault", "most"), [(UnreachableError, 3), (NotNowError, None)])
def test_a_relay_that_is_asked_for_its_terms_in_vain_is_left_alone(
    world: RelayedWorld,
    device: Device,
    monkeypatch: pytest.MonkeyPatch,
    fault: type[UnreachableError],
    most: int | None,
) -> None:
    asked = []

    async def away(relay: Relay) -> NoReturn:
        asked.append(relay)
        raise fault("the entry relay does not answer")

    monkeypatch.setattr(world.net, "relayed_terms", away)
    world.play_round(device)
    assert not world.net.requests
    assert (SILENCE in told(world, device)) == (most == 3)
    assert len(asked) == most if most else len(asked) > 3


def test_a_relay_that_is_asked_for_a_token_in_vain_is_left_alone(tmp_path_factory: pytest.TempPathFactory) -> None:
    world = TokenWorld(tmp_path_factory.mktemp("tokens"))
    world.answers = [SendReply(answered=False)] * 9
    device = world.joined()
    world.play_round(device)
    assert len(world.asked) == 3
    assert told(world, device) == [SILENCE]
    world.close()
