"""The life of a service: it runs until it is told to stop, then finishes what it has begun.

``main`` is given an event. SIGTERM or SIGINT sets it, which the log tells, whereupon ``main`` drains and returns. A
second SIGINT cancels ``main``; a third ends the process as if nobody had asked to be told.

Faults that nobody caught are told in its log by their kind and by the lines of code they came through. Otherwise
Python would write them to stderr with their messages, and a message may hold anything.

Below it are its tasks: waiting for whatever comes first, for the end of listening, and for work in an event loop of its
own. What waits for a database over the network, and knows no other way than to block meanwhile, must not hold up those
who only want to be answered. ``in_own_loop`` runs it beside them and ends it with them: whoever is cancelled cancels
it, and goes on when it has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import re
import signal
import threading
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from secvm.errors import SecVMError
from secvm.runtime.logs import Log


def run_service(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]], *, log: Log) -> None:
    """Run ``main`` until it returns, on uvloop where that is installed. Only from a process's main thread.

    Raises
    ------
    KeyboardInterrupt
        When it was interrupted twice.
    SystemExit
        When ``main`` failed and the log says how. Errors of ours are raised as they are.
    """
    # Where a service logs, every line is one of its log: nothing is said there of compiling.
    os.environ["SECVM_QUIET"] = "1"
    # Python's last resort prints the warnings of every library, unless somebody listens.
    silence = logging.NullHandler()
    logging.getLogger().addHandler(silence)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.get_loop().set_exception_handler(_teller(log))
            interrupted = runner.run(_watched(main, log))
    except SecVMError:
        raise
    except Exception as fault:  # noqa: BLE001  (whatever it was: it is told, and the process ends)
        _tell_fault(log, fault)
        raise SystemExit(1) from None
    finally:
        logging.getLogger().removeHandler(silence)
    if interrupted:
        raise KeyboardInterrupt


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        # By name, because a device runs services too, and installs no uvloop.
        factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        return None
    return factory


def _teller(log: Log) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]:
    def tell(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        fault = context.get("exception")
        log.tell("loop-fault", error="none" if fault is None else _kind(fault))

    return tell


def _kind(fault: BaseException) -> str:
    # A class is code, what it says is not: KeyError → key-error.
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(fault).__name__).lower()


def _tell_fault(log: Log, fault: BaseException) -> None:
    """What a traceback says, but for the message."""
    for frame, line in traceback.walk_tb(fault.__traceback__):
        name = str(frame.f_globals.get("__name__", "unknown"))
        log.tell("fault-at", module=re.sub(r"[^a-z0-9]+", "-", name.lower())[-40:], line=line)
    log.tell("fault", error=_kind(fault))


async def _watched(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]], log: Log) -> bool:
    """Whether ``main`` was cancelled because somebody had no more patience."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    task = loop.create_task(main(stop))
    interrupts = 0

    def on_end(reason: str) -> None:
        if not stop.is_set():
            # It may take a while until all is ended: whoever asked sees that it was heard.
            log.tell("stopping", reason=reason)
        stop.set()

    def on_interrupt() -> None:
        nonlocal interrupts
        interrupts += 1
        if stop.is_set() and interrupts > 1:
            task.cancel()
            # A main that does not let itself be cancelled is left to the system.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        on_end("interrupted")

    loop.add_signal_handler(signal.SIGTERM, on_end, "terminated")
    loop.add_signal_handler(signal.SIGINT, on_interrupt)
    try:
        await task
    except asyncio.CancelledError:
        if interrupts > 1:
            return True
        raise
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        loop.remove_signal_handler(signal.SIGINT)
    return False


async def any_of(*waits: Awaitable[Any]) -> None:
    """Return when the first is done, however it went, and end the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end_all(*tasks)


async def end_all(*tasks: asyncio.Future[Any]) -> None:
    """Cancel what is not done, and return when all is; nobody hears how it ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def stop_listening(server: asyncio.Server) -> None:
    """Close a server so that connections which were accepted just now still get their transport.

    Until Python 3.12, asyncio's server refuses a connection that it accepted in the loop's last turn and is to be given
    its transport in the next, after the server was closed: an assertion fails where nobody hears it, and the socket
    stays open. So nothing more is accepted first, then what was accepted has a turn for its transport and one in which
    its protocol hears of it, then the server is closed.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    for _ in range(2):
        await asyncio.sleep(0)
    server.close()


#: How long to wait before somebody is told once more to end.
_AGAIN_S = 1.0


async def in_own_loop(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]], ending: asyncio.Event) -> None:
    """Run ``main`` until it returns; its own event is set when ``ending`` is. What it raises is raised here."""
    outside = asyncio.get_running_loop()
    begun: asyncio.Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any], asyncio.Event]] = outside.create_future()
    ended: asyncio.Future[BaseException | None] = outside.create_future()

    async def inside() -> None:
        stop, task = asyncio.Event(), asyncio.current_task()
        assert task is not None
        outside.call_soon_threadsafe(begun.set_result, (asyncio.get_running_loop(), task, stop))
        await main(stop)

    def work() -> None:
        fault: BaseException | None = None
        try:
            asyncio.run(inside())
        except BaseException as error:  # noqa: BLE001  (raised outside, whatever it is)
            fault = error
        outside.call_soon_threadsafe(ended.set_result, fault)

    thread = threading.Thread(target=work, name="own-loop", daemon=True)
    thread.start()

    def tell(act: Callable[[asyncio.Task[Any], asyncio.Event], object]) -> None:
        if begun.done() and not ended.done():
            loop, task, stop = begun.result()
            # It may end by itself this instant.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(act, task, stop)

    def pass_on(_: asyncio.Future[Any]) -> None:
        if ending.is_set():
            tell(lambda _task, stop: stop.set())

    passing = asyncio.ensure_future(ending.wait())
    passing.add_done_callback(pass_on)
    begun.add_done_callback(pass_on)
    try:
        fault = await asyncio.shield(ended)
    except asyncio.CancelledError:
        # It may not even have begun; whoever goes on before it has ended would have two of it.
        cancelled = asyncio.ensure_future(_until_ended(ended, lambda: tell(lambda task, _stop: task.cancel())))
        await asyncio.shield(cancelled)
        raise
    finally:
        passing.cancel()
    if fault is not None:
        raise fault


async def _until_ended(ended: asyncio.Future[Any], again: Callable[[], None]) -> None:
    while not ended.done():
        again()
        await asyncio.wait({ended}, timeout=_AGAIN_S)
