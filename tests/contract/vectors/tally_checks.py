"""Vectors of tallies as they travel: read by the code of this package, and by the formulas of docs/protocol.md §13."""

import hashlib
import json
import struct
import zlib
from fractions import Fraction

from secvm.errors import MalformedMessageError
from secvm.protocol.documents.blobs import decode_tally, read_tally_bytes
from secvm.protocol.documents.experiment import ExperimentDocument
from tests.contract.vectors.reading import JSON, bytes_of, refused


def means(told: JSON, *, bins: int, labels: int) -> list[int]:
    """What is taken off each entry, by the document alone; one model."""
    kinds = ("train", "participation", "test")
    privacy = told["privacy"] or {kind: {"shape": "0", "odds": "0"} for kind in kinds}
    each = [round(2 * Fraction(privacy[kind]["shape"]) * Fraction(privacy[kind]["odds"])) for kind in kinds]
    return [each[0]] * (2 * bins) + [each[1]] * labels + [each[2]] * labels**2


def check_tallies(content: JSON) -> None:
    documents = {True: content["covered"], False: content["plain"]}
    for case in content["cases"]:
        text = documents[case["cover"]]
        document, told = ExperimentDocument.from_bytes(text.encode()), json.loads(text)
        entries, bins, labels = [int(entry) for entry in case["entries"]], told["binning"]["bins"] + 1, 2
        head = f'secvm-tally-v1\n{{"bins":{bins},"labels":{labels},"models":1}}\n'.encode()
        canonical = head + struct.pack(f"<{len(entries)}q", *entries)
        assert hashlib.sha256(canonical).hexdigest() == case["digest"]
        less = [entry - mean for entry, mean in zip(entries, means(told, bins=bins, labels=labels), strict=True)]
        folded = [2 * x if x >= 0 else -2 * x - 1 for x in less]
        width = max(1, -(-max(folded).bit_length() // 8))
        planes = bytes(z >> 8 * place & 255 for place in range(width) for z in folded)
        assert planes.hex() == case["planes"]
        for file in case["bytes"]:
            assert zlib.decompress(bytes.fromhex(file)) == planes
            tally = decode_tally(bytes.fromhex(file), digest=case["digest"], experiment=document.experiment)
            parts = (tally.plus, tally.minus, tally.participants, tally.cells)
            assert [n for part in parts for n in part.ravel().tolist()] == entries


def check_bad_tallies(content: JSON) -> None:
    experiment = ExperimentDocument.from_bytes(content["experiment"].encode()).experiment
    read_tally_bytes(bytes.fromhex(content["good"]), experiment)
    refused(content["cases"], lambda case: read_tally_bytes(bytes_of(case), experiment), MalformedMessageError)
