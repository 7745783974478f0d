"""Checks of the vectors of logs, by the code of this package and, where it is short, by a formula alone."""

import base64
import hashlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from secvm.crypto.merkle import check_consistency, check_inclusion, leaf_hash
from secvm.crypto.notes import Note, NoteKey, SignatureKind
from secvm.crypto.signing import SigningKey, VerifyKey
from secvm.errors import (
    BadProofError,
    MalformedMessageError,
)
from secvm.protocol.canonical import Fields
from secvm.protocol.log.checkpoints import Checkpoint, Quorum, check_enough, read_checkpoint
from secvm.protocol.log.entries import Entry, EntryKind
from secvm.protocol.log.policy import LogTerms
from secvm.protocol.log.proofs import CosigningRequest, LogProof, read_cosignatures
from secvm.protocol.log.tiles import Tile, read_bundle
from tests.contract.vectors.reading import JSON, bytes_of, refused, tree_root, unhex


def inclusion_holds(case: JSON) -> None:
    leaf, root = bytes.fromhex(case["leaf"]), bytes.fromhex(case["root"])
    check_inclusion(leaf, index=case["index"], size=case["size"], proof=unhex(case["proof"]), root=root)


def consistency_holds(case: JSON) -> None:
    first_root, second_root = bytes.fromhex(case["first_root"]), bytes.fromhex(case["second_root"])
    check_consistency(
        first=case["first"],
        second=case["second"],
        first_root=first_root,
        second_root=second_root,
        proof=unhex(case["proof"]),
    )


def check_merkle(content: JSON) -> None:
    for case in content["trees"]:
        leaves = [hashlib.sha256(b"\x00" + entry).digest() for entry in unhex(case["entries"])]
        roots = [tree_root(leaves[:size]).hex() for size in range(len(leaves) + 1)]
        assert case["roots"] == roots
    numbers = [hashlib.sha256(b"\x00%d" % i).digest() for i in range(300)]
    for case in content["inclusions"]:
        assert case["leaf"] == numbers[case["index"]].hex()
        assert case["root"] == tree_root(numbers[: case["size"]]).hex()
        inclusion_holds(case)
    for case in content["consistencies"]:
        assert case["first_root"] == tree_root(numbers[: case["first"]]).hex()
        assert case["second_root"] == tree_root(numbers[: case["second"]]).hex()
        consistency_holds(case)


def check_bad_merkle(content: JSON) -> None:
    inclusion_holds(content["good_inclusion"])
    consistency_holds(content["good_consistency"])
    refused(content["inclusions"], inclusion_holds, BadProofError)
    refused(content["consistencies"], consistency_holds, BadProofError)


def key_id(name: str, kind: int, public: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + bytes([kind]) + public).digest()[:4]


def check_checkpoints(content: JSON) -> None:
    for case in content["keys"]:
        public = bytes.fromhex(case["public_key"])
        assert key_id(case["name"], case["kind"], public).hex() == case["key_id"]
        encoded = base64.b64encode(bytes([case["kind"]]) + public).decode()
        assert f"{case['name']}+{case['key_id']}+{encoded}" == case["verifier_key"]
        key = NoteKey.from_text(case["verifier_key"])
        assert key == NoteKey(case["name"], VerifyKey(public), SignatureKind(case["kind"]))
    for case in content["notes"]:
        check_note(case)
    for case in content["strangers"]:
        note = Note.from_bytes(case["note"].encode())
        assert note.text == case["text"]
        assert NoteKey.from_text(case["verifier_key"]).check(note) == case["time_s"]
    for case in content["checkpoints"]:
        root = base64.b64encode(bytes.fromhex(case["root"])).decode()
        assert case["note"].startswith(f"{case['origin']}\n{case['size']}\n{root}\n\n\u2014 {case['origin']} ")
        signer = SigningKey(bytes.fromhex(case["seed"]))
        found = read_checkpoint(case["note"].encode(), log=NoteKey(case["origin"], signer.public)).checkpoint
        assert found == Checkpoint(case["origin"], case["size"], bytes.fromhex(case["root"]))
    for case in content["quorums"]:
        assert quorum_of(case, case["note"]) == case["fresh"]
    for case in content["requests"]:
        lines = [base64.b64encode(node).decode() + "\n" for node in unhex(case["proof"])]
        assert case["request"] == f"old {case['old']}\n{''.join(lines)}\n{case['checkpoint']}"
        asked = CosigningRequest.from_bytes(case["request"].encode())
        assert asked == CosigningRequest(case["old"], tuple(unhex(case["proof"])), case["checkpoint"].encode())
        answered = read_cosignatures(case["answer"].encode())
        assert Note.from_bytes(case["checkpoint"].encode() + case["answer"].encode()).signatures[1:] == answered


