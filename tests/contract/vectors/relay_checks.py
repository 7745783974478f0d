"""Checks of the vectors of rounds with two relays: by the code of this package and, where short, by a formula alone."""

import hashlib
import json

import pytest
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric import x25519

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.layers import open_inner, open_outer
from secvm.crypto.signing import Envelope, VerifyKey, verify
from secvm.crypto.voprf import derive_key_pair
from secvm.errors import (
    BadProofError,
    MalformedMessageError,
    RemoteProtocolError,
)
from secvm.protocol.canonical import Fields, encode_document
from secvm.protocol.codec import check_package, decode
from secvm.protocol.documents.experiment import ExperimentDocument, read_published
from secvm.protocol.documents.faults import OpeningFault
from secvm.protocol.relays.batches import Absence, Place, capsule_digest, capsule_root, label_from_text, label_of
from secvm.protocol.relays.commitments import (
    EntryCommitment,
    MixCommitment,
    check_part,
)
from secvm.protocol.relays.counting import CapsuleReader, Cells
from secvm.protocol.relays.counts import EntryCount, EntryReveal, MixCount, MixReveal
from secvm.protocol.relays.manifest import RelayedManifest, manifest_faults, read_manifest
from secvm.protocol.relays.news import News
from secvm.protocol.relays.opening import Opening, RelayedEnding, is_opened, opening_faults
from secvm.protocol.relays.recount import ShardTally
from secvm.protocol.relays.shards import ShardProof, read_run, read_sub_tally
from secvm.protocol.relays.statements import Statement
from secvm.protocol.relays.submission import (
    Canary,
    Receipt,
    canary_capsules,
    draw_order,
    read_request,
    recounts,
    seal_submission,
)
from tests.contract.vectors.reading import JSON, bytes_of, refused, root_over, unhex

KINDS: dict[str, type[Statement]] = {
    kind.purpose: kind
    for kind in (MixCommitment, EntryCommitment, Receipt, EntryCount, MixCount, EntryReveal, MixReveal)
}


def place_of(case: JSON) -> Place:
    return Place.from_fields(Fields({name: case[name] for name in ("digest", "index", "path")}, "a place"))


def absence_of(case: JSON) -> Absence:
    return Absence.from_fields(Fields({name: case[name] for name in ("left", "right")}, "an absence"))


def check_label(content: JSON) -> None:
    for case in content["labels"]:
        payload = bytes.fromhex(case["payload"])
        assert label_of(payload).hex() == case["label"] == hashlib.sha256(payload).hexdigest()
        assert label_from_text(case["label"]) == label_of(payload)
    for case in content["roots"]:
        digests = unhex(case["digests"])
        assert capsule_root(digests).hex() == case["root"] == root_over(digests)
    for case in content["places"]:
        place_of(case).check(size=case["size"], root=bytes.fromhex(case["root"]))
    for case in content["absences"]:
        root = bytes.fromhex(case["root"])
        absence_of(case).check(bytes.fromhex(case["digest"]), size=case["size"], root=root)


def check_bad_label(content: JSON) -> None:
    root = bytes.fromhex(content["root"])
    refused(content["places"], lambda case: place_of(case).check(size=case["size"], root=root), BadProofError)
    for case in content["absences"]:
        with pytest.raises(BadProofError):
            absence_of(case).check(bytes.fromhex(case["digest"]), size=content["size"], root=root)
    refused(content["labels"], lambda case: label_from_text(case["text"]), MalformedMessageError)


def check_layers(content: JSON) -> None:
    suite = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_128_GCM)
    for case in content["cases"]:
        told = {name: bytes.fromhex(text) for name, text in case.items()}
        count, mix = X25519PrivateKey.derive(told["count_seed"]), X25519PrivateKey.derive(told["mix_seed"])
        for key, name in ((count, "count"), (mix, "mix")):
            assert key.secret_bytes() == told[f"{name}_private_key"]
            assert key.public_key.to_bytes() == told[f"{name}_key"]
        assert hashlib.sha256(told["count_seed"]).digest() == told["count_seed_hash"]
        label, inner = told["label"], told["inner"]
        assert open_inner(count, label, open_outer(mix, label, told["outer"])) == told["package"]
        assert hashlib.sha256(inner).digest() == told["inner_digest"]
        # By an implementation that is not ours.
        for name, layer, inside in (("mix", "outer", inner), ("count", "inner", told["package"])):
            private = x25519.X25519PrivateKey.from_private_bytes(told[f"{name}_private_key"])
            info = f"secvm-v2-{layer}\n".encode() + label
            assert suite.decrypt(told[layer], private, info) == inside


