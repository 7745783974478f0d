"""The vectors of anonymous tokens: RFC 9497's own, and ours on top. Written by generate.py."""
# ruff: noqa: INP001  (beside the package, not a part of it)

from __future__ import annotations

from collections.abc import Callable

from shared import JSON, with_reasons  # type: ignore[import-not-found]  # beside this program, not in a package

from secvm.crypto import ristretto255 as group
from secvm.crypto import voprf
from secvm.crypto.tokens import TokenBatch, TokenKey, issue

#: RFC 9497, appendix A.1.2.
RFC_SEED, RFC_INFO = "a3" * 32, b"test key".hex()
RFC_INPUTS = ("00", "5a" * 17)
RFC_BLINDS = (
    "64d37aed22a27f5191de1c1d69fadb899d8862b58eb4220029e036ec4c1f6706",
    "222a5e897cf59db8145db8d16e597e8facb80ae7d4e26d9881aa6f61d645fc0e",
)
RFC_BATCH_NONCE = "419c4f4f5052c53c45f3da494d2b67b220d02118e0857cdbcf037f9ea84bbe0c"
#: Inputs, blinds, and the random scalar of the proof.
RFC_CASES = (
    (RFC_INPUTS[:1], RFC_BLINDS[:1], RFC_BLINDS[1]),
    (RFC_INPUTS[1:], RFC_BLINDS[:1], RFC_BLINDS[1]),
    (RFC_INPUTS, RFC_BLINDS, RFC_BATCH_NONCE),
)
SEED, BATCH_SEED = bytes(range(32)), bytes(range(64, 96))


def exchange(inputs: tuple[str, ...], blinds: tuple[str, ...], nonce: str) -> JSON:
    """One whole exchange of the VOPRF."""
    key = voprf.derive_key_pair(bytes.fromhex(RFC_SEED), bytes.fromhex(RFC_INFO))
    data, scalars = [bytes.fromhex(one) for one in inputs], [group.decode_scalar(bytes.fromhex(b)) for b in blinds]
    blinded = voprf.blind(data, scalars)
    evaluated, proof = voprf.evaluate(key, blinded, lambda _count: bytes.fromhex(nonce))
    outputs = voprf.finalize(data, scalars, blinded, evaluated, proof, key.public)
    return {
        "seed": RFC_SEED,
        "info": RFC_INFO,
        "secret_key": group.encode_scalar(key.scalar).hex(),
        "public_key": key.public.hex(),
        "inputs": list(inputs),
        "blinds": list(blinds),
        "blinded": [one.hex() for one in blinded],
        "evaluated": [one.hex() for one in evaluated],
        "proof_scalar": nonce,
        "proof": proof.hex(),
        "outputs": [one.hex() for one in outputs],
    }


def batch(seed: bytes, count: int) -> JSON:
    """One issuance, from the device's seed to its tokens."""
    key, asked = TokenKey.of_round(seed, quick=False), TokenBatch(BATCH_SEED, count)
    request = asked.request(key.public)
    answer = issue(key, request, lambda _count: bytes.fromhex(RFC_BATCH_NONCE))
    return {
        "round_seed": seed.hex(),
        "token_key": key.public.hex(),
        "batch_seed": BATCH_SEED.hex(),
        "count": count,
        "request": request.hex(),
        "proof_scalar": RFC_BATCH_NONCE,
        "answer": answer.hex(),
        "tokens": [token.hex() for token in asked.tokens(answer, key.public)],
    }


def tokens() -> JSON:
    """What must come out."""
    return {
        "description": "Anonymous tokens: RFC 9497's vectors of VOPRF(ristretto255, SHA-512), and batches of tokens.",
        "voprf": [exchange(*case) for case in RFC_CASES],
        "batches": [batch(SEED, 1), batch(bytes(32), 3)],
    }


def bad_tokens() -> JSON:
    """What must be refused."""
    good, other = batch(SEED, 3), batch(bytes(32), 3)
    request, answer, token = good["request"], good["answer"], good["tokens"][0]
    elements = {
        "half an element": "e2f2ae0a6abc4e71a884a961c500515f",
        "the field's prime": "ed" + "ff" * 30 + "7f",
        "all bits": "ff" * 32,
        "a negative number": "01" + "00" * 31,
        "no square": "26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371",
        "the generator with its last bit set": "e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2df6",
        "the identity": "00" * 32,
    }
    answers = {
        "nothing": "",
        "an element less": answer[64:],
        "an element more": answer[:64] + answer,
        "two elements exchanged": answer[64:128] + answer[:64] + answer[128:],
        "of another key": other["answer"],
        "another proof": answer[:-128] + other["answer"][-128:],
        "a challenge beyond the order": answer[:-128] + "ff" * 32 + answer[-64:],
        "the last bit of the proof": answer[:-2] + f"{int(answer[-2:], 16) ^ 1:02x}",
    }
    return {
        "description": "Elements, answers of issuers and tokens that must be refused.",
        "elements": with_reasons(elements),
        "answers": [
            {
                "why": why,
                "token_key": good["token_key"],
                "batch_seed": good["batch_seed"],
                "count": 3,
                "answer": data,
            }
            for why, data in answers.items()
        ],
        "requests": [
            {"why": why, "round_seed": good["round_seed"], "request": data}
            for why, data in {
                "a key alone": request[:64],
                "half an element": request[:-32],
                "under another key": other["request"],
                "an element that is none": request[:-64] + "ff" * 32,
                "the identity": request[:-64] + "00" * 32,
            }.items()
        ],
        "tokens": [
            {"why": why, "round_seed": good["round_seed"], "token": data}
            for why, data in {
                "of another round": other["tokens"][0],
                "a nonce alone": token[:64],
                "one byte more": token + "00",
                "another nonce": good["tokens"][1][:64] + token[64:],
                "the last bit": token[:-2] + f"{int(token[-2:], 16) ^ 1:02x}",
            }.items()
        ],
    }


FILES: dict[str, Callable[[], JSON]] = {"tokens": tokens, "bad_tokens": bad_tokens}
