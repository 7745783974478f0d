"""Every file of the vectors is checked, by the code of this package and, where it is short, by a formula alone."""

import hashlib
import inspect
import json
import math
import struct
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import siphash24  # type: ignore[import-not-found]  # compiled, without types
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric import x25519

from secvm.crypto.sealing import binary_http, kem, oblivious
from secvm.crypto.sealing.hpke import AEADS, Schedule
from secvm.errors import (
    BadInputError,
    MalformedMessageError,
    OpeningError,
    UnknownKeyError,
)
from secvm.learning.aggregate.descent import State, rule_by_name
from secvm.learning.aggregate.tally import Tally
from secvm.learning.arithmetic import exact
from secvm.learning.experiment import Experiment, Robust
from secvm.learning.individual.binning import Binning, HashBinning, VocabularyBinning, bin_features
from secvm.learning.individual.dice import Purpose, UnsafeSeededDice, draw_cohort, sample_features
from secvm.learning.label_models import LabelModels
from secvm.learning.losses import Loss
from secvm.learning.thinning import Thinning
from tests.contract.vectors import (
    beacon_checks,
    cover_part_checks,
    locking_checks,
    log_checks,
    page_checks,
    policy_checks,
    protocol_checks,
    relay_checks,
    tally_checks,
    token_checks,
    trusted_checks,
)
from tests.contract.vectors.reading import JSON, bytes_of, read_package, refused

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "vectors/v2"


def siphash(key: str, message: bytes) -> int:
    """By an implementation that is not ours."""
    return int.from_bytes(siphash24.siphash24(message, key=bytes.fromhex(key)).digest(), "little")


def dice_word(key: str, round_number: int, model: int, index: int) -> int:
    return siphash(key, (round_number * 2**44 + model * 2**32 + index).to_bytes(8, "little"))


def integers(texts: list[str]) -> list[int]:
    assert all(isinstance(t, str) for t in texts)
    return [int(t) for t in texts]


def maybe(text: str | None) -> Fraction | None:
    return None if text is None else exact(text)


def read_binning(told: JSON) -> Binning:
    if told["kind"] == "hash":
        return HashBinning(n_bins=told["n_bins"], salt=bytes.fromhex(told["salt"]), n_hashes=told["n_hashes"])
    vocabulary = VocabularyBinning(words=tuple(told["words"]))
    assert vocabulary.digest == told["digest"]
    return vocabulary


def read_experiment(told: JSON) -> Experiment:
    return Experiment(
        n_bins=told["n_bins"],
        labels=tuple(told["labels"]),
        multiclass=told["multiclass"],
        rule=rule_by_name(told["rule"]["name"], told["rule"]["parameters"]),
        loss=Loss(told["loss"]["name"], maybe(told["loss"]["parameter"])),
        thinning=Thinning(q=maybe(told["thinning"]["q"]), rho=maybe(told["thinning"]["rho"])),
        class_weights=tuple(exact(w) for w in told["class_weights"]),
        budget=told["budget"],
        robust=None
        if told["robust"] is None
        else Robust(clip=maybe(told["robust"]["clip"]), trim=told["robust"]["trim"]),
    )


# ── one check per file ───────────────────────────────────────────────────────────────────────────────────────────────


def check_hashing(content: JSON) -> None:
    for case in content["siphash"]:
        assert siphash(case["key"], bytes.fromhex(case["message"])) == int(case["hash"], 16)
    for case in content["cases"]:
        assert case["feature"].encode().hex() == case["utf8"]
        seed = bytes.fromhex(case["salt"]) + struct.pack("<QI", case["n_bins"], case["hash_index"])
        assert hashlib.blake2b(seed, digest_size=16, person=b"secvm-v1-binning").hexdigest() == case["key"]
        assert siphash(case["key"], bytes.fromhex(case["utf8"])) == int(case["hash"], 16)
        assert (int(case["hash"][:8], 16) * case["n_bins"]) // 2**32 == case["bin"]


def check_range_reduction(content: JSON) -> None:
    for case in content["cases"]:
        assert int(case["hash"][:8], 16) * case["n_bins"] // 2**32 == case["bin"]


