"""Open capsules, beside pyca's own HPKE and the bare X25519 that neither can do without.

One thread, CPU time, all contestants in turns in the same process, the fastest of several turns each. A capsule holds a
package of 32 bytes. ``opening_over_x25519`` is the time of opening a capsule over that of one X25519 exchange: the
nearer to 1 the better. pyca's ``Suite`` opens the same bytes but could not answer them: it has no exporter.

    ./secvm bench sealing [--capsules 2000]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric import x25519

from benchmarks._measuring import fastest
from secvm.crypto.sealing import kem
from secvm.crypto.sealing.oblivious import GatewayKey, GatewayKeys, RequestSealer

_PACKAGE = bytes(32)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--capsules", type=int, default=2000, help="capsules in a batch")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each contestant")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Seal, then open in every way."""
    secret = os.urandom(32)
    classical = GatewayKey(1, kem.X25519PrivateKey(secret))
    hybrid = GatewayKey(1, kem.HybridPrivateKey(secret))
    sealers = {key: RequestSealer(key.configuration) for key in (classical, hybrid)}
    capsules, hybrid_capsules = (
        [sealers[key].seal(_PACKAGE, os.urandom).capsule for _ in range(arguments.capsules)]
        for key in (classical, hybrid)
    )
    gateway, hybrid_gateway = GatewayKeys([classical]), GatewayKeys([hybrid])
    suite = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_128_GCM)
    private = x25519.X25519PrivateKey.from_private_bytes(secret)
    info = b"message/bhttp request\0" + capsules[0][:7]

    def answer() -> None:
        for capsule in capsules:
            gateway.open(capsule).seal_response(_PACKAGE, os.urandom)

    contestants: dict[str, Callable[[], object]] = {
        "open": lambda: gateway.open_unanswered(capsules),
        "open_and_answer": answer,
        "seal": lambda: [sealers[classical].seal(_PACKAGE, os.urandom) for _ in capsules],
        "hybrid_open": lambda: hybrid_gateway.open_unanswered(hybrid_capsules),
        "pyca_open": lambda: [suite.decrypt(capsule[7:], private, info) for capsule in capsules],
        "x25519": lambda: [
            private.exchange(x25519.X25519PublicKey.from_public_bytes(capsule[7:39])) for capsule in capsules
        ],
    }
    best = fastest(contestants, arguments.rounds)
    return {
        "opening_over_x25519": round(best["open"] / best["x25519"], 3),
        "opening_over_pyca": round(best["open"] / best["pyca_open"], 3),
        "hybrid_over_opening": round(best["hybrid_open"] / best["open"], 3),
        **{f"{name}_per_s": round(arguments.capsules / seconds) for name, seconds in best.items()},
        "capsule_bytes": len(capsules[0]),
        "hybrid_capsule_bytes": len(hybrid_capsules[0]),
    }
