"""Inputs of ``tallies.json`` and ``bad_tallies.json``: tallies as they travel."""
# ruff: noqa: INP001  (a program beside the package, not a part of it)

from __future__ import annotations

import zlib
from collections.abc import Callable

import generate_protocol  # type: ignore[import-not-found]  # beside this program, not in a package
import numpy as np
from shared import JSON, with_reasons  # type: ignore[import-not-found]  # beside this program, not in a package

from secvm.learning import aggregate
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.protocol.documents.blobs import encode_tally, tally_digest
from secvm_lab.rigs.histories.relayed_rounds import relayed_document

MOST = 2**53 - 1
#: The planes of "noise" as zlib 1.2.13 deflates them with codes of its own; other libraries write other bytes.
NOISE = "780104c1810900000802b0b20c91e8ff73db08576fce8508576fce850811fe0100093800a3"


def tally_of(entries: list[int], experiment: Experiment) -> Tally:
    """The tally with these entries in their order."""
    empty = aggregate.empty_tally(experiment)
    parts = (empty.plus, empty.minus, empty.participants, empty.cells)
    cut = np.split(np.array(entries, dtype=np.int64), np.cumsum([part.size for part in parts])[:-1])
    plus, minus, participants, cells = (some.reshape(part.shape) for some, part in zip(cut, parts, strict=True))
    return Tally(plus=plus, minus=minus, participants=participants, cells=cells)


def tallies() -> JSON:
    """Tallies with cover and without."""
    covered, plain = relayed_document(), generate_protocol.document()
    drawn = {
        "nothing counted": (covered, [0] * 28),
        "the known mean": (covered, [3] * 24 + [4] * 4),
        "noise": (covered, [i * 37 % 11 for i in range(28)]),
        "two planes": (covered, [3, 66, 67, 131, 2, 0] + [3] * 18 + [1000, 4, 4, 4]),
        "seven planes": (covered, [MOST] + [3] * 23 + [4] * 3 + [MOST]),
        "no cover": (plain, [*range(22), 5, 7, 1, 0, 300, 2]),
    }
    cases = []
    for why, (document, entries) in drawn.items():
        tally = tally_of(entries, document.experiment)
        planes = zlib.decompress(encode_tally(tally, document.experiment))
        files = [generate_protocol.stored(planes).hex(), *([NOISE] if why == "noise" else [])]
        assert all(zlib.decompress(bytes.fromhex(file)) == planes for file in files)
        cases.append(
            {
                "why": why,
                "cover": document.experiment.cover is not None,
                "entries": [str(entry) for entry in entries],
                "planes": planes,
                "digest": tally_digest(tally),
                "bytes": files,
            }
        )
    return {
        "description": "Tallies as they travel (§13); each list of bytes is one tally.",
        "covered": covered.data.decode(),
        "plain": plain.data.decode(),
        "cases": cases,
    }


def bad_tallies() -> JSON:
    """Files that are no tally of the experiment with cover."""
    document = relayed_document()
    planes = bytes(28)
    good = generate_protocol.stored(planes)
    dictionary = zlib.compressobj(0, zdict=b"tally")
    bad = {
        "nothing": b"",
        "no zlib stream": b"secvm-tally-v1\n" + bytes(13),
        "the end is missing": good[:-1],
        "a byte after the end": good + b"\0",
        "two streams": good + good,
        "a wrong checksum": good[:-1] + bytes([good[-1] ^ 1]),
        "raw deflate": good[2:-4],
        "a preset dictionary": dictionary.compress(planes) + dictionary.flush(),
        "an empty stream": generate_protocol.stored(b""),
        "an entry too few": generate_protocol.stored(planes[:-1]),
        "an entry too many": generate_protocol.stored(planes + b"\0"),
        "half a plane": generate_protocol.stored(planes + bytes(14)),
        "a last plane of zeros": generate_protocol.stored(planes + planes),
        "eight planes": generate_protocol.stored(bytes(7 * 28) + b"\1" + bytes(27)),
        "below zero": generate_protocol.stored(b"\7" + bytes(27)),
        "beyond 2^53 - 1": generate_protocol.stored(bytes(6 * 28) + b"\x40" + bytes(27)),
    }
    return {
        "description": "What must be refused as a tally of this experiment, whatever its digest.",
        "experiment": document.data.decode(),
        "good": good,
        "cases": with_reasons(bad),
    }


FILES: dict[str, Callable[[], JSON]] = {maker.__name__: maker for maker in (tallies, bad_tallies)}
