"""Read and hash a file of people, beside orjson.loads of each of its lines.

One thread, CPU time, the file in the page cache, both contestants in turns in the same process, the fastest of several
turns each. The peer is what a user would write: ``for line in open(path, "rb"): orjson.loads(line)``. It only parses;
ours parses, hashes, sorts and adds: ``read_people`` to ``BinnedRows``. Ratios are ours over orjson, the smaller the
better; ``reading_over_orjson`` is the worse of the object form (``{"word": 3}``) and the list form (``["word"]``).

    ./secvm bench reading [--people 4000] [--words 1260] [--data FILE]
"""

from __future__ import annotations

import argparse
import gzip
import tempfile
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path

import numpy as np
import orjson
from numpy.typing import NDArray

from benchmarks._measuring import fastest, in_a_process, memory_mb
from secvm.learning.individual.binning import HashBinning, bin_features
from secvm.people.reader import read_people
from secvm.people.source import iter_people

_VOCABULARY = 700_000
_BINNING = HashBinning(n_bins=10_000, salt=b"benchmarks/reading")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--people", type=int, default=4000, help="people in the generated file")
    parser.add_argument("--words", type=int, default=1260, help="words of each of them")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contestant")
    parser.add_argument("--seed", type=int, default=1, help="of the generated file")
    parser.add_argument("--data", type=Path, help="a file of JSON lines to use instead of a generated one")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Generate, measure, compare."""
    with tempfile.TemporaryDirectory() as folder:
        if arguments.data:
            files = {"given": _plain_copy(arguments.data, Path(folder))}
        else:
            files = _generate(Path(folder), arguments)
        read_people(next(iter(files.values())), _BINNING)  # Compile outside the clock.
        results = {form: _measure(path, arguments.rounds) for form, path in files.items()}
        worst = max(results, key=lambda form: results[form]["ratio"])
        zipped = _zipped(files[worst], Path(folder))
        gz_ours, gz_peer = _turns(zipped, gzip.open, min(2, arguments.rounds))
        peak_rss_mb = in_a_process(peak_rss_mb_of_reading, str(files[worst]))
        equal = all(_equals_reference(path) for path in files.values())
    return {
        "reading_over_orjson": round(results[worst]["ratio"], 3),
        **{f"reading_over_orjson_{form}": round(result["ratio"], 3) for form, result in results.items()},
        "gz_reading_over_orjson": round(gz_ours / gz_peer, 3),
        "mb_per_s": round(results[worst]["mb_per_s"], 1),
        "features_per_s": round(results[worst]["features_per_s"]),
        "orjson_mb_per_s": round(results[worst]["orjson_mb_per_s"], 1),
        "peak_rss_mb": peak_rss_mb,
        "equal_to_reference": equal,
        "peer": "for line in open(path, 'rb'): orjson.loads(line)",
        "people": results[worst]["people"],
        "file_mb": round(results[worst]["file_mb"], 1),
    }


def _measure(path: Path, rounds: int) -> dict[str, float]:
    people = read_people(path, _BINNING)
    ours, peer = _turns(path, open, rounds)
    file_mb = path.stat().st_size / 1e6
    features = sum(len(person.features) for person in islice(iter_people(path), 200))
    return {
        "ratio": ours / peer,
        "mb_per_s": file_mb / ours,
        "orjson_mb_per_s": file_mb / peer,
        "features_per_s": features / min(200, len(people)) * len(people) / ours,
        "file_mb": file_mb,
        "people": len(people),
    }


_Open = Callable[..., AbstractContextManager[Iterable[bytes]]]


def _turns(path: Path, open_file: _Open, rounds: int) -> tuple[float, float]:
    """Fastest CPU seconds of reading, and of parsing alone, in alternation."""
    best = fastest({"ours": lambda: read_people(path, _BINNING), "peer": lambda: _parse(path, open_file)}, rounds)
    return best["ours"], best["peer"]


def _parse(path: Path, open_file: _Open) -> None:
    with open_file(path, "rb") as lines:
        for line in lines:
            orjson.loads(line)


def peak_rss_mb_of_reading(path: str) -> int:
    """Peak memory of a process that does nothing but read the file, numba included."""
    read_people(path, _BINNING)
    return int(memory_mb())


def _equals_reference(path: Path, sample: int = 20) -> bool:
    """Whether the first people have the rows and labels that the reference gives them."""
    people = read_people(path, _BINNING)
    rows, labels = people.rows, people.label_texts
    for i, person in enumerate(islice(iter_people(path), sample)):
        row = slice(rows.indptr[i], rows.indptr[i + 1])
        entries = dict(zip(rows.bins[row].tolist(), rows.values[row].tolist(), strict=True))
        if labels[i] != person.label or entries != bin_features(person.features, _BINNING).values:
            return False
    return True


def _generate(folder: Path, arguments: argparse.Namespace) -> dict[str, Path]:
    """The same people in object form and in list form, as orjson writes them: Zipf words of realistic lengths."""
    dice = np.random.default_rng(arguments.seed)
    lengths = np.clip(dice.poisson(7.0, _VOCABULARY), 3, 24)
    letters = dice.choice(list("etaoinshrdlucmwfgypbvkjxqz"), size=(_VOCABULARY, 24), p=_letter_odds())
    made = ["".join(row[: max(1, n - 3)]) + _base36(k) for k, (row, n) in enumerate(zip(letters, lengths, strict=True))]
    words = np.array(list(dict.fromkeys(made)))
    paths = {"object": folder / "object.jsonl", "list": folder / "list.jsonl"}
    with paths["object"].open("wb") as objects, paths["list"].open("wb") as lists:
        for _ in range(arguments.people):
            # Log-uniform ranks: Zipf with exponent 1.
            ranks = np.unique((len(words) ** dice.random(arguments.words * 2)).astype(np.int64) - 1)
            chosen = words[dice.permutation(ranks)[: arguments.words]].tolist()
            values = np.minimum(dice.zipf(2.0, len(chosen)), 999).tolist()
            label = "fm"[dice.integers(2)]
            objects.write(orjson.dumps({"label": label, "features": dict(zip(chosen, values, strict=True))}) + b"\n")
            lists.write(orjson.dumps({"label": label, "features": chosen}) + b"\n")
    return paths


def _letter_odds() -> NDArray[np.float64]:
    odds = 1 / np.arange(1, 27, dtype=np.float64) ** 0.6
    return np.asarray(odds / odds.sum())


def _base36(k: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    text = ""
    while k:
        k, digit = divmod(k, 36)
        text = digits[digit] + text
    return text


def _plain_copy(path: Path, folder: Path) -> Path:
    if path.suffix != ".gz":
        return path
    plain = folder / path.stem
    with gzip.open(path) as source, plain.open("wb") as target:
        while piece := source.read(1 << 20):
            target.write(piece)
    return plain


def _zipped(path: Path, folder: Path) -> Path:
    zipped = folder / f"{path.name}.gz"
    with path.open("rb") as source, gzip.open(zipped, "wb", compresslevel=5) as target:
        while piece := source.read(1 << 20):
            target.write(piece)
    return zipped
