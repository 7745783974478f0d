"""Issue and redeem anonymous tokens: what a device and an entry relay spend on each.

One thread, CPU time, the fastest of several turns each, microseconds per token. ``device`` blinds, checks the proof and
unblinds, in Python's integers. ``issuer`` evaluates and proves, ``redeemer`` verifies: each in Python's integers, and
compiled where the package ``voprf`` is installed (else null). ``x25519`` is one bare exchange, for comparison.

    ./secvm bench tokens [--tokens 100]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric import x25519

from benchmarks._measuring import fewest_s
from secvm.crypto import tokens as t


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--tokens", type=int, default=100, help="tokens in a batch")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contestant")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Every step in every way."""
    count, seed = arguments.tokens, os.urandom(32)
    plain = t.TokenKey.of_round(seed, quick=False)
    compiled = t.TokenKey.of_round(seed) if t.COMPILED else None
    batch = t.TokenBatch(os.urandom(32), count)
    request = batch.request(plain.public)
    answer = t.issue(plain, request, os.urandom)
    issued = batch.tokens(answer, plain.public)
    one, other = x25519.X25519PrivateKey.generate(), x25519.X25519PrivateKey.generate().public_key()

    def device() -> None:
        fresh = t.TokenBatch(batch_seed, count)
        fresh.request(plain.public)
        fresh.tokens(answer_to_fresh, plain.public)

    batch_seed = os.urandom(32)
    answer_to_fresh = t.issue(plain, t.TokenBatch(batch_seed, count).request(plain.public), os.urandom)

    def issuer(key: t.TokenKey) -> Callable[[], object]:
        return lambda: t.issue(key, request, os.urandom)

    def redeemer(key: t.TokenKey) -> Callable[[], object]:
        return lambda: [t.redeem(key, token) for token in issued]

    def spent(work: Callable[[], object]) -> float:
        return round(1e6 * fewest_s(work, arguments.rounds) / float(count), 1)

    return {
        "device_us": spent(device),
        "issuer_us": spent(issuer(plain)),
        "issuer_compiled_us": None if compiled is None else spent(issuer(compiled)),
        "redeemer_us": spent(redeemer(plain)),
        "redeemer_compiled_us": None if compiled is None else spent(redeemer(compiled)),
        "x25519_us": spent(lambda: [one.exchange(other) for _ in range(count)]),
        "tokens": count,
        "request_bytes": len(request),
        "answer_bytes": len(answer),
    }