def check_note(case: JSON) -> None:
    text, written = case["text"], case["text"] + "\n"
    for signer in case["signers"]:
        private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(signer["seed"]))
        public, name, time_s = private.public_key().public_bytes_raw(), signer["name"], signer["time_s"]
        if time_s is None:
            data = key_id(name, 1, public) + private.sign(text.encode())
        else:
            message = f"cosignature/v1\ntime {time_s}\n{text}".encode()
            data = key_id(name, 4, public) + time_s.to_bytes(8, "big") + private.sign(message)
        written += f"\u2014 {name} {base64.b64encode(data).decode()}\n"
    assert written == case["note"]
    read = Note.from_bytes(written.encode())
    assert (read.text, len(read.signatures)) == (text, len(case["signers"]))


def quorum_of(terms: JSON, note: str) -> list[str]:
    signed = read_checkpoint(note.encode(), log=NoteKey.from_text(terms["log"]))
    witnesses = [NoteKey.from_text(text) for text in terms["witnesses"]]
    enough = Quorum(terms["quorum"], tuple(dict.fromkeys(witness.key for witness in witnesses)))
    fresh = check_enough(signed.times(witnesses), enough, now=terms["now"], freshness_s=terms["freshness_s"])
    return [witness.name for witness in fresh]


def check_bad_checkpoints(content: JSON) -> None:
    assert quorum_of(content, content["good"])
    refused(content["cases"], lambda case: quorum_of(content, case["note"]))


def logged(content: JSON, file: str, entry: str) -> None:
    terms = LogTerms.from_fields(Fields(content["log"], "the log"))
    Entry.from_bytes(entry.encode())
    terms.check_quorum(LogProof.from_bytes(file.encode()).check(entry.encode(), log=terms.log_key), now=content["now"])


def check_log(content: JSON) -> None:
    leaves = []
    for case in content["entries"]:
        data = bytes.fromhex(case["bytes"])
        words = [case["experiment"], case["round"], case["digest"]]
        told = " ".join(str(word) for word in words if word is not None)
        assert data == f"secvm-v2-{case['kind']} {told}\n".encode()
        entry = Entry(
            kind=EntryKind(case["kind"]),
            experiment=case["experiment"],
            round_number=case["round"],
            digest=case["digest"],
        )
        assert Entry.from_bytes(data) == entry
        assert hashlib.sha256(b"\x00" + data).hexdigest() == case["leaf"]
        leaves.append(bytes.fromhex(case["leaf"]))
    for case in content["proofs"]:
        logged(case, case["file"], case["entry"])
        above, text, lines = case["file"].split("\n\n")
        assert above.split("\n")[:2] == ["c2sp.org/tlog-proof@v1", f"index {case['index']}"]
        assert case["origin"] == f"{case['log']['name']}/secvm/v2"
        root = tree_root(leaves[: case["size"]])
        assert text == f"{case['origin']}\n{case['size']}\n{base64.b64encode(root).decode()}"
        signature = base64.b64decode(lines.split("\n")[0].split(" ")[2])[4:]
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(case["log"]["key"]))
        public.verify(signature, f"{text}\n".encode())
    for case in content["paths"]:
        assert Tile.from_path(case["path"]) == Tile(case["level"], case["tile"], case["width"])
    numbers = [leaf_hash(b"%d" % i) for i in range(300)]
    expected = {
        "tile/0/000": b"".join(numbers[:256]),
        "tile/0/001.p/44": b"".join(numbers[256:]),
        "tile/1/000.p/1": tree_root(numbers[:256]),
    }
    assert {case["path"]: bytes.fromhex(case["bytes"]) for case in content["tiles"]} == expected
    for case in content["bundles"]:
        found = unhex(case["entries"])
        assert b"".join(len(entry).to_bytes(2, "big") + entry for entry in found).hex() == case["bytes"]
        assert read_bundle(bytes.fromhex(case["bytes"]), width=case["width"]) == found


def check_bad_log(content: JSON) -> None:
    logged(content, content["good"], content["entry"])
    refused(content["proofs"], lambda case: logged(content, case["file"], content["entry"]))
    refused(content["entries"], lambda case: Entry.from_bytes(bytes_of(case)), MalformedMessageError)
    refused(content["paths"], lambda case: Tile.from_path(case["path"]), MalformedMessageError)
    refused(content["bundles"], lambda case: read_bundle(bytes_of(case), width=case["width"]), MalformedMessageError)
