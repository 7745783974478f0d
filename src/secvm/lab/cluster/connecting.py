"""A connection to a scheduler: made in bounded time or refused in a sentence, and what is asked of it.

dask's own settings hold: for an address tls://… its certificates are those of ``distributed.comm.tls``.
"""

from __future__ import annotations

import ipaddress
import warnings
from typing import Any

from distributed import Client
from distributed.comm.addressing import get_address_host, parse_address
from distributed.versions import VersionMismatchWarning

from secvm.errors import BadInputError, ClusterError
from secvm.lab.cluster.group import other_program
from secvm.lab.cluster.program import difference, this_program

_EXAMPLE = "It looks like tcp://127.0.0.1:8786, or tls://HOST:PORT with dask's settings for certificates."


def connect(address: str, *, within_s: float) -> Client:
    """A client of the scheduler there. It becomes nobody's default."""
    try:
        parse_address(address, strict=True)
        with warnings.catch_warnings():
            # Said in a sentence of our own, by ``check_programs``.
            warnings.simplefilter("ignore", VersionMismatchWarning)
            return Client(address, timeout=within_s, set_as_default=False)
    except OSError:
        raise ClusterError(
            f"no scheduler answers at {address}", next_step="Start one with `dask scheduler`, or correct the address."
        ) from None
    except ImportError as error:
        raise ClusterError(f"the scheduler at {address} is of another version: {_one_line(error)}") from None
    except (ValueError, TypeError, RuntimeError) as error:
        raise BadInputError(
            f"{address} is no scheduler that can be called: {_one_line(error)}", next_step=_EXAMPLE
        ) from None


def _one_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")


def is_exposed(address: str) -> bool:
    """Whether what is said there can be read, and changed, by others of the network."""
    if not address.startswith("tcp://"):
        return False
    host = get_address_host(address)
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
