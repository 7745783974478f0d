"""The vectors of logs: trees, checkpoints, cosignatures, tiles, proof files. Written by generate.py."""
# ruff: noqa: INP001  (beside the package, not a part of it)

from __future__ import annotations

from collections.abc import Callable

from shared import JSON, LOG, STRANGER, WITNESSES, log_terms  # type: ignore[import-not-found]  # beside this program, not in a package

from secvm.crypto.merkle import Tree, leaf_hash
from secvm.crypto.notes import Note, NoteKey, NoteSignature, SignatureKind, cosign_note, sign_note
from secvm.crypto.signing import SigningKey
from secvm.protocol.log.checkpoints import Checkpoint
from secvm.protocol.log.entries import Entry, ending_entry, experiment_entry, manifest_entry, opening_entry
from secvm.protocol.log.proofs import CosigningRequest, LogProof, write_cosignatures
from secvm.protocol.log.tiles import Tile, write_bundle, write_tile

NAMES = ["w0.example", "w1.example", "w2.example"]
NOW_S = 1_767_225_600
EXPERIMENT, OTHER = "ab" * 32, "cd" * 32
TERMS = log_terms()
ORIGIN = TERMS.log_key.name

#: What implementations of Certificate Transparency have tested themselves with from the start.
CLASSIC = ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")


# ── trees ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def tree_of(count: int) -> Tree:
    """Leaves of the entries "0", "1", …"""
    return Tree(leaf_hash(str(i).encode()) for i in range(count))


def inclusion(tree: Tree, index: int, size: int) -> JSON:
    """One inclusion proof."""
    return {
        "leaf": tree.node(0, index).hex(),
        "index": index,
        "size": size,
        "proof": [node.hex() for node in tree.inclusion_proof(index, size)],
        "root": tree.root(size).hex(),
    }


def consistency(tree: Tree, first: int, second: int) -> JSON:
    """One consistency proof."""
    return {
        "first": first,
        "second": second,
        "first_root": tree.root(first).hex(),
        "second_root": tree.root(second).hex(),
        "proof": [node.hex() for node in tree.consistency_proof(first, second)],
    }


