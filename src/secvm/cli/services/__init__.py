"""How a service ends when its store does not answer: with 1, so that a service manager starts it again (deploy/).

Settings and keys are for a person to put right, and end with 2, which the units in deploy/ take for final.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from secvm.cli.output import note
from secvm.errors import StoreError


@contextmanager
def worth_another_start() -> Iterator[None]:
    """Run a service in this."""
    try:
        yield
    except StoreError as fault:
        note(f"secvm: {fault}" + (f"\n{fault.next_step}" if fault.next_step else ""))
        raise typer.Exit(1) from None
