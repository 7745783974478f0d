"""Waiting for whatever comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any


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
