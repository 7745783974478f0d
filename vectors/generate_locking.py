"""The vectors of secrets at rest: under a passphrase, and under a device's key. Written by generate.py."""
# ruff: noqa: INP001  (beside the package, not a part of it)

from __future__ import annotations

from collections.abc import Callable

from shared import JSON  # type: ignore[import-not-found]  # beside this program, not in a package

from secvm.crypto.locking import KEPT_MAGIC, MAGIC, Cost, KeptKey, lock

SALT, NONCE = bytes(range(16)), bytes(range(100, 112))
KEY = bytes(range(32))


def dice(count: int) -> bytes:
    """Salt and nonce by their lengths."""
    return {len(SALT): SALT, len(NONCE): NONCE}[count]


def locked(secret: bytes, passphrase: bytes, cost: Cost) -> JSON:
    """One secret under a passphrase."""
    return {
        "passphrase": passphrase.hex(),
        "log2_n": cost.log2_n,
        "r": cost.r,
        "p": cost.p,
        "salt": SALT.hex(),
        "nonce": NONCE.hex(),
        "secret": secret.hex(),
        "locked": lock(secret, passphrase, dice, cost).hex(),
    }


def locking() -> JSON:
    """Files that open."""
    return {
        "description": "Secrets at rest: under a passphrase by scrypt and AES-256-GCM; and under a device's key.",
        "secrets": [
            locked(b"", b"x", Cost(10, 1, 1)),
            locked(KEY, b"correct horse battery staple", Cost(10)),
            locked(KEY.hex().encode() + b"\n", "Grüße aus Weißenburg".encode(), Cost(12, 8, 2)),
            locked(KEY, b"\x00\xff not UTF-8", Cost(14, 8, 1)),
            locked(KEY, b"as secvm writes it", Cost()),
        ],
        "kept": [
            {
                "key": KEY.hex(),
                "place": place.encode().hex(),
                "content": content.hex(),
                "kept": KeptKey(KEY).lock(content, place.encode(), dice).hex(),
            }
            for place, content in (("vault", b""), ("vault", b"features and labels"), ("pinned " + "0" * 64, KEY))
        ],
    }


def bad_locking() -> JSON:
    """Files that must not open."""
    good = bytes.fromhex(locked(KEY, b"correct horse", Cost(10))["locked"])
    numbers = len(MAGIC)

    def with_cost(log2_n: int, r: int, p: int) -> bytes:
        return good[:numbers] + bytes([log2_n, r, p]) + good[numbers + 3 :]

    kept = KeptKey(KEY).lock(b"features and labels", b"vault", dice)
    return {
        "description": "Secrets at rest that must be refused, the dear ones before any work is done.",
        "secrets": [
            {"why": why, "passphrase": passphrase.hex(), "locked": data.hex()}
            for why, passphrase, data in (
                ("another passphrase", b"correct house", good),
                ("an empty passphrase", b"", good),
                ("the last bit", b"correct horse", good[:-1] + bytes([good[-1] ^ 1])),
                ("another salt", b"correct horse", good[: numbers + 3] + b"\xff" + good[numbers + 4 :]),
                ("a byte is missing", b"correct horse", good[:-1]),
                ("nothing but the head", b"correct horse", good[: numbers + 31]),
                ("another version", b"correct horse", good.replace(b"-v1\n", b"-v2\n")),
                ("a cost that was changed", b"correct horse", with_cost(11, 8, 1)),
                ("512 MiB of memory", b"correct horse", with_cost(19, 8, 1)),
                ("a great many gigabytes", b"correct horse", with_cost(63, 255, 255)),
                ("1 GiB of work", b"correct horse", with_cost(18, 8, 4)),
                ("no work at all", b"correct horse", with_cost(1, 1, 1)),
                ("a block of none", b"correct horse", with_cost(10, 0, 1)),
            )
        ],
        "kept": [
            {"why": why, "key": key.hex(), "place": place.hex(), "kept": data.hex()}
            for why, key, place, data in (
                ("another key", bytes(32), b"vault", kept),
                ("another place", KEY, b"vaults", kept),
                ("the last bit", KEY, b"vault", kept[:-1] + bytes([kept[-1] ^ 1])),
                ("no tag", KEY, b"vault", kept[: len(KEPT_MAGIC) + 12]),
                ("no head", KEY, b"vault", kept[len(KEPT_MAGIC) :]),
            )
        ],
    }


FILES: dict[str, Callable[[], JSON]] = {"locking": locking, "bad_locking": bad_locking}