def check_commitments(content: JSON) -> None:
    for case in content["cases"]:

        def derived(what: bytes, key: bytes = bytes.fromhex(case["secret"])) -> str:
            return hashlib.blake2b(what, digest_size=32, key=key, person=b"secvm-v2-seeds\0\0").hexdigest()

        parts, seeds = case["parts"], unhex(case["part_seeds"])
        assert case["part_seeds"] == [derived(j.to_bytes(4, "little")) for j in range(parts)]
        assert case["nonce"] == derived(b"nonce")
        assert case["mix_private_key"] == X25519PrivateKey.derive(bytes.fromhex(derived(b"key"))).secret_bytes().hex()
        entries = [hashlib.sha256(b"secvm-v2-part-seed\n" + seed).digest() for seed in seeds]
        assert case["part_entries"] == [entry.hex() for entry in entries]
        assert case["parts_root"] == root_over(entries)
        path, root = unhex(case["path"]), bytes.fromhex(case["parts_root"])
        check_part(seeds[case["part"]], part=case["part"], parts=parts, path=path, root=root)
        assert json.loads(case["mix_commitment"])["parts"] == case["parts_root"]
        assert json.loads(case["entry_commitment"])["parts"] == case["parts_root"]
        assert json.loads(case["entry_commitment"])["nonce"] == hashlib.sha256(bytes.fromhex(case["nonce"])).hexdigest()
        assert case["token_seed"] == derived(b"tokens")
        key = derive_key_pair(bytes.fromhex(case["token_seed"]), b"secvm-v2-token-round").public.hex()
        assert json.loads(case["entry_commitment_with_tokens"]) == json.loads(case["entry_commitment"]) | {
            "tokens": key
        }
    for case in content["opened_parts"]:
        nonce = bytes.fromhex(case["nonce"])
        drawn = hashlib.sha256(nonce + bytes.fromhex(case["mix_count"])).hexdigest()
        assert case["part"] == int(drawn, 16) % case["parts"]


def check_statements(content: JSON) -> None:
    assert {case["type"] for case in content["cases"]} == set(KINDS)
    for case in content["cases"]:
        envelope, kind = bytes.fromhex(case["envelope"]), KINDS[case["type"]]
        found = kind.read(envelope, VerifyKey(bytes.fromhex(case["public_key"])))
        assert found.data.decode() == case["payload"] == Envelope.from_bytes(envelope).payload.decode()
        assert found.digest == case["digest"] == hashlib.sha256(case["payload"].encode()).hexdigest()
    for case in content["receipts"]:
        assert root_over(unhex(case["digests"])) == case["root"]


def check_bad_statements(content: JSON) -> None:
    assert {case["type"] for case in content["cases"]} == set(KINDS)

    def read(case: JSON) -> object:
        return KINDS[case["type"]].read(bytes.fromhex(case["envelope"]), VerifyKey(bytes.fromhex(case["public_key"])))

    refused(content["cases"], read)


def check_manifest(content: JSON) -> None:
    document, before = ExperimentDocument.from_bytes(content["document"].encode()), None
    for case in content["cases"]:
        before = read_manifest(bytes.fromhex(case["envelope"]), document, before)
        assert before.data.decode() == case["payload"]
        assert before.label.hex() == case["label"] == hashlib.sha256(case["payload"].encode()).hexdigest()
        assert before.round_number == case["round"]


def check_bad_manifests(content: JSON) -> None:
    document = ExperimentDocument.from_bytes(content["document"].encode())
    before = RelayedManifest.from_bytes(content["before"].encode())
    refused(content["cases"], lambda case: read_manifest(bytes.fromhex(case["envelope"]), document, before))
    for case in content["cases"]:
        if case["fault"] == "inconsistent":
            payload = Envelope.from_bytes(bytes.fromhex(case["envelope"])).payload
            found = manifest_faults(RelayedManifest.from_bytes(payload), document, before)
            assert [fault.name for fault in found] == case["faults"] != []