def check_binning(content: JSON) -> None:
    for case in content["cases"]:
        binning = read_binning(case["binning"])
        vector = bin_features(dict(case["features"]), binning, presence=case["presence"])
        assert [[b, v] for b, v in vector.values.items()] == case["values"]


def check_arithmetic(content: JSON) -> None:
    for case in content["to_fixed"]:
        numerators, scale = integers(case["numerators"]), Fraction(case["scale"])
        assert [round(n * scale * 2**32) for n in numerators] == integers(case["fixed"])
    for name in ("integer_mantissas", "float_mantissas"):
        for case in content[name]:
            floats = name == "float_mantissas"
            values = [struct.unpack(">d", bytes.fromhex(v))[0] if floats else int(v) for v in case["values"]]
            assert [round(Fraction(v) / Fraction(2) ** case["exponent"]) for v in values] == case["mantissas"]


def check_dice(content: JSON) -> None:
    for case in content["cases"]:
        seed = bytes.fromhex(case["seed"])
        message = struct.pack("<QI", case["participant"], len(seed)) + seed + case["purpose"].encode()
        assert hashlib.blake2b(message, digest_size=16, person=b"secvm-v1-dice\0\0\0").hexdigest() == case["key"]
        assert dice_word(case["key"], case["round"], case["model"], case["index"]) == int(case["word"])
    told = {purpose.value for purpose in Purpose}
    assert {case["purpose"] for case in content["cases"]} == told


def check_drawing(content: JSON) -> None:
    seed = bytes.fromhex(content["seed"])
    for case in content["cohorts"]:
        dice = UnsafeSeededDice(seed, case["participant"])
        assert draw_cohort(Fraction(case["train_share"]), dice).value == case["cohort"]
    for case in content["samples"]:
        dice = UnsafeSeededDice(seed, case["participant"])
        sample = sample_features(dict(case["features"]), case["limit"], dice)
        assert [[name, value] for name, value in sample.items()] == case["sample"]


def check_losses(content: JSON) -> None:
    table = content["logistic_table"]
    for k in range(0, 4096, 97):
        assert math.isclose(table[k] / 2**32, math.log((8191 - 2 * k) / (2 * k + 1)), rel_tol=1e-9, abs_tol=1e-9)
    for case in content["targets"]:
        centre, spread = Fraction(case["centre"]), Fraction(case["spread"])
        assert round((Fraction(case["target"]) - centre) / spread * 2**32) == int(case["fixed"])


def check_update(content: JSON) -> None:
    for case in content["cases"]:
        x = {**dict(case["vector"]), len(case["mantissas"]) - 1: 1}
        total = sum(case["mantissas"][b] * v for b, v in x.items())
        assert total == case["score"], case["note"]
        assert abs(total) < 2**53
        scale = 1 / (Fraction(case["unit"]) * 2**32)
        if case["normalised"]:
            assert math.isqrt(sum(v * v for v in x.values()) * 2**32) == int(case["norm"])
            scale *= Fraction(int(case["norm"]), 2**16)
        threshold, width, limit = int(case["threshold"]), int(case["width"]), 2**60
        lower = max(-limit, min(limit, math.ceil((threshold - width) * scale)))
        upper = max(-limit, min(limit, math.floor((threshold + width) * scale)))
        assert [lower, upper] == integers(case["band"]), case["note"]
        y = case["label_sign"]
        if case["first"]:
            sign = y or (threshold > 0) - (threshold < 0)
        elif y is None:
            sign = (total < lower) - (total > upper)
        else:
            sign = y if y * total < lower else 0
        assert sign == case["sign"], case["note"]
        assert case["update"] == ([[b, sign * v] for b, v in sorted(x.items())] if sign else None)


def check_labels(content: JSON) -> None:
    for case in content["cases"]:
        models = LabelModels(case["n_labels"], case["multiclass"])
        assert models.signs.tolist() == case["signs"]
        assert models.predict(np.array(case["scores"], dtype=np.int64)).tolist() == case["winners"]