def merkle() -> JSON:
    """Roots and proofs."""
    numbers = tree_of(300)
    classic = Tree(leaf_hash(bytes.fromhex(entry)) for entry in CLASSIC)
    sizes = (1, 2, 3, 5, 8, 13, 64, 65, 255, 256, 257, 300)
    return {
        "description": "Merkle trees of RFC 6962: the roots of all sizes, and proofs.",
        "trees": [
            {"entries": list(CLASSIC), "roots": [classic.root(size).hex() for size in range(9)]},
            {
                "entries": [str(i).encode().hex() for i in range(40)],
                "roots": [numbers.root(size).hex() for size in range(41)],
            },
        ],
        "inclusions": [
            inclusion(numbers, index, size) for size in sizes for index in sorted({0, size // 2, size // 3, size - 1})
        ],
        "consistencies": [
            consistency(numbers, first, size)
            for size in sizes
            for first in sorted({0, 1, size // 3, size // 2, size - 1, size})
        ],
    }


def bad_merkle() -> JSON:
    """Proofs that show nothing."""
    tree, other = tree_of(11), Tree([bytes(32), *(leaf_hash(str(i).encode()) for i in range(1, 11))])
    here, there = inclusion(tree, 6, 11), consistency(tree, 6, 11)
    power = consistency(tree, 4, 11)
    proof, path = here["proof"], there["proof"]
    zero = "00" * 32
    inclusions = {
        "another leaf": {"leaf": zero},
        "a neighbour as the leaf": {"leaf": tree.node(0, 7).hex()},
        "a node as the leaf": {"leaf": tree.node(1, 3).hex(), "proof": proof[1:]},
        "another index": {"index": 7},
        "an index beyond the end": {"index": 11},
        "an index before the beginning": {"index": -1},
        "another root": {"root": zero},
        "the root of another size": {"root": tree.root(10).hex()},
        "no proof": {"proof": []},
        "a hash too few": {"proof": proof[:-1]},
        "a hash too many": {"proof": [*proof, zero]},
        "a hash changed": {"proof": [zero, *proof[1:]]},
        "hashes out of order": {"proof": proof[::-1]},
        "a hash too short": {"proof": [*proof[:-1], proof[-1][:-2]]},
        "an empty tree": {"size": 0, "index": 0, "proof": []},
        "a smaller tree": {"size": 7},
    }
    consistencies = {
        "no proof": {"proof": []},
        "a hash too few": {"proof": path[:-1]},
        "a hash too many": {"proof": [*path, zero]},
        "a hash changed": {"proof": [*path[:-1], zero]},
        "hashes out of order": {"proof": path[::-1]},
        "a tree that shrinks": consistency(tree, 6, 6) | {"first": 7},
        "sizes the other way round": {"first": 11, "second": 6},
        "another first root": {"first_root": zero},
        "another second root": {"second_root": zero},
        "two roots of one size": consistency(tree, 6, 6) | {"second_root": other.root(6).hex()},
        "a proof between equal sizes": consistency(tree, 6, 6) | {"proof": [zero]},
        "a proof from nothing": consistency(tree, 0, 6) | {"proof": [zero]},
        "another root of nothing": consistency(tree, 0, 6) | {"first_root": zero},
        "a past that was rewritten": {
            "second_root": other.root(11).hex(),
            "proof": [node.hex() for node in other.consistency_proof(6, 11)],
        },
        "the first root before the proof, though it is a power of two": {
            **power,
            "proof": [power["first_root"], *power["proof"]],
        },
    }
    return {
        "description": "Proofs that must be refused; `good_inclusion` and `good_consistency` must be taken.",
        "good_inclusion": here,
        "good_consistency": there,
        "inclusions": [{"why": why, **here, **change} for why, change in inclusions.items()],
        "consistencies": [{"why": why, **there, **change} for why, change in consistencies.items()],
    }


# ── checkpoints ──────────────────────────────────────────────────────────────────────────────────────────────────────


def signed(size: int, *times: int | None, origin: str = ORIGIN, tree: Tree | None = None) -> bytes:
    """A checkpoint of the log, cosigned by each witness at its time, counted from now."""
    checkpoint = Checkpoint(origin, size, (tree or tree_of(size)).root(size))
    lines = [
        checkpoint.cosign(key, name=name, time_s=NOW_S + time)
        for key, name, time in zip(WITNESSES, NAMES, times, strict=False)
        if time is not None
    ]
    return Note.from_bytes(checkpoint.sign(LOG)).signed_by(*lines).to_bytes()


def note_case(text: str, signers: list[tuple[str, SigningKey, int | None]]) -> JSON:
    """A note, and who signed it."""
    lines = [
        sign_note(text, name=name, key=key) if time is None else cosign_note(text, name=name, key=key, time_s=time)
        for name, key, time in signers
    ]
    return {
        "text": text,
        "signers": [{"seed": key.seed.hex(), "name": name, "time_s": time} for name, key, time in signers],
        "note": Note(text, tuple(lines)).to_bytes().decode(),
    }


def checkpoints() -> JSON:
    """Keys, notes, checkpoints with cosignatures, and what witnesses are asked and answer."""
    checkpoint = Checkpoint(ORIGIN, 7, tree_of(7).root())
    lines = [checkpoint.cosign(key, name=name, time_s=NOW_S) for key, name in zip(WITNESSES, NAMES, strict=True)]
    # The key and note with which the Go library tests itself, and the cosignature of a witness that is not ours.
    go_text = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
    go_signature = "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM="
    seen = NoteKey.from_text("witness+f7e268b3+BKUzzyskbukNz6DJHmPv7DZ4tG4heL51U2ER21TQN9Zm")
    seen_text = (
        "developers.google.com/android/binary_transparency/google1p/0\n"
        "5\n"
        "xqaCEZhTGZUuKNA7MpSyxe1WXiiESB2p+crAyzM+Vxo=\n"
    )
    seen_data = bytes.fromhex(
        "0000000067932a0bb8780de4a948514a5957d86e970b05720a95e6fd42c9e22105959d91f3894f48a6b352ea6d8ca03b930497dd421a16b9"
        "b0fefd2b9ecfee5206af3ed0b71f1e07"
    )
    return {
        "description": "Keys of notes, signed notes, cosigned checkpoints, and what witnesses are asked (C2SP).",
        "keys": [
            {
                "name": key.name,
                "kind": int(key.kind),
                "public_key": key.key.data.hex(),
                "key_id": key.key_id.hex(),
                "verifier_key": key.to_text(),
            }
            for key in (
                TERMS.log_key,
                *TERMS.witness_keys,
                NoteKey("ä/🙂", LOG.public),
                NoteKey("ä/🙂", LOG.public, SignatureKind.COSIGNATURE),
                seen,
            )
        ],
        "notes": [
            note_case("one line\n", [("a.example", LOG, None)]),
            note_case("Größe\n\nand an empty line\n", [("a.example", LOG, None), ("ä", STRANGER, None)]),
            note_case("\n", [("w0.example", WITNESSES[0], 0), ("w0.example", WITNESSES[0], 2**53 - 1)]),
        ],
        "strangers": [
            {
                "text": go_text,
                "note": f"{go_text}\n\u2014 PeterNeumann {go_signature}\n",
                "verifier_key": "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
                "time_s": None,
            },
            {
                "text": seen_text,
                "note": Note(seen_text, (NoteSignature(seen.name, seen.key_id, seen_data),)).to_bytes().decode(),
                "verifier_key": seen.to_text(),
                "time_s": 1_737_697_803,
            },
        ],
        "checkpoints": [
            {
                "seed": LOG.seed.hex(),
                "origin": origin,
                "size": size,
                "root": tree_of(size).root().hex(),
                "note": signed(size, origin=origin).decode(),
            }
            for origin, size in ((ORIGIN, 0), (ORIGIN, 1), (ORIGIN, 300), ("else.example/a/secvm/v2", 7))
        ],
        "quorums": [
            {
                "note": signed(7, *times).decode(),
                "log": TERMS.log_key.to_text(),
                "witnesses": [key.to_text() for key in TERMS.witness_keys],
                "quorum": 2,
                "freshness_s": 3600,
                "now": 1000 * NOW_S,
                "fresh": fresh,
            }
            for times, fresh in (
                ((0, -10, None), NAMES[:2]),
                ((-3600, None, 60), [NAMES[0], NAMES[2]]),
                ((0, -3601, -1), [NAMES[0], NAMES[2]]),
                ((0, 0, 61), NAMES[:2]),
            )
        ],
        "requests": [
            {
                "old": old,
                "proof": [node.hex() for node in tree_of(7).consistency_proof(old)],
                "checkpoint": signed(7).decode(),
                "request": CosigningRequest(old, tree_of(7).consistency_proof(old), signed(7)).to_bytes().decode(),
                "answer": write_cosignatures(lines[: 1 + old % 3]).decode(),
            }
            for old in (0, 3, 4, 7)
        ],
    }


def bad_checkpoints() -> JSON:
    """Notes that must not be believed."""
    good = signed(7, 0, 0).decode()
    head, lines = good.split("\n\n")
    log_line, first, second = lines.splitlines(keepends=True)
    checkpoint = Checkpoint(ORIGIN, 7, tree_of(7).root())

    def cosigned(key: SigningKey, name: str, time_s: int = NOW_S) -> str:
        return checkpoint.cosign(key, name=name, time_s=time_s).to_line()

    def resigned(text: str) -> str:
        made = [sign_note(text, name=ORIGIN, key=LOG)]
        made += [cosign_note(text, name=NAMES[i], key=WITNESSES[i], time_s=NOW_S) for i in (0, 1)]
        return f"{text}\n{''.join(line.to_line() for line in made)}"

    text = f"{head}\n"
    origin, size, root = head.split("\n")
    malformed = {
        "nothing": "",
        "no signatures": text + "\n",
        "no empty line": text + lines,
        "no line feed at the end": good[:-1],
        "something after the end": good + "\n",
        "carriage returns": good.replace("\n", "\r\n"),
        "a tab": resigned(f"{origin}\t\n{size}\n{root}\n"),
        "a hyphen for the dash": good.replace("\u2014", "-"),
        "two spaces": good.replace("\u2014 ", "\u2014  "),
        "base64 without its end": good.replace(first, first.rstrip("=\n") + "\n"),
        "base64 with other last bits": good.replace(
            first, first.replace(first[-4:], chr(ord(first[-4]) + 1) + first[-3:])
        ),
        "a signature of no bytes": good + "\u2014 a AAAAAA==\n",
        "a plus in a key's name": good + first.replace(NAMES[0], "a+b"),
        "an extension line": resigned(text + "extension\n"),
        "two lines": resigned(f"{origin}\n{size}\n"),
        "no origin": resigned(f"\n{size}\n{root}\n"),
        "another log": signed(7, 0, 0, origin=f"log.example/secvm/v1/{'cd' * 32}").decode(),
        "a size with a zero before it": resigned(f"{origin}\n07\n{root}\n"),
        "a size with a sign": resigned(f"{origin}\n+7\n{root}\n"),
        "a size beyond 2^63 - 1": resigned(f"{origin}\n{2**63}\n{root}\n"),
        "a root too short": resigned(f"{origin}\n{size}\nAAAA\n"),
        "a root with other last bits": resigned(f"{origin}\n{size}\n{root[:-2]}{chr(ord(root[-2]) + 1)}=\n"),
    }
    signature = {
        "another root": good.replace(root, "A" * 43 + "="),
        "another size": good.replace("\n7\n", "\n8\n"),
        "no signature of the log": f"{text}\n{first}{second}",
        "a stranger's signature under the log's name": f"{text}\n"
        + sign_note(text, name=ORIGIN, key=STRANGER).to_line()
        + first
        + second,
        "the log's signature under another name": f"{text}\n"
        + sign_note(text, name="a.example", key=LOG).to_line()
        + first
        + second,
        "a wrong signature of the log beside the good one": good
        + NoteSignature(ORIGIN, TERMS.log_key.key_id, bytes(64)).to_line(),
        "one witness": f"{text}\n{log_line}{first}",
        "one witness twice": f"{text}\n{log_line}{first}{first}",
        "one witness at two times": f"{text}\n{log_line}{first}" + cosigned(WITNESSES[0], NAMES[0], NOW_S - 1),
        "one witness under another's name": f"{text}\n{log_line}{first}" + cosigned(WITNESSES[0], NAMES[1]),
        "an unknown witness": f"{text}\n{log_line}{first}" + cosigned(STRANGER, "elsewhere.example"),
        "an unknown witness under a known name": f"{text}\n{log_line}{first}" + cosigned(STRANGER, NAMES[1]),
        "a plain signature for a cosignature": f"{text}\n{log_line}{first}"
        + sign_note(text, name=NAMES[1], key=WITNESSES[1]).to_line(),
        "a cosignature of another checkpoint": f"{text}\n{log_line}{first}"
        + Checkpoint(ORIGIN, 8, tree_of(8).root()).cosign(WITNESSES[1], name=NAMES[1], time_s=NOW_S).to_line(),
        "a wrong cosignature beside enough good ones": good
        + NoteSignature(NAMES[2], TERMS.witness_keys[2].key_id, bytes(72)).to_line(),
    }
    stale = {
        "cosigned too long ago": signed(7, 0, -3601).decode(),
        "cosigned in the future": signed(7, 0, 61).decode(),
        "cosigned at the beginning of time": signed(7, -NOW_S, -NOW_S, 0).decode(),
    }
    groups = {"malformed": malformed, "signature": signature, "stale": stale}
    return {
        "description": "Checkpoints that must be refused where `quorum` witnesses are needed; `good` must be taken.",
        "log": TERMS.log_key.to_text(),
        "witnesses": [key.to_text() for key in TERMS.witness_keys],
        "quorum": 2,
        "freshness_s": 3600,
        "now": 1000 * NOW_S,
        "good": good,
        "cases": [
            {"why": why, "fault": fault, "note": note} for fault, group in groups.items() for why, note in group.items()
        ],
    }


# ── a coordinator's log ──────────────────────────────────────────────────────────────────────────────────────────────


def log_entries() -> list[Entry]:
    """An experiment of version 1 with two rounds, to its end, and between its entries one of version 2."""
    return [
        experiment_entry(EXPERIMENT),
        manifest_entry(EXPERIMENT, 1, f"{1:064x}"),
        experiment_entry(OTHER),
        manifest_entry(EXPERIMENT, 2, f"{2:064x}"),
        manifest_entry(OTHER, 1, f"{3:064x}"),
        ending_entry(EXPERIMENT, f"{4:064x}"),
        opening_entry(OTHER, 1, f"{5:064x}"),
    ]


def log() -> JSON:
    """Entries, proof files and tiles."""
    entries = log_entries()
    tree = Tree(leaf_hash(entry.to_bytes()) for entry in entries)
    large = tree_of(300)
    return {
        "description": "A coordinator's log: entries of two experiments, proof files of them, and tiles.",
        "entries": [
            {
                "kind": entry.kind.value,
                "experiment": entry.experiment,
                "round": entry.round_number,
                "digest": entry.digest,
                "bytes": entry.to_bytes().hex(),
                "leaf": leaf_hash(entry.to_bytes()).hex(),
            }
            for entry in entries
        ],
        "proofs": [
            {
                "log": TERMS.to_content(),
                "origin": ORIGIN,
                "index": index,
                "size": size,
                "entry": entries[index].to_bytes().decode(),
                "now": 1000 * NOW_S,
                "file": LogProof(index, tree.inclusion_proof(index, size), signed(size, 0, None, 0, tree=tree))
                .to_bytes()
                .decode(),
            }
            for index, size in ((0, 1), (0, 7), (1, 2), (3, 4), (5, 7), (6, 7))
        ],
        "paths": [
            {"level": tile.level, "tile": tile.index, "width": tile.width, "path": tile.path}
            for tile in (
                Tile(0, 0),
                Tile(0, 999, 1),
                Tile(0, 1000),
                Tile(1, 1_234_067, 255),
                Tile(2, 0, 17),
                Tile(None, 0, 3),
                Tile(None, 1_234_067),
            )
        ],
        "tiles": [
            {"size": 300, "path": tile.path, "bytes": write_tile(tile, large.node).hex()}
            for tile in (Tile(0, 0), Tile(0, 1, 44), Tile(1, 0, 1))
        ],
        "bundles": [
            {"width": len(found), "entries": [entry.hex() for entry in found], "bytes": write_bundle(found).hex()}
            for found in ([entry.to_bytes() for entry in entries], [b""], [b"", bytes(258)])
        ],
    }


def bad_log() -> JSON:
    """Entries, proof files, paths and bundles that are none."""
    entries = log_entries()
    tree = Tree(leaf_hash(entry.to_bytes()) for entry in entries)
    entry = entries[3].to_bytes().decode()
    good = LogProof(3, tree.inclusion_proof(3), signed(7, 0, None, 0, tree=tree)).to_bytes().decode()
    head, *hashes = good.partition("\n\n")[0].split("\n")[1:]
    below = good.partition("\n\n")[2]
    header = "c2sp.org/tlog-proof@v1\n"

    def file(first: str, lines: list[str], rest: str = below) -> str:
        return header + "\n".join([first, *lines]) + "\n\n" + rest

    proofs = {
        "another header": ("malformed", good.replace("@v1", "@v2", 1)),
        "extra data": ("malformed", good.replace("index", "extra AAAA\nindex", 1)),
        "no index": ("malformed", file(hashes[0], hashes[1:])),
        "an index with a zero before it": ("malformed", file("index 03", hashes)),
        "another index": ("proof", file("index 4", hashes)),
        "a line that is no hash": ("malformed", file(head, [*hashes, "AAAA"])),
        "no empty line": ("malformed", good.replace("\n\n", "\n", 1)),
        "no checkpoint": ("malformed", file(head, hashes, "")),
        "the checkpoint of another log": ("malformed", file(head, hashes, signed(7, 0, 0, origin="a").decode())),
        "a hash too few": ("proof", file(head, hashes[:-1])),
        "a hash too many": ("proof", file(head, [*hashes, "A" * 43 + "="])),
        "hashes out of order": ("proof", file(head, hashes[::-1])),
        "another tree": ("proof", file(head, hashes, signed(7, 0, 0).decode())),
        "a tree before the entry": ("proof", file(head, [], signed(3, 0, None, 0, tree=tree).decode())),
        "the witnesses left out": ("signature", good[: good.index("\u2014 w0")]),
    }
    return {
        "description": "What is no entry, proof file, path or bundle; `good` is a proof file of `entry`.",
        "log": TERMS.to_content(),
        "entry": entry,
        "now": 1000 * NOW_S,
        "good": good,
        "entries": [
            {"why": why, "bytes": data.encode().hex()}
            for why, data in {
                "nothing": "",
                "no line feed": entry[:-1],
                "two line feeds": entry + "\n",
                "capital letters": entry.replace("2\n", "A\n"),
                "two spaces": entry.replace(" ", "  ", 1),
                "another kind": entry.replace("manifest", "relay-count"),
                "another version": entry.replace("v2", "v1", 1),
                "no round": entry.replace(" 2 ", " ", 1),
                "a round with a zero before it": entry.replace(" 2 ", " 02 ", 1),
                "round zero": entry.replace(" 2 ", " 0 ", 1),
                "a round that no experiment has": entry.replace(" 2 ", f" {2**20} ", 1),
                "an ending with a round": entry.replace("manifest", "ending"),
                "an experiment with a digest": f"secvm-v2-experiment {EXPERIMENT} {EXPERIMENT}\n",
                "a digest too short": entry.replace("00", "", 1),
                "an opening without a digest": f"secvm-v2-opening {EXPERIMENT} 1\n",
                "a word too many": f"secvm-v2-ending {EXPERIMENT} {EXPERIMENT} {EXPERIMENT}\n",
            }.items()
        ],
        "proofs": [{"why": why, "fault": fault, "file": text} for why, (fault, text) in proofs.items()],
        "paths": [
            {"why": why, "path": path}
            for why, path in {
                "a stroke before it": "/tile/0/000",
                "a level with a zero before it": "tile/00/000",
                "a level that no tree has": "tile/8/000",
                "too few digits": "tile/0/00",
                "too many groups": "tile/0/x000/001",
                "no x": "tile/0/001/000",
                "an x in the last group": "tile/0/x001/x000",
                "a width of zero": "tile/0/000.p/0",
                "a full width": "tile/0/000.p/256",
                "a width with a zero before it": "tile/0/000.p/07",
            }.items()
        ],
        "bundles": [
            {"why": why, "width": width, "bytes": data}
            for why, width, data in (
                ("nothing", 1, ""),
                ("half a length", 1, "00"),
                ("an entry that is not whole", 1, "000201"),
                ("an entry too few", 2, "000101"),
                ("an entry too many", 1, "0001010000"),
            )
        ],
    }


FILES: dict[str, Callable[[], JSON]] = {
    maker.__name__: maker for maker in (merkle, checkpoints, log, bad_merkle, bad_checkpoints, bad_log)
}