def check_opening(content: JSON) -> None:
    document = ExperimentDocument.from_bytes(content["document"].encode())
    manifest = RelayedManifest.from_bytes(content["manifest"].encode())
    for case in content["cases"]:
        opening = document.read(Opening, bytes.fromhex(case["envelope"]))
        assert opening.data.decode() == case["payload"]
        assert opening_faults(opening, manifest, document) == ()
        assert [what.name.lower() for what in opening.missing] == case["missing"]
        assert is_opened(opening, manifest, document) == (not case["missing"])


def check_bad_openings(content: JSON) -> None:
    document = ExperimentDocument.from_bytes(content["document"].encode())
    manifest = RelayedManifest.from_bytes(content["manifest"].encode())
    good = json.loads(content["good"])
    assert is_opened(Opening.from_bytes(content["good"].encode()), manifest, document)
    # A count key that its seed does not give is a fault of the manifest: no opening shows it alone.
    seen = {fault for case in content["cases"] for fault in case["faults"]}
    assert seen == {fault.name for fault in OpeningFault} - {"COUNT_KEY"}
    for case in content["cases"]:
        opening = Opening.from_bytes(encode_document({**good, **case["changes"]}))
        assert [fault.name for fault in opening_faults(opening, manifest, document)] == case["faults"] != []
        assert not is_opened(opening, manifest, document)
    refused(content["malformed"], lambda case: Opening.from_bytes(bytes_of(case)), MalformedMessageError)


def check_ending(content: JSON) -> None:
    key = VerifyKey(bytes.fromhex(content["public_key"]))
    for case in content["cases"]:
        payload = verify(bytes.fromhex(case["envelope"]), purpose="secvm-v2-ending", keys=[key])
        assert RelayedEnding.from_bytes(payload).data.decode() == case["payload"]


def check_shards(content: JSON) -> None:
    for case in content["proofs"]:
        digests, sub_tally = unhex(case["digests"]), bytes.fromhex(case["sub_tally"])
        roots = {name: bytes.fromhex(case[name]) for name in ("shards", "mix_root")}
        proof = ShardProof.from_bytes(case["proof"].encode())
        assert proof.shard == case["shard"] == (case["capsules"] - 1) // 4096
        proof.check(digests, sub_tally, capsules=case["capsules"], **roots)
        entry = hashlib.sha256(b"".join(digests)).hexdigest() + hashlib.sha256(sub_tally).hexdigest()
        assert case["entry"] == entry
        run = read_run(bytes.fromhex(case["run_file"]), shard=case["shard"], capsules=case["capsules"])
        assert (run.path, run.digests) == (proof.mix_path, tuple(digests))
        tally = ShardTally.from_bytes(bytes.fromhex(case["tally_file"]))
        assert (tally.path, tally.sub_tally) == (proof.path, sub_tally)
    for case in content["recounts"]:
        drawn = hashlib.sha256(b"secvm-v2-recount\n" + bytes.fromhex(case["ephemerals"])).digest()[0] % 64 == 0
        assert recounts(bytes.fromhex(case["ephemerals"])) is case["recounts"] is drawn
    assert {case["recounts"] for case in content["recounts"]} == {True, False}
    for case in content["sub_tallies"]:
        counts = dict(case["counts"])
        lines = b"".join(n.to_bytes(8, "little") for pair in case["counts"] for n in pair)
        assert case["bytes"] == lines.hex()
        assert read_sub_tally(lines, cells=30, capsules=4096) == counts
    for case in content["cells"]:
        cells = Cells(case["models"], case["bins"], case["labels"], tested=True)
        package = decode(bytes.fromhex(case["package"])).package
        assert cells.cell_of(package) == case["cell"]
        assert case["cell"] is None or cells.package_of(case["cell"]) == package