def check_splitting(content: JSON) -> None:
    for case in content["cases"]:
        units = [[case["model"], b, 1 if v > 0 else -1] for b, v in case["update"] for _ in range(abs(v))]
        assert units == case["packages"]
    for case in content["budget"]:
        words = [dice_word(case["key"], case["round"], 0, i) for i in range(len(case["packages"]))]
        assert words == integers(case["words"])
        stays = sorted(sorted(range(len(words)), key=lambda i: words[i])[: case["budget"]])
        assert [case["packages"][i] for i in stays] == case["kept"]


def check_thinning(content: JSON) -> None:
    for case in content["probabilities"]:
        if case["rho"] is None:
            q = Fraction(case["q"] or 1)
            assert [int(keep) for keep in case["keep53"]] == [int(q * 2**53)] * len(case["squared_norms"])
    for case in content["cases"]:
        units = [[case["model"], b, 1 if v > 0 else -1] for b, v in case["update"] for _ in range(abs(v))]
        words = [dice_word(case["key"], case["round"], case["model"], i) for i in range(len(units))]
        assert words == integers(case["words"])
        kept = [i for i, word in enumerate(words) if word // 2**11 < int(case["keep53"])]
        assert kept == case["kept_units"]
        assert [units[i] for i in kept] == case["packages"]


def check_state(content: JSON) -> None:
    for case in content["cases"]:
        for told in case["rounds"]:
            assert hashlib.sha256(bytes.fromhex(told["state"])).hexdigest() == told["sha256"]
            assert State.from_bytes(bytes.fromhex(told["state"])).to_bytes().hex() == told["state"]
    assert {case["experiment"]["rule"]["name"] for case in content["cases"]} == {"pegasos", "swift"}


def check_weights(content: JSON) -> None:
    for case in content["cases"]:
        State.from_bytes(bytes.fromhex(case["state"]))
        for told in (case["training"], case["evaluation"]):
            magic, line, body = bytes.fromhex(told["bytes"]).split(b"\n", 2)
            assert magic == b"secvm-weights-v1"
            shape = (len(told["mantissas"]), len(told["mantissas"][0]))
            assert json.loads(line) == {
                "bins": shape[1],
                "first": told["first"],
                "models": shape[0],
                "normalised": told["normalised"],
                "unit": told["unit"],
            }
            assert list(struct.unpack(f"<{shape[0] * shape[1]}i", body)) == [
                m for row in told["mantissas"] for m in row
            ]


def check_contribution(content: JSON) -> None:
    for case in content["cases"]:
        budget, packages = read_experiment(case["experiment"]).budget, [read_package(told) for told in case["packages"]]
        assert budget in (None, len(packages))
        # Somebody is of one cohort, and says so once.
        kinds = [told["kind"] for told in case["packages"]]
        assert kinds.count("participation") == 1
        assert ("test" in kinds, "train" in kinds) != (True, True)
        assert case["cohort"] == next(told["cohort"] for told in case["packages"] if "cohort" in told)


def check_bad_states(content: JSON) -> None:
    State.from_bytes(bytes.fromhex(content["good"]))
    refused(content["cases"], lambda case: State.from_bytes(bytes_of(case)), BadInputError)


def check_bad_packages(content: JSON) -> None:
    empty = Tally.empty(n_models=content["n_models"], n_bins=content["n_bins"], n_labels=content["n_labels"])
    refused(content["cases"], lambda case: empty.count([read_package(case["package"])[0]]), BadInputError)


def check_bad_vocabularies(content: JSON) -> None:
    refused(content["cases"], lambda case: VocabularyBinning(words=tuple(case["words"])), BadInputError)


def check_bad_experiments(content: JSON) -> None:
    read_experiment(content["good"])
    refused(content["cases"], lambda case: read_experiment(case["experiment"]), BadInputError)


def pyca_suite(aead: int) -> hpke.Suite:
    """Somebody else's HPKE."""
    return hpke.Suite(
        hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, {1: hpke.AEAD.AES_128_GCM, 3: hpke.AEAD.CHACHA20_POLY1305}[aead]
    )


def throw_once(text: str) -> kem.RandomBytes:
    return lambda count: bytes.fromhex(text)[:count]


def read_private(kem_id: int, data: str) -> kem.X25519PrivateKey | kem.HybridPrivateKey:
    data_bytes = bytes.fromhex(data)
    return kem.X25519PrivateKey(data_bytes) if kem_id == kem.X25519 else kem.HybridPrivateKey(data_bytes)


def exchange_is_right(case: JSON) -> None:
    unhex = bytes.fromhex
    configuration = oblivious.KeyConfiguration.from_bytes(unhex(case["configuration"]))
    private = read_private(configuration.public_key.kem_id, case["private_key"])
    sealed = oblivious.seal_request(configuration, unhex(case["request"]), throw_once(case["ephemeral"]))
    assert sealed.capsule.hex() == case["capsule"]
    # By an implementation that is not ours.
    pyca_private = x25519.X25519PrivateKey.from_private_bytes(unhex(case["private_key"]))
    info = b"message/bhttp request\0" + sealed.capsule[:7]
    aead = int.from_bytes(sealed.capsule[5:7], "big")
    assert pyca_suite(aead).decrypt(sealed.capsule[7:], pyca_private, info).hex() == case["request"]
    key = oblivious.GatewayKey(configuration.key_id, private, (configuration.chosen,))
    opened = oblivious.GatewayKeys([key]).open(sealed.capsule)
    assert opened.request.hex() == case["request"]
    assert opened.seal_response(unhex(case["response"]), throw_once(case["nonce"])).hex() == case["answer"]
    assert sealed.open_response(unhex(case["answer"])).hex() == case["response"]
    assert case["answer"].startswith(case["nonce"])


def check_sealing(content: JSON) -> None:
    unhex = bytes.fromhex
    for case in content["hpke"]:
        private = kem.X25519PrivateKey(unhex(case["private_key"]))
        assert private.public_key.to_bytes().hex() == case["public_key"]
        assert private.decapsulate(unhex(case["enc"])).hex() == case["shared_secret"]
        schedule = Schedule(kem.X25519, AEADS[case["aead"]], unhex(case["info"]))
        recipient = schedule.receive(private, unhex(case["enc"]))
        for ciphertext in case["ciphertexts"]:
            assert recipient.open(unhex(case["aad"]), unhex(ciphertext)).hex() == case["plaintext"]
        length = len(case["exported"]) // 2
        assert recipient.export(unhex(case["export_context"]), length).hex() == case["exported"]
        if not case["aad"]:
            theirs = x25519.X25519PrivateKey.from_private_bytes(unhex(case["private_key"]))
            sealed = unhex(case["enc"] + case["ciphertexts"][0])
            assert pyca_suite(case["aead"]).decrypt(sealed, theirs, unhex(case["info"])).hex() == case["plaintext"]
    for case in content["configurations"]:
        configuration = oblivious.KeyConfiguration.from_bytes(unhex(case["configuration"]))
        assert configuration.key_id == case["key_id"]
        assert configuration.public_key == read_private(case["kem"], case["private_key"]).public_key
        assert [list(pair) for pair in configuration.algorithms] == case["algorithms"]
        assert configuration.to_bytes().hex() == case["configuration"]
    for case in content["documents"]:
        read = oblivious.decode_key_configurations(unhex(case["document"]))
        assert [one.to_bytes().hex() for one in read] == case["known"]
    for case in content["cases"]:
        exchange_is_right(case)


def read_fields(told: list[list[str]]) -> tuple[binary_http.Field, ...]:
    return tuple((name.encode("ascii"), value.encode("ascii")) for name, value in told)


def read_message(told: JSON) -> binary_http.Request | binary_http.Response:
    headers, trailers = read_fields(told["headers"]), read_fields(told["trailers"])
    content = bytes.fromhex(told["content"])
    if "method" in told:
        method, scheme, authority, path = (told[n].encode("ascii") for n in ("method", "scheme", "authority", "path"))
        return binary_http.Request(
            method=method,
            scheme=scheme,
            authority=authority,
            path=path,
            headers=headers,
            content=content,
            trailers=trailers,
        )
    early = tuple(
        binary_http.InformationalResponse(status=one["status"], headers=read_fields(one["headers"]))
        for one in told["informational"]
    )
    return binary_http.Response(
        status=told["status"], headers=headers, content=content, trailers=trailers, informational=early
    )


def check_sealing_messages(content: JSON) -> None:
    for case in content["cases"]:
        message, data = read_message(case["message"]), bytes.fromhex(case["bytes"])
        decode = {"request": binary_http.decode_request, "response": binary_http.decode_response}[case["kind"]]
        assert decode(data) == message
    for case in content["others"]:
        assert binary_http.decode_request(bytes.fromhex(case["bytes"])) == read_message(case["message"]), case["why"]


def check_bad_sealing(content: JSON) -> None:
    good = content["good"]
    exchange_is_right(good)
    errors = {"malformed": MalformedMessageError, "unknown key": UnknownKeyError, "does not open": OpeningError}
    configuration = oblivious.KeyConfiguration.from_bytes(bytes.fromhex(good["configuration"]))
    key = oblivious.GatewayKey(configuration.key_id, read_private(kem.X25519, good["private_key"]))
    opened = oblivious.GatewayKeys([key]).open_unanswered(
        [bytes.fromhex(case["capsule"]) for case in content["capsules"]]
    )
    for case, error in zip(content["capsules"], opened, strict=True):
        assert type(error) is errors[case["error"]], case["why"]
    request = bytes.fromhex(good["request"])
    sealed = oblivious.seal_request(configuration, request, throw_once(good["ephemeral"]))
    for case in content["answers"]:
        refused([case], lambda case: sealed.open_response(bytes.fromhex(case["answer"])), errors[case["error"]])
    configurations = [bytes.fromhex(case["configuration"]) for case in content["configurations"]]
    refused(configurations, oblivious.KeyConfiguration.from_bytes, MalformedMessageError)
    documents = [bytes.fromhex(case["document"]) for case in content["documents"]]
    refused(documents, oblivious.decode_key_configurations, MalformedMessageError)


def check_bad_sealing_messages(content: JSON) -> None:
    decoders = {"request": binary_http.decode_request, "response": binary_http.decode_response}
    refused(content["cases"], lambda case: decoders[case["kind"]](bytes_of(case)), MalformedMessageError)


MODULES = (
    *(protocol_checks, tally_checks, locking_checks, log_checks, policy_checks, token_checks),
    *(trusted_checks, beacon_checks, relay_checks, cover_part_checks, page_checks),
)
#: Checks of whole files, by their names: functions of one argument, the content.
CHECKS: dict[str, Callable[[JSON], None]] = {
    name.removeprefix("check_"): check
    for found in (globals(), *map(vars, MODULES))
    for name, check in list(found.items())
    if name.startswith("check_") and list(inspect.signature(check).parameters) == ["content"]
}


def numbers_in(value: object) -> list[int]:
    if isinstance(value, dict):
        return [n for inner in value.values() for n in numbers_in(inner)]
    if isinstance(value, list):
        return [n for inner in value for n in numbers_in(inner)]
    assert not isinstance(value, float)
    return [value] if isinstance(value, int) and not isinstance(value, bool) else []


FILES = sorted(FOLDER.glob("*"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_file_is_checked_and_right(file: Path) -> None:
    assert file.suffix == ".json"
    content = json.loads(file.read_text(encoding="ascii"))
    assert content["description"]
    # What JavaScript would round is written as text.
    assert all(abs(n) <= 2**53 for n in numbers_in(content))
    assert file.stem in CHECKS, "no check for this file"
    for name, cases in content.items():
        if isinstance(cases, list):
            assert cases, f"{name} is empty"
    CHECKS[file.stem](content)


def test_every_check_has_its_file() -> None:
    assert {file.stem for file in FILES} == set(CHECKS)


def test_readme_explains_every_file() -> None:
    readme = (ROOT / "vectors/README.md").read_text(encoding="utf-8")
    missing = [file.name for file in FOLDER.glob("*.json") if f"`{file.name}`" not in readme]
    fields = {
        field
        for file in FILES
        for cases in json.loads(file.read_text(encoding="ascii")).values()
        if isinstance(cases, list) and isinstance(cases[0], dict)
        for field in cases[0]
    }
    missing += [field for field in fields if f"`{field}`" not in readme]
    assert missing == []


def test_generator_gives_the_same_bytes_again() -> None:
    told = subprocess.run(
        [sys.executable, str(ROOT / "vectors/generate.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr
