"""Every file of the vectors is checked, by the code of this package and, where it is short, by a formula alone."""

import hashlib
import json
import math
import struct
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

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
    RemoteProtocolError,
    UnknownKeyError,
)
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import State, rule_by_name
from secvm.learning.aggregate.tally import Tally
from secvm.learning.arithmetic import exact, mantissas, to_fixed
from secvm.learning.experiment import Experiment, Robust
from secvm.learning.individual.binning import BinnedVector, Binning, HashBinning, VocabularyBinning, bin_features
from secvm.learning.individual.contribution import Individual, contribute, split, thin
from secvm.learning.individual.dice import Purpose, UnsafeSeededDice, draw_cohort, sample_features
from secvm.learning.individual.update import Update, fixed_target, local_update, score
from secvm.learning.label_models import LabelModels
from secvm.learning.losses import Loss, logistic_table
from secvm.learning.package import (
    Cohort,
    NullPackage,
    Package,
    ParticipationPackage,
    Sign,
    TestPackage,
    TrainPackage,
)
from secvm.learning.thinning import Thinning
from secvm.learning.weights import Weights
from tests.contract.vectors import (
    beacon_checks,
    cover_part_checks,
    locking_checks,
    log_checks,
    policy_checks,
    protocol_checks,
    relay_checks,
    tally_checks,
    token_checks,
    trusted_checks,
)

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "vectors/v2"
JSON = dict[str, Any]


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


def read_package(told: JSON) -> Package:
    match told["kind"]:
        case "train":
            return TrainPackage(model=told["model"], bin_index=told["bin"], sign=cast("Sign", told["sign"]))
        case "test":
            return TestPackage(true_class=told["true_class"], predicted_class=told["predicted_class"])
        case "participation":
            return ParticipationPackage(cohort=Cohort(told["cohort"]), class_index=told["class"])
    assert told == {"kind": "null"}
    return NullPackage()


def triples(packages: list[TrainPackage]) -> list[list[int]]:
    return [[p.model, p.bin_index, p.sign] for p in packages]


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
        salt = bytes.fromhex(case["salt"])
        ours = HashBinning(n_bins=case["n_bins"], salt=salt, n_hashes=case["hash_index"] + 1)
        assert ours.bins_of(case["feature"])[-1] == case["bin"]


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
        assert to_fixed(np.array(numerators, dtype=np.int64), scale).tolist() == integers(case["fixed"])
    for name in ("integer_mantissas", "float_mantissas"):
        for case in content[name]:
            if name == "integer_mantissas":
                values = np.array(integers(case["values"]), dtype=np.int64)
            else:
                values = np.array([struct.unpack(">d", bytes.fromhex(v))[0] for v in case["values"]])
            found, exponent = mantissas(values)
            assert (found.tolist(), exponent) == (case["mantissas"], case["exponent"])
            exactly = [Fraction(v) / Fraction(2) ** exponent for v in values.tolist()]
            assert [round(v) for v in exactly] == case["mantissas"]


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
    for case in content["cases"]:
        loss = Loss(case["loss"], maybe(case["parameter"]))
        coins = np.array(integers(case["coins"]), dtype=np.int64)
        assert loss.thresholds(coins).tolist() == integers(case["thresholds"])
        assert list(loss.factors) == [Fraction(f) for f in case["factors"]]
        assert loss.tosses_coins == case["tosses_coins"]
    table = content["logistic_table"]
    assert logistic_table().tolist() == table
    for k in range(0, 4096, 97):
        assert math.isclose(table[k] / 2**32, math.log((8191 - 2 * k) / (2 * k + 1)), rel_tol=1e-9, abs_tol=1e-9)
    for case in content["targets"]:
        centre, spread = Fraction(case["centre"]), Fraction(case["spread"])
        assert fixed_target(float(case["target"]), centre=centre, spread=spread) == int(case["fixed"])
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
        vector = BinnedVector(values=dict(case["vector"]), n_bins=len(case["mantissas"]) - 1)
        weights = Weights(
            np.array([case["mantissas"]], dtype=np.int32),
            Fraction(case["unit"]),
            normalised=case["normalised"],
            first=case["first"],
        )
        update = local_update(weights=weights, model=0, vector=vector, label_sign=y, threshold=threshold, width=width)
        assert score(weights, 0, vector) == total
        assert (None if update is None else [[b, v] for b, v in update.values.items()]) == case["update"]


