"""A service runs until it is told to stop, and then finishes."""

import asyncio
import io
import json
import logging
import os
import signal
import sys

import pytest

from secvm.errors import BadInputError
from secvm.runtime.logs import SILENT, Log
from secvm.runtime.service import run_service
from secvm.testing.clock import ManualClock


@pytest.fixture(params=["uvloop", "asyncio"], autouse=True)
def loop_module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name = str(request.param)
    if name == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)
    return name


@pytest.mark.parametrize(("number", "reason"), [(signal.SIGTERM, "terminated"), (signal.SIGINT, "interrupted")])
def test_a_signal_is_told_sets_the_event_and_main_finishes(
    number: signal.Signals, reason: str, loop_module: str
) -> None:
    said: list[str] = []
    stream = io.StringIO()

    async def main(stop: asyncio.Event) -> None:
        said.append(type(asyncio.get_running_loop()).__module__.partition(".")[0])
        os.kill(os.getpid(), number)
        await stop.wait()
        said.append("drained")

    run_service(main, log=Log(stream, ManualClock(0), "relay"))
    assert said == [loop_module, "drained"]
    told = json.loads(stream.getvalue())
    assert (told["event"], told["reason"]) == ("stopping", reason)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_service_says_nothing_of_compiling_beside_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SECVM_QUIET")
    said: list[str | None] = []

    async def main(_stop: asyncio.Event) -> None:
        said.append(os.environ.get("SECVM_QUIET"))

    run_service(main, log=SILENT)
    assert said == ["1"]


def test_a_second_interrupt_aborts() -> None:
    said: list[str] = []

    async def main(stop: asyncio.Event) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await stop.wait()
        said.append("draining")
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        run_service(main, log=SILENT)
    assert said == ["draining"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_fault_that_nobody_caught_is_told_by_its_kind_alone(capfd: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()

    def fault() -> None:
        raise KeyError("secret")

    async def main(_stop: asyncio.Event) -> None:
        asyncio.get_running_loop().call_soon(fault)
        logging.getLogger("library").error("secret")
        await asyncio.sleep(0)

    run_service(main, log=Log(stream, ManualClock(0), "relay"))
    line = {"time": "1970-01-01T00:00:00Z", "party": "relay", "event": "loop-fault", "error": "key-error"}
    assert json.loads(stream.getvalue()) == line
    assert "secret" not in "".join(capfd.readouterr())


def test_a_main_that_fails_is_told_of_by_kind_and_place_without_its_message(capfd: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()

    async def main(_stop: asyncio.Event) -> None:
        raise LookupError("secret")

    with pytest.raises(SystemExit) as ended:
        run_service(main, log=Log(stream, ManualClock(0), "relay"))
    assert ended.value.code == 1
    *places, last = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (last["event"], last["error"]) == ("fault", "lookup-error")
    assert {place["event"] for place in places} == {"fault-at"}
    assert places[-1]["module"].endswith("test-service")
    assert places[-1]["line"] == main.__code__.co_firstlineno + 1
    assert "secret" not in stream.getvalue() + "".join(capfd.readouterr())


def test_an_error_of_ours_is_raised_as_it_is() -> None:
    async def main(_stop: asyncio.Event) -> None:
        raise BadInputError("a sentence")

    with pytest.raises(BadInputError, match="a sentence"):
        run_service(main, log=Log(io.StringIO(), ManualClock(0), "relay"))
