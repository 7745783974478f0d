"""The life of a service: it runs until it is told to stop, then finishes what it has begun.

``main`` is given an event. SIGTERM or SIGINT sets it, whereupon ``main`` drains and returns. A second SIGINT cancels
``main``; a third ends the process as if nobody had asked to be told.

With a log, faults that nobody caught are told there by their kind and by the lines of code they came through. Otherwise
Python would write them to stderr with their messages, and a message may hold anything.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import re
import signal
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

from secvm.errors import SecVMError
from secvm.runtime.logs import Log


def run_service(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]], *, log: Log | None = None) -> None:
    """Run ``main`` until it returns, on uvloop where that is installed. Only from a process's main thread.

    Raises
    ------
    KeyboardInterrupt
        When it was interrupted twice.
    SystemExit
        With a log, when ``main`` failed and the log says how. Errors of ours are raised as they are.
    """
    # Python's last resort prints the warnings of every library, unless somebody listens.
    silence = logging.NullHandler()
    if log is not None:
        logging.getLogger().addHandler(silence)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            if log is not None:
                runner.get_loop().set_exception_handler(_teller(log))
            interrupted = runner.run(_watched(main))
    except SecVMError:
        raise
    except Exception as fault:
        if log is None:
            raise
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


async def _watched(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> bool:
    """Whether ``main`` was cancelled because somebody had no more patience."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    task = loop.create_task(main(stop))
    interrupts = 0

    def on_interrupt() -> None:
        nonlocal interrupts
        interrupts += 1
        if stop.is_set() and interrupts > 1:
            task.cancel()
            # A main that does not let itself be cancelled is left to the system.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        stop.set()

    loop.add_signal_handler(signal.SIGTERM, stop.set)
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
