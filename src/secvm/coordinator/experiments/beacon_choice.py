"""Which rounds of which beacons will fix a new experiment's salt.

Named one by one, or by a delay: then the first round of drand that comes after it, and the pulse of NIST's second
chain. drand's rounds have a number for every instant. NIST's do not quite: a pulse's number is counted on from the
newest one, one a minute, which somebody has to fetch. All must lie in the future; how far is the operator's choice, but
the log's witnesses must have seen the experiment before the first of them.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import pydantic

from secvm.crypto.beacons.sources import DRAND_CHAINS, MAX_BEACONS, MAX_ROUND, is_unsafe, round_time
from secvm.errors import BadBeaconError, BadExperimentError
from secvm.protocol.documents.experiment import Beacon
from secvm.runtime.settings import Settings

#: Of NIST's chains.
NIST_CHAIN = 2
DRAND, NIST = "drand-quicknet", f"nist-2.0-chain-{NIST_CHAIN}"
_PULSE_MS = 60_000


class BeaconPart(Settings):
    """One round of a beacon."""

    chain: str
    round: Annotated[int, pydantic.Field(ge=1, le=MAX_ROUND)]


class NewestPulse(NamedTuple):
    """The newest pulse of NIST's second chain."""

    number: int
    #: In milliseconds.
    at: int


def choose_beacons(
    named: tuple[BeaconPart, ...], delay_s: int | None, *, now: int, newest: NewestPulse | None, test: bool
) -> tuple[Beacon, ...]:
    """The rounds that will fix the salt.

    Raises
    ------
    BadExperimentError
        One sentence about what does not fit.
    """
    if named and delay_s is not None:
        raise BadExperimentError("give binning.beacons or binning.beacon_delay_s, not both")
    if delay_s is None:
        chosen = tuple(Beacon(chain=one.chain, round_number=one.round) for one in named)
    else:
        chosen = _after(now + 1000 * delay_s, newest)
    if len(chosen) > MAX_BEACONS or len(set(chosen)) != len(chosen):
        raise BadExperimentError(f"binning.beacons are at most {MAX_BEACONS} rounds, none of them twice")
    for beacon in chosen:
        if is_unsafe(beacon.chain) and not test:
            raise BadExperimentError("a beacon for development, whose outputs everybody knows, is for tests alone")
        try:
            at = round_time(beacon.chain, beacon.round_number)
        except BadBeaconError as fault:
            raise BadExperimentError(f"binning.beacons: {fault}") from None
        if at is not None and at <= now:
            raise BadExperimentError("a round of binning.beacons is known already: name one that is still to come")
    return chosen


def _after(at: int, newest: NewestPulse | None) -> tuple[Beacon, ...]:
    if newest is None:
        raise BadExperimentError(
            "NIST's newest pulse could not be had for binning.beacon_delay_s; name rounds instead, as in"
            f' beacons = [{{ chain = "{DRAND}", round = … }}]'
        )
    chain = DRAND_CHAINS[DRAND]
    drand_round = 1 + max(0, -(-(at - 1000 * chain.genesis_s) // (1000 * chain.period_s)))
    pulse = newest.number + max(1, -(-(at - newest.at) // _PULSE_MS))
    return Beacon(chain=DRAND, round_number=drand_round), Beacon(chain=NIST, round_number=pulse)
