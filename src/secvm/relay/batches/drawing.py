"""Drawing a relay's cover: a part's seed and the root of the incoming batch → the part's capsules (§29).

The seals are for the keys of the round's own manifest, and for no others: cover that is sealed otherwise would be told
apart, and hide nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from secvm.crypto.sealing.bulk_sealing import BulkSealer
from secvm.crypto.sealing.kem import X25519PublicKey
from secvm.learning._kernels.dispatch import kernels
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.relay_terms import RelayRole
from secvm.protocol.relays.batches.label import INNER_BYTES, OUTER_BYTES
from secvm.protocol.relays.cover.part_sealing import seal_part
from secvm.protocol.relays.cover.parts import derive_part
from secvm.relay.batches.keeping import DrawPart
from secvm.relay.batches.plan import RoundPlan

#: Packages of a part.
_SMALL_PART = 2**14


def drawing(document: ExperimentDocument, plan: RoundPlan, role: RelayRole, sealer: BulkSealer) -> DrawPart:
    """What draws the parts of this round: outer capsules at the entry relay, inner ones at the mixing relay."""
    count_key = X25519PublicKey(plan.count_key)
    mix_key = plan.mix_commitment.public_key if role == "entry" else None
    size = OUTER_BYTES if role == "entry" else INNER_BYTES
    # Both kernels give the same bytes; loading the compiled one takes longer than a small part.
    small = document.relay_cover.part_packages < _SMALL_PART

    def draw(seed: bytes, root: bytes) -> Iterable[bytes]:
        part = derive_part(
            document.experiment,
            experiment_id=document.experiment_id,
            round_number=plan.round_number,
            label=plan.label,
            root=root,
            seed=seed,
            kernel=kernels("reference") if small else None,
        )
        for block in seal_part(part, count_key=count_key, mix_key=mix_key, sealer=sealer):
            yield from _cut(block.outer if role == "entry" else block.inner, size)

    return draw


def _cut(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))
