"""What the coordinator says it received, while that is still served: buckets of digests, held to the signed root.

Receipts are kept for two rounds or so. Whether a capsule is *missing* only the device sees that sent it; from outside
one sees that the buckets lead to the signed root, that they are no smaller than the relay's count allows (a device
that asks for a bucket tells which few capsules may be its own), and that no more was received than the relay had.
"""

from __future__ import annotations

from secvm.auditor.files import MOST_LOG_BYTES, experiment_path
from secvm.auditor.subject import Subject
from secvm.errors import MalformedMessageError, RemoteProtocolError
from secvm.protocol.manifest import LastRound, RelayCount, read_relay_count
from secvm.protocol.receipts import MAX_RECEIPT_BYTES, check_bits, decode_bits, decode_receipt
from secvm.protocol.received import DIGEST_BYTES, check_receipt, received_root, side_by_side

#: Rounds before the newest whose receipts may still be served.
_ROUNDS_KEPT = 3
#: A larger epoch's buckets are not all fetched.
_MOST_BITS = 10


def check_receipts(subject: Subject, ended: dict[int, LastRound]) -> None:
    """The receipts of the rounds that ended last."""
    for number in sorted(ended)[-_ROUNDS_KEPT:]:
        last = ended[number]
        if last.received_root is None:
            subject.findings.warn(f"of round {number} no root over received capsules was signed: nobody has receipts")
        else:
            _check_round(subject, number, last, bytes.fromhex(last.received_root))


def _check_round(subject: Subject, number: int, last: LastRound, root: bytes) -> None:
    found = subject.findings
    data = subject.read("receipts", _path(subject, number), number, most=MOST_LOG_BYTES)
    if data is None:
        found.leave_out("received capsules of rounds whose receipts are no longer served")
        return
    count = _count(subject, last)
    try:
        bits = decode_bits(data)
        if count is not None:
            check_bits(bits, capsules=count.capsules)
    except RemoteProtocolError as fault:
        found.fault("receipts", f"its receipts cannot be asked for: {fault}", round_number=number)
        return
    if bits > _MOST_BITS:
        found.leave_out("received capsules of rounds that have very many")
        return
    digests: set[bytes] = set()
    wrong = None
    try:
        for bucket in range(2**bits):
            digests |= _bucket(subject, number, bucket, bits, root)
    except RemoteProtocolError as fault:
        wrong = f"a receipt of it is none: {fault}"
    if wrong is None and received_root(side_by_side(digests)) != root:
        wrong = "its receipts do not lead to the root over received capsules that was signed"
    if wrong is not None:
        # They may have been dropped, on time, while they were read.
        if subject.read("receipts", _path(subject, number), number, most=MOST_LOG_BYTES) is not None:
            found.fault("receipts", wrong, round_number=number)
        return
    if count is not None and len(digests) > count.capsules:
        sentence = f"{len(digests)} capsules were received, and the relay had {count.capsules}"
        found.fault("receipts", sentence, round_number=number)
    found.passed(number, "receipts")


def _bucket(subject: Subject, number: int, bucket: int, bits: int, root: bytes) -> set[bytes]:
    """The digests of one bucket; one that is not served is taken for empty, which the root will tell."""
    data = subject.files.get(_path(subject, number, bucket), most=MAX_RECEIPT_BYTES)
    if data is None:
        return set()
    receipt = decode_receipt(data)
    digests = {receipt.bucket[at : at + DIGEST_BYTES] for at in range(0, len(receipt.bucket), DIGEST_BYTES)}
    if len(receipt.path) != bits or any(int.from_bytes(one, "big") >> 256 - bits != bucket for one in digests):
        raise MalformedMessageError("it is of another bucket")
    for digest in list(digests)[:1]:
        check_receipt(root, digest, receipt.bucket, receipt.path)
    return digests


def _count(subject: Subject, last: LastRound) -> RelayCount | None:
    """The only relay's count; None where there are several, or none that can be believed."""
    if last.relay_count is None or len(subject.document.relays) != 1:
        return None
    try:
        return read_relay_count(last.relay_count, subject.document)
    except RemoteProtocolError:
        return None


def _path(subject: Subject, *below: object) -> str:
    return experiment_path(subject.document.digest, "received", *below)