def check_labels(content: JSON) -> None:
    for case in content["cases"]:
        models = LabelModels(case["n_labels"], case["multiclass"])
        assert models.signs.tolist() == case["signs"]
        assert models.predict(np.array(case["scores"], dtype=np.int64)).tolist() == case["winners"]


def check_splitting(content: JSON) -> None:
    for case in content["cases"]:
        units = [[case["model"], b, 1 if v > 0 else -1] for b, v in case["update"] for _ in range(abs(v))]
        assert units == case["packages"]
        assert triples(split(Update(values=dict(case["update"])), case["model"])) == units
    for case in content["budget"]:
        words = [dice_word(case["key"], case["round"], 0, i) for i in range(len(case["packages"]))]
        assert words == integers(case["words"])
        stays = sorted(sorted(range(len(words)), key=lambda i: words[i])[: case["budget"]])
        assert [case["packages"][i] for i in stays] == case["kept"]


class WrittenDice:
    def __init__(self, words: list[int]) -> None:
        self._words = words

    def words(self, purpose: Purpose, round_number: int, model: int, count: int) -> list[int]:
        return self._words[:count]


def check_thinning(content: JSON) -> None:
    for case in content["probabilities"]:
        thinning = Thinning(q=maybe(case["q"]), rho=maybe(case["rho"]))
        assert thinning.keep53(case["squared_norms"]).tolist() == integers(case["keep53"])
        assert thinning.divisor == Fraction(case["divisor"])
    for case in content["cases"]:
        units = split(Update(values=dict(case["update"])), case["model"])
        words = [dice_word(case["key"], case["round"], case["model"], i) for i in range(len(units))]
        assert words == integers(case["words"])
        kept = [i for i, word in enumerate(words) if word // 2**11 < int(case["keep53"])]
        assert kept == case["kept_units"]
        sent = thin(
            units, keep53=int(case["keep53"]), dice=WrittenDice(words), round_number=case["round"], model=case["model"]
        )
        assert triples(sent) == triples([units[i] for i in kept]) == case["packages"]


def check_state(content: JSON) -> None:
    for case in content["cases"]:
        experiment = read_experiment(case["experiment"])
        state = aggregate.start(experiment)
        assert state.to_bytes().hex() == case["start"]
        for told in case["rounds"]:
            n = len(told["participants"])
            tally = Tally(
                plus=np.array(told["plus"], dtype=np.int64),
                minus=np.array(told["minus"], dtype=np.int64),
                participants=np.array(told["participants"], dtype=np.int64),
                cells=np.zeros((n, n), dtype=np.int64),
            )
            state = aggregate.step(experiment, state, tally)
            assert state.to_bytes().hex() == told["state"]
            assert hashlib.sha256(bytes.fromhex(told["state"])).hexdigest() == told["sha256"]
            assert State.from_bytes(bytes.fromhex(told["state"])).to_bytes().hex() == told["state"]
    assert {case["experiment"]["rule"]["name"] for case in content["cases"]} == {"pegasos", "swift"}


def check_weights(content: JSON) -> None:
    for case in content["cases"]:
        rule = rule_by_name(case["rule"]["name"], case["rule"]["parameters"])
        state = State.from_bytes(bytes.fromhex(case["state"]))
        for name, published in (
            ("training", rule.training_weights(state)),
            ("evaluation", rule.evaluation_weights(state)),
        ):
            told = case[name]
            assert published.mantissas.tolist() == told["mantissas"]
            assert published.unit == Fraction(told["unit"])
            assert published.to_bytes().hex() == told["bytes"]
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
        experiment = read_experiment(case["experiment"])
        weights = Weights(
            np.array(case["mantissas"], dtype=np.int32), Fraction(case["unit"]), normalised=case["normalised"]
        )
        vector = BinnedVector(values=dict(case["vector"]), n_bins=experiment.n_bins)
        person = Individual(vector, label=case["label"], target=int(case["target"]), cohort=Cohort(case["cohort"]))
        packages = contribute(
            person,
            experiment=experiment,
            training=weights,
            evaluation=weights,
            dice=UnsafeSeededDice(bytes.fromhex(case["seed"]), case["participant"]),
            round_number=case["round"],
        )
        assert packages == [read_package(told) for told in case["packages"]]
        assert experiment.budget is None or len(packages) == experiment.budget


def check_bad_states(content: JSON) -> None:
    State.from_bytes(bytes.fromhex(content["good"]))
    for case in content["cases"]:
        with pytest.raises(BadInputError):
            State.from_bytes(bytes.fromhex(case["bytes"]))
        assert case["bytes"] != content["good"], case["why"]


def check_bad_packages(content: JSON) -> None:
    empty = Tally.empty(n_models=content["n_models"], n_bins=content["n_bins"], n_labels=content["n_labels"])
    for case in content["cases"]:
        with pytest.raises(BadInputError):
            empty.count([read_package(case["package"])])


def check_bad_vocabularies(content: JSON) -> None:
    for case in content["cases"]:
        with pytest.raises(BadInputError):
            VocabularyBinning(words=tuple(case["words"]))


def check_bad_experiments(content: JSON) -> None:
    read_experiment(content["good"])
    for case in content["cases"]:
        try:
            read_experiment(case["experiment"])
        except BadInputError:
            continue
        pytest.fail(f"taken, though it has {case['why']}")


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
        sender = schedule.send_to(private.public_key, throw_once(case["ephemeral"]))
        recipient = schedule.receive(private, unhex(case["enc"]))
        assert sender.enc.hex() == case["enc"]
        for ciphertext in case["ciphertexts"]:
            assert sender.seal(unhex(case["aad"]), unhex(case["plaintext"])).hex() == ciphertext
            assert recipient.open(unhex(case["aad"]), unhex(ciphertext)).hex() == case["plaintext"]
        length = len(case["exported"]) // 2
        for context in (sender, recipient):
            assert context.export(unhex(case["export_context"]), length).hex() == case["exported"]
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
        how = {name: case[name] for name in ("indeterminate", "truncated", "padded_to")}
        if isinstance(message, binary_http.Request):
            assert case["kind"] == "request"
            assert binary_http.encode_request(message, **how) == data
            assert binary_http.decode_request(data, shortest=True) == message
        else:
            assert case["kind"] == "response"
            assert binary_http.encode_response(message, **how) == data
            assert binary_http.decode_response(data, shortest=True) == message
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
        with pytest.raises(RemoteProtocolError) as caught:
            sealed.open_response(bytes.fromhex(case["answer"]))
        assert caught.type is errors[case["error"]], case["why"]
    for case in content["configurations"]:
        with pytest.raises(MalformedMessageError):
            oblivious.KeyConfiguration.from_bytes(bytes.fromhex(case["configuration"]))
    for case in content["documents"]:
        with pytest.raises(MalformedMessageError):
            oblivious.decode_key_configurations(bytes.fromhex(case["document"]))


def check_bad_sealing_messages(content: JSON) -> None:
    decoders = {"request": binary_http.decode_request, "response": binary_http.decode_response}
    for case in content["cases"]:
        try:
            decoders[case["kind"]](bytes.fromhex(case["bytes"]))
        except MalformedMessageError:
            continue
        pytest.fail(f"taken, though it has: {case['why']}")


CHECKS: dict[str, Callable[[JSON], None]] = (
    {name.removeprefix("check_"): check for name, check in list(globals().items()) if name.startswith("check_")}
    | protocol_checks.CHECKS
    | tally_checks.CHECKS
    | locking_checks.CHECKS
    | log_checks.CHECKS
    | policy_checks.CHECKS
    | token_checks.CHECKS
    | trusted_checks.CHECKS
    | beacon_checks.CHECKS
    | relay_checks.CHECKS
    | cover_part_checks.CHECKS
)


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
