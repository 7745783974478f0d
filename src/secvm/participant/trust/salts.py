"""The salt of an experiment whose bins public randomness fixes: fetched, verified, and pinned with the person's bins.

The coordinator serves the first cosigned checkpoint and the beacons' records; ``protocol.salt`` believes neither before
it has checked them. The development beacon is taken where the experiment is a test and the settings say so.
"""

from __future__ import annotations

from datetime import UTC, datetime

from secvm.crypto.beacons.sources import round_time
from secvm.errors import BadInputError, BeaconUnavailableError, RemoteProtocolError
from secvm.participant.sending.transport import Transport
from secvm.participant.trust.surroundings import TrustPolicy
from secvm.protocol.documents.experiment import ExperimentDocument, HashedBins
from secvm.protocol.trust.salt import salt_of

_MOST_PROOF_BYTES = 2**18


async def fetch_salt(
    document: ExperimentDocument, transport: Transport, policy: TrustPolicy, *, now: int
) -> bytes | None:
    """The salt that the experiment's beacons fixed; None where it names none.

    Raises
    ------
    BeaconUnavailableError
        Nobody can know it yet, or nobody answers for it yet.
    BadInputError
        What was served is not what public randomness fixed after the experiment was logged.
    """
    binning = document.binning
    if not isinstance(binning, HashedBins) or binning.salt is not None:
        return None
    try:
        times = [round_time(beacon.chain, beacon.round_number) for beacon in binning.beacons]
        last = max((at for at in times if at is not None), default=0)
        if last > now:
            when = datetime.fromtimestamp(last / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
            raise BeaconUnavailableError(
                f"this experiment's salt is not known before {when} UTC: its beacons are to come"
            )
        path = f"/v1/experiment/{document.digest}"
        first = await transport.fetch(f"{path}/first", most=_MOST_PROOF_BYTES)
        records = [await transport.fetch(f"{path}/beacon/{i}") for i in range(len(binning.beacons))]
        found = [record.content for record in records if record is not None]
        if first is None or len(found) != len(records):
            raise BeaconUnavailableError(
                "this experiment's salt cannot be had yet: its coordinator does not have all beacons' records",
                next_step="Join a little later.",
            )
        return salt_of(
            document,
            first=first.content,
            records=found,
            allow_unsafe=policy.unsafe_beacons,
            policy=policy.log_policy,
        )
    except RemoteProtocolError as fault:
        raise BadInputError(f"this experiment's salt cannot be believed: {fault}") from None
