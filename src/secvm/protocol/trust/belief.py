"""What passes between a device and ``TrustedRounds``: bytes that were served, what is believed, what was checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from secvm.protocol.canonical import Fields, decode_document
from secvm.protocol.documents.ending import Ending
from secvm.protocol.documents.manifest import AcceptedManifest, RoundManifest
from secvm.protocol.documents.recomputation import Model
from secvm.protocol.records import BESIDE, TypedRecord, long_bytes
from secvm.protocol.trust.trusted_log import SeenLog
from secvm.protocol.version import TRUSTED_TYPE

_MAX_PART_BYTES = 2**21


@dataclass(frozen=True, slots=True)
class Served:
    """What a device has fetched for one look at an experiment. **Nothing in it is checked.**"""

    #: Envelopes of every manifest after the last one believed, in their order; the last is the newest.
    manifests: tuple[bytes, ...]
    #: The newest checkpoint.
    checkpoint: bytes
    #: All lines of the log after what was seen of it, up to that checkpoint.
    lines: tuple[bytes, ...] = field(repr=False)
    #: Bytes of the tallies that those documents name, by digest.
    tallies: Mapping[str, bytes] = field(repr=False)
    #: Envelope of the ending, where the experiment is over.
    ending: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted(TypedRecord):
    """What a device keeps of what it believes: enough to believe the next, and to convict whoever contradicts it.

    ``to_bytes`` writes all but the state, which is large and a blob of its own.
    """

    purpose: ClassVar[str] = TRUSTED_TYPE
    title: ClassVar[str] = "what is trusted"
    longest: ClassVar[int] = 2**23

    #: Envelope of the newest manifest believed; None before the first.
    manifest: Annotated[bytes, long_bytes(_MAX_PART_BYTES)] | None
    #: The log, of which it has read every line.
    log: Annotated[SeenLog, BESIDE]
    #: The descent state of that manifest.
    state: bytes = field(repr=False)

    @classmethod
    def from_parts(cls, header: bytes, state: bytes) -> Trusted:
        """From what was written by this device (``to_bytes``) and the state. Raises ``MalformedMessageError``."""
        fields = Fields(decode_document(header, max_bytes=cls.longest), cls.title)
        fields.constant("type", cls.purpose)
        trusted = cls.take(fields, state=state)
        fields.done()
        return trusted


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """A round, or an ending, that this device may believe. Only ``TrustedRounds.check`` makes one."""

    #: The newest manifest; None where an experiment ended before its first round.
    accepted: AcceptedManifest | None
    ending: Ending | None
    #: The model that the device computed itself: that of the newest manifest, or what the ending leaves.
    model: Model
    #: To be stored, durably, before anything is done with the rest.
    trusted: Trusted
    #: So many steps were played again.
    steps: int


def tallies_named(documents: Sequence[RoundManifest | Ending]) -> list[str]:
    """Digests of the tallies that a device needs to follow these documents."""
    return [told.last.tally for told in documents if told.last is not None and told.last.tally is not None]
