"""A connection to a scheduler: made in bounded time or refused in a sentence, and what is asked of it.

dask's own settings hold: for an address tls://… its certificates are those of ``distributed.comm.tls``.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from distributed import Client, Security
from distributed.comm import connect as open_connection
from distributed.comm import get_address_host, parse_address
from distributed.versions import VersionMismatchWarning

from secvm.errors import BadInputError, ClusterError
from secvm_lab.cluster.group import difference, other_program, this_program

_EXAMPLE = "It looks like tcp://127.0.0.1:8786, or tls://HOST:PORT with dask's settings for certificates."


def connect(address: str, *, within_s: float) -> Client:
    """A client of the scheduler there. It becomes nobody's default."""
    address = address if "://" in address else f"tcp://{address}"
    try:
        parse_address(address, strict=True)
        # In a thread of its own: the caller's may have a loop already.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, _knock(address, within_s)).result()
        # What becomes of the connection is told by our own errors; dask would add pages of tracebacks.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        with warnings.catch_warnings():
            # Said in a sentence of our own, by ``check_programs``.
            warnings.simplefilter("ignore", VersionMismatchWarning)
            return Client(address, timeout=within_s, set_as_default=False)
    except (OSError, MemoryError):  # a server of another kind may seem to announce any number of bytes
        raise ClusterError(
            f"no scheduler answers at {address}", next_step="Start one with `dask scheduler`, or correct the address."
        ) from None
    except ImportError as error:
        raise ClusterError(f"the scheduler at {address} is of another version: {_one_line(error)}") from None
    except (ValueError, TypeError, RuntimeError) as error:
        raise BadInputError(
            f"{address} is no scheduler that can be called: {_one_line(error)}", next_step=_EXAMPLE
        ) from None


async def _knock(address: str, within_s: float) -> None:
    """See that a scheduler is there: of anything else a client would wait for the first word without end."""
    async with asyncio.timeout(within_s):
        connection = await open_connection(address, **Security().get_connection_args("client"))
        try:
            await connection.write({"op": "identity", "reply": True})
            answer = await connection.read()
        finally:
            connection.abort()
    if answer.get("type") != "Scheduler":
        raise ValueError("something else listens there")


def _one_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")


def is_exposed(address: str) -> bool:
    """Whether what is said there can be read, and changed, by others of the network."""
    if not address.startswith("tcp://"):
        return False
    host: str = get_address_host(address)
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"


def count_slots(client: Client, *, within_s: float) -> int:
    """Tasks that its workers can do at once; 0 where there is none."""
    try:
        return sum(client.sync(client.scheduler.ncores, callback_timeout=within_s).values())
    except OSError:
        raise lost(client) from None


def disconnect(client: Client) -> None:
    """Close a client of our own, also one whose scheduler is gone."""
    try:
        client.close()
    except Exception:  # noqa: BLE001  (what its background tasks died of, when they had no scheduler any more)
        # Or it would try again when it is collected, and wait for an answer.
        client.status = "closed"


def lost(client: Client) -> ClusterError:
    """The scheduler is gone."""
    return ClusterError(
        f"the scheduler at {client.scheduler.address} does not answer any more",
        next_step="Results that came before are good. Start it again, and run this again for the others.",
    )


def check_programs(client: Client) -> None:
    """Refuse machines that run something else; those that come later are checked with their first group."""
    here = this_program()
    try:
        there: dict[str, Any] = {"the scheduler": client.run_on_scheduler(this_program)}
    except ImportError as error:
        raise other_program("the scheduler", f"cannot take part: {_one_line(error)}") from None
    workers = client.run(this_program, on_error="return")
    there |= {f"worker {address}": found for address, found in workers.items()}
    for who, found in there.items():
        if isinstance(found, dict):
            if (what := difference(found, here)) is not None:
                raise other_program(who, what)
        elif not isinstance(found, OSError):  # who has gone meanwhile is nobody's fault
            raise other_program(who, f"cannot take part: {_one_line(found)}")
