"""A service runs until it is told to stop, and then finishes."""

import asyncio
import os
import signal
import sys

import pytest

from secvm.runtime.service import run_service


@pytest.fixture(params=["uvloop", "asyncio"], autouse=True)
def loop_module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name = str(request.param)
    if name == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)
    return name


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_sets_the_event_and_main_finishes(number: signal.Signals, loop_module: str) -> None:
    said: list[str] = []

    async def main(stop: asyncio.Event) -> None:
        said.append(type(asyncio.get_running_loop()).__module__.partition(".")[0])
        os.kill(os.getpid(), number)
        await stop.wait()
        said.append("drained")

    run_service(main)
    assert said == [loop_module, "drained"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_second_interrupt_aborts() -> None:
    said: list[str] = []

    async def main(stop: asyncio.Event) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await stop.wait()
        said.append("draining")
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        run_service(main)
    assert said == ["draining"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_main_that_returns_ends_the_service_and_one_that_fails_fails_it() -> None:
    async def fine(_stop: asyncio.Event) -> None:
        pass

    async def broken(_stop: asyncio.Event) -> None:
        raise RuntimeError("broken")

    run_service(fine)
    with pytest.raises(RuntimeError, match="broken"):
        run_service(broken)
