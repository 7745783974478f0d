"""Checks of the vectors of anonymous tokens, by the code of this package and by what RFC 9497 prints."""

import hashlib

import pytest

from secvm.crypto import voprf
from secvm.crypto.tokens import TokenBatch, TokenKey, issue, redeem
from secvm.errors import BadProofError, MalformedMessageError
from tests.contract.vectors.reading import JSON, bytes_of, refused, unhex

#: RFC 9497, appendix A.1.2: Proof and Output of the three vectors, as printed.
RFC_PROOFS = [
    (
        "ddef93772692e535d1a53903db24367355cc2cc78de93b3be5a8ffcc6985dd06"
        "6d4346421d17bf5117a2a1ff0fcb2a759f58a539dfbe857a40bce4cf49ec600d"
    ),
    (
        "401a0da6264f8cf45bb2f5264bc31e109155600babb3cd4e5af7d181a2c9dc0a"
        "67154fabf031fd936051dec80b0b6ae29c9503493dde7393b722eafdf5a50b02"
    ),
    (
        "cc203910175d786927eeb44ea847328047892ddf8590e723c37205cb74600b0a"
        "5ab5337c8eb4ceae0494c2cf89529dcf94572ed267473d567aeed6ab873dee08"
    ),
]
RFC_OUTPUTS = [
    (
        "b58cfbe118e0cb94d79b5fd6a6dafb98764dff49c14e1770b566e42402da1a7d"
        "a4d8527693914139caee5bd03903af43a491351d23b430948dd50cde10d32b3c"
    ),
    (
        "8a9a2f3c7f085b65933594309041fc1898d42d0858e59f90814ae90571a6df60"
        "356f4610bf816f27afdd84f47719e480906d27ecd994985890e5f539e7ea74b6"
    ),
]
RFC_SECRET = "e6f73f344b79b379f1a0dd37e07ff62e38d9f71345ce62ae3a9bc60b04ccd909"
RFC_PUBLIC = "c803e2cc6b05fc15064549b5920659ca4a77b2cca6f04f6b357009335476ad4e"
RFC_BLINDED = [
    ["863f330cc1a1259ed5a5998a23acfd37fb4351a793a5b3c090b642ddc439b945"],
    ["cc0b2a350101881d8a4cba4c80241d74fb7dcbfde4a61fde2f91443c2bf9ef0c"],
    [
        "863f330cc1a1259ed5a5998a23acfd37fb4351a793a5b3c090b642ddc439b945",
        "90a0145ea9da29254c3a56be4fe185465ebb3bf2a1801f7124bbbadac751e654",
    ],
]
RFC_EVALUATED = [
    ["aa8fa048764d5623868679402ff6108d2521884fa138cd7f9c7669a9a014267e"],
    ["60a59a57208d48aca71e9e850d22674b611f752bed48b36f7a91b372bd7ad468"],
    [
        "aa8fa048764d5623868679402ff6108d2521884fa138cd7f9c7669a9a014267e",
        "cc5ac221950a49ceaa73c8db41b82c20372a4c8d63e5dded2db920b7eee36a2a",
    ],
]


def key_of(case: JSON) -> TokenKey:
    return TokenKey.of_round(bytes.fromhex(case["round_seed"]))


def check_tokens(content: JSON) -> None:
    cases = content["voprf"]
    assert [case["proof"] for case in cases] == RFC_PROOFS
    assert [case["outputs"] for case in cases] == [RFC_OUTPUTS[:1], RFC_OUTPUTS[1:], RFC_OUTPUTS]
    assert [case["blinded"] for case in cases] == RFC_BLINDED
    assert [case["evaluated"] for case in cases] == RFC_EVALUATED
    assert {(case["secret_key"], case["public_key"]) for case in cases} == {(RFC_SECRET, RFC_PUBLIC)}
    for case in content["batches"]:
        key, seed = key_of(case), bytes.fromhex(case["batch_seed"])
        tokens = unhex(case["tokens"])
        assert [redeem(key, token) for token in tokens] == [token[:32] for token in tokens]
        for i, token in enumerate(tokens):
            told = hashlib.blake2b(b"nonce" + i.to_bytes(4, "big"), key=seed, person=b"secvm-v1-tokens\0")
            assert token[:32] == told.digest()[:32]


def check_bad_tokens(content: JSON) -> None:
    key = voprf.derive_key_pair(bytes(32), b"")
    refused(content["elements"], lambda case: voprf.evaluate(key, [bytes_of(case)], bytes), MalformedMessageError)
    for case in content["answers"]:
        with pytest.raises((BadProofError, MalformedMessageError)):
            TokenBatch(bytes.fromhex(case["batch_seed"]), case["count"]).tokens(
                bytes.fromhex(case["answer"]), bytes.fromhex(case["token_key"])
            )
    refused(
        content["requests"],
        lambda case: issue(key_of(case), bytes.fromhex(case["request"]), bytes),
        MalformedMessageError,
    )
    for case in content["tokens"]:
        assert redeem(key_of(case), bytes.fromhex(case["token"])) is None, case["why"]