def check_submission(content: JSON) -> None:
    for case in content["cases"]:
        document = ExperimentDocument.from_bytes(case["document"].encode())
        manifest = RelayedManifest.from_bytes(case["manifest"].encode())
        order = draw_order(document.budget, map(int, case["words"]))
        assert list(order.places) == case["order"]
        token, ephemerals, body = (bytes.fromhex(case[name]) for name in ("token", "ephemerals", "body"))
        packages = [decode(data).package for data in unhex(case["packages"])]
        sealed = seal_submission(document, manifest, packages, order=order, ephemerals=ephemerals, token=token)
        assert sealed.body == body
        assert sealed.canary.to_bytes() == case["canary"].encode()
        # By hand: 128 bytes a capsule behind the token, ascending, and the canary at the place of the last package.
        digests = [capsule_digest(capsule) for capsule in read_request(body, budget=document.budget, token=len(token))]
        assert body.startswith(token)
        assert digests == sorted(digests)
        at = 64 * case["order"][-1]
        inner, outer = canary_capsules(manifest, document.experiment_id, ephemerals[at : at + 64])
        canary = Canary.from_bytes(case["taken"].encode())
        assert canary.inner_digest == capsule_digest(inner)
        assert digests[canary.place.index] == canary.place.digest == capsule_digest(outer)
        receipt = Receipt.read(bytes.fromhex(case["receipt"]), document.entry_relay.key)
        canary.check_receipt(receipt)
        assert canary == sealed.canary.with_receipt(bytes.fromhex(case["receipt"]))
        assert receipt.root.hex() == root_over(digests)


def check_news(content: JSON) -> None:
    for case in content["cases"]:
        lines = b"".join(len(line).to_bytes(2, "big") + line for line in unhex(case["lines"]))
        last = case["first_line"].to_bytes(8, "little") + lines if lines else b""
        data = b"".join(len(part).to_bytes(4, "little") + part for part in [*unhex(case["parts"]), last])
        read = News.from_bytes(bytes.fromhex(case["news"]))
        assert data.hex() == case["news"]
        assert [read.manifest, read.opening, read.tally, read.checkpoint] == unhex(case["parts"])
        assert (read.first_line, list(read.lines)) == (case["first_line"], unhex(case["lines"]))
    refused(unhex(content["bad"]), News.from_bytes, MalformedMessageError)


def check_bad_shards(content: JSON) -> None:
    roots = {name: bytes.fromhex(content[name]) for name in ("shards", "mix_root")}
    for case in content["cases"]:
        proof = ShardProof.from_bytes(case["proof"].encode())
        with pytest.raises(BadProofError):
            proof.check(unhex(case["digests"]), bytes.fromhex(case["sub_tally"]), capsules=case["capsules"], **roots)
    refused(content["proofs"], lambda case: ShardProof.from_bytes(bytes_of(case)), MalformedMessageError)
    refused(
        content["sub_tallies"],
        lambda case: read_sub_tally(bytes_of(case), cells=case["cells"], capsules=case["capsules"]),
        MalformedMessageError,
    )


def check_junk(content: JSON) -> None:
    document = ExperimentDocument.from_bytes(content["document"].encode())
    label, seed = bytes.fromhex(content["label"]), bytes.fromhex(content["count_seed"])
    key = X25519PrivateKey.derive(seed)
    reader = CapsuleReader(document, label, content["round"], key)
    cells = Cells.of(document.experiment)
    assert {case["junk"] for case in content["cases"]} == {False, True}
    for case in content["cases"]:
        capsule = bytes.fromhex(case["capsule"])
        package = reader.package(capsule)
        assert (package is None) == case["junk"]
        assert (None if package is None else cells.cell_of(package)) == case["cell"]
        try:
            again = check_package(
                decode(open_inner(key, label, capsule)),
                experiment_id=document.experiment_id,
                experiment=document.experiment,
                round_number=content["round"],
            )
        except RemoteProtocolError:
            again = None
        assert again == package
    assert reader.sub_tally(unhex([case["capsule"] for case in content["cases"]])).hex() == content["sub_tally"]


def check_experiment_document(content: JSON) -> None:
    for case in content["cases"]:
        document = ExperimentDocument.from_bytes(case["text"].encode())
        assert document.digest == case["digest"] == hashlib.sha256(case["text"].encode()).hexdigest()
        assert read_published(bytes.fromhex(case["envelope"]), digest=case["digest"]) == document
        cover = document.relay_cover
        assert [noise.cells for noise in cover.kinds] == case["cells"]
        assert (document.budget, cover.parts, cover.packages) == (case["budget"], case["parts"], case["packages"])


def check_bad_experiment_documents(content: JSON) -> None:
    assert ExperimentDocument.from_bytes(content["good"].encode()).relays
    refused(content["cases"], lambda case: ExperimentDocument.from_bytes(bytes_of(case)), MalformedMessageError)
