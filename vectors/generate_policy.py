"""The vectors of policies, lists of logs and witnesses, from C2SP's text. Written by generate.py."""
# ruff: noqa: INP001  (beside the package, not a part of it)

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from shared import JSON, LOG, STRANGER, with_reasons  # type: ignore[import-not-found]  # beside this program, not in a package

from secvm.crypto.merkle import Tree, leaf_hash
from secvm.crypto.notes import Note, NoteKey, SignatureKind, cosign_note, sign_note
from secvm.crypto.signing import SigningKey
from secvm.protocol.log.checkpoints import Checkpoint, hash_line

SECOND = SigningKey(bytes([6]) * 32)
WITNESS = SigningKey(bytes([11]) * 32)
KEYS = [NoteKey(f"w{i}.example", SigningKey(bytes([i]) * 32).public, SignatureKind.COSIGNATURE) for i in range(11, 16)]
A, B, C, D, E = (key.to_text() for key in KEYS)
ORIGIN = "log.example/secvm/v2"
ONE, TWO = NoteKey(ORIGIN, LOG.public).to_text(), NoteKey("two.example/log", SECOND.public).to_text()
NAME, NOW_S = "w11.example", 1_767_225_600
ABC = f"witness a {A}\nwitness b {B}\nwitness c {C}\n"


# ── policies ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def log_policies() -> JSON:
    """Files of c2sp.org/tlog-policy, and who is enough."""

    def case(file: str, logs: list[list[str | None]], witnesses: list[list[str | None]], enough: Any) -> JSON:
        return {"file": file, "logs": logs, "witnesses": witnesses, "enough": enough}

    three: list[list[str | None]] = [[A, None], [B, None], [C, None]]
    return {
        "description": "Policies of C2SP: logs, witnesses, and the smallest sets of witnesses that are enough.",
        "cases": [
            case("quorum none\n", [], [], None),
            case(f"log {ONE}\n{ABC}quorum none\n", [[ONE, None]], three, None),
            case(f"{ABC}quorum b\n", [], three, [["b"]]),
            case(f"{ABC}group g any a b c\nquorum g\n", [], three, [["a"], ["b"], ["c"]]),
            case(f"{ABC}group g 2 a b c\nquorum g\n", [], three, [["a", "b"], ["a", "c"], ["b", "c"]]),
            case(f"{ABC}group g all a b c\nquorum g\n", [], three, [["a", "b", "c"]]),
            case(f"{ABC}group g 1 a\ngroup h all g b\nquorum h\n", [], three, [["a", "b"]]),
            case(
                "# two organisations\n\n"
                f"log {ONE} https://{ORIGIN}\nlog\t{TWO}\n"
                f"  witness x1 {A} https://x1.example\t\nwitness x2 {B}\nwitness x3 {C}\ngroup x 2 x1 x2 x3\n \t\n"
                f"\twitness y1 {D}\n  # a comment\nwitness y2 {E}\n"
                "group y any y1 y2\ngroup both all x y\nquorum both\n",
                [[ONE, f"https://{ORIGIN}"], [TWO, None]],
                [[A, "https://x1.example"], [B, None], [C, None], [D, None], [E, None]],
                [[*pair, y] for pair in (["x1", "x2"], ["x1", "x3"], ["x2", "x3"]) for y in ("y1", "y2")],
            ),
            case(f"witness all {A}\nwitness any {B}\ngroup 2 2 all any\nquorum 2\n", [], three[:2], [["all", "any"]]),
            case(f"quorum none\nwitness #a {A}\n", [], three[:1], None),
            case(
                f"witness K {A}\nwitness \u212a {B}\nquorum \u212a\n",
                [],
                three[:2],
                [["\u212a"]],
            ),
        ],
    }


def bad_log_policies() -> JSON:
    """Files that are no policies."""
    cases = {
        "nothing": "",
        "no quorum": ABC,
        "two quorums": "quorum none\nquorum none\n",
        "no line feed at the end": f"{ABC}quorum a",
        "a carriage return": "quorum none\r\n",
        "a vertical tab": "quorum\x0bnone\n",
        "a delete character": "quorum none\x7f\n",
        "a quorum of nobody that is known": f"{ABC}quorum d\n",
        "a quorum before what it names": f"quorum a\n{ABC}",
        "a group that is defined later": f"{ABC}group g 1 h\ngroup h 1 a\nquorum g\n",
        "a group of itself": f"{ABC}group g 1 g\nquorum g\n",
        "none as a member": f"{ABC}group g 1 none\nquorum g\n",
        "none as a witness": f"witness none {A}\nquorum none\n",
        "none as a group": f"{ABC}group none 1 a\nquorum none\n",
        "two witnesses of one name": f"witness a {A}\nwitness a {B}\nquorum a\n",
        "a group with a witness's name": f"{ABC}group a 1 b\nquorum a\n",
        "one witness's key twice": f"witness a {A}\nwitness b {A}\nquorum a\n",
        "one key under two names": f"witness a {A}\nwitness b "
        f"{NoteKey('other.example', KEYS[0].key, SignatureKind.COSIGNATURE).to_text()}\nquorum a\n",
        "one log twice": f"log {ONE}\nlog {ONE}\nquorum none\n",
        "a threshold of nothing": f"{ABC}group g 0 a b\nquorum g\n",
        "a threshold above the members": f"{ABC}group g 3 a b\nquorum g\n",
        "a threshold with a zero before it": f"{ABC}group g 01 a b\nquorum g\n",
        "a threshold with a sign": f"{ABC}group g +1 a b\nquorum g\n",
        "a threshold that is no number": f"{ABC}group g most a b\nquorum g\n",
        "a group of nobody": f"{ABC}group g all\nquorum g\n",
        "a member twice": f"{ABC}group g 2 a a\nquorum g\n",
        "a member of two groups": f"{ABC}group g 1 a\ngroup h 2 a b\nquorum h\n",
        "a witness's key for a log": f"log {A}\nquorum none\n",
        "a log's key for a witness": f"witness a {ONE}\nquorum a\n",
        "a key with another's id": f"witness a {A.replace(KEYS[0].key_id.hex(), '00000000')}\nquorum a\n",
        "a key of an unknown type": "witness a w.example+00000000+BgAA\nquorum a\n",
        "a witness without a name": f"witness {A}\nquorum none\n",
        "two URLs": f"witness a {A} https://a https://b\nquorum a\n",
        "two names of a quorum": f"{ABC}quorum a b\n",
        "a comment behind a line": "quorum none # for now\n",
        "an unknown word": "mirror x\nquorum none\n",
        "a word in capitals": "QUORUM none\n",
    }
    return {
        "description": "Files that must be refused as policies.",
        "cases": with_reasons(cases, "file"),
    }


# ── a witness ────────────────────────────────────────────────────────────────────────────────────────────────────────


def tree(face: str) -> Tree:
    """One of two histories, the same for five leaves."""
    return Tree(leaf_hash(b"%d" % i if i < 5 else f"{face}{i}".encode()) for i in range(12))


FACES = {face: tree(face) for face in "ab"}
SIZE, TEXT = "text/x.tlog.size", "text/plain; charset=utf-8"


def text(face: str, size: int, *, origin: str = ORIGIN, more: str = "") -> str:
    """A checkpoint's text."""
    return Checkpoint(origin, size, FACES[face].root(size)).to_text() + more


def signed(body: str, *, key: SigningKey = LOG, name: str = ORIGIN) -> str:
    """Under a log's signature."""
    return Note(body, (sign_note(body, name=name, key=key),)).to_bytes().decode()


def request(note: str, old: str, proof: tuple[bytes, ...] = ()) -> str:
    """What a witness is asked."""
    return f"old {old}\n{''.join(map(hash_line, proof))}\n{note}"


def grown(face: str, old: int, size: int, **how: Any) -> str:
    """What an honest log asks."""
    return request(signed(text(face, size, **how)), str(old), FACES[face].consistency_proof(old, size))


def witness() -> JSON:
    """What c2sp.org/tlog-witness has a witness answer, one request after the other."""
    seven = signed(text("a", 7))
    head, line = seven.split("\n\n")
    extended, second = text("a", 10, more="a line more\n"), text("b", 6, origin="two.example/log")
    asked: list[tuple[str, str, int, int | str | None]] = [
        ("nothing", "", 400, None),
        ("no old size", seven, 400, None),
        ("an old size with a zero before it", request(seven, "00"), 400, None),
        ("an old size with a sign", request(seven, "+0"), 400, None),
        ("64 hashes", request(seven, "0", (bytes(32),) * 64), 400, None),
        ("a hash too short", request(seven, "0").replace("old 0\n", "old 0\nAAAA\n"), 400, None),
        ("no signature", request(f"{head}\n", "0"), 400, None),
        ("an empty line in the checkpoint", request(signed(f"{head}\n\nx\n"), "0"), 400, None),
        ("an unknown origin", grown("a", 0, 7, origin="elsewhere.example"), 404, None),
        ("an unknown origin, whatever else is wrong", request(signed(text("a", 3, origin="x")), "9"), 404, None),
        ("a stranger's key", request(signed(text("a", 7), key=STRANGER), "0"), 403, None),
        ("the log's key under another name", request(signed(text("a", 7), name="x.example"), "0"), 403, None),
        ("a wrong signature under the log's name and id", request(f"{text('b', 7)}\n{line}", "0"), 403, None),
        ("a good signature and a wrong one", request(f"{seven}{line[:-8]}AAAA" + line[-4:], "0"), 403, None),
        ("a stranger's key, whatever else is wrong", request(signed(text("a", 3), key=STRANGER), "9"), 403, None),
        ("an old size above the checkpoint's", request(seven, "8"), 400, None),
        ("an old size of what was never cosigned", grown("a", 3, 7), 409, 0),
        ("a proof from nothing", request(seven, "0", (bytes(32),)), 422, None),
        ("another root of nothing", request(signed(f"{ORIGIN}\n0\n{hash_line(bytes(32))}"), "0"), 422, None),
        ("the first checkpoint", request(seven, "0"), 200, text("a", 7)),
        ("the same again", request(seven, "7"), 200, text("a", 7)),
        ("the same again, with a proof", request(seven, "7", (bytes(32),)), 422, None),
        ("an old size of before", grown("a", 0, 9), 409, 7),
        ("a smaller checkpoint", grown("a", 3, 5), 409, 7),
        ("another root of the size that was cosigned", request(signed(text("b", 7)), "7"), 422, None),
        ("the same, asked from elsewhere", grown("b", 3, 7), 409, 7),
        ("the same, from beyond it", request(signed(text("b", 7)), "9"), 400, None),
        ("another history that goes on", grown("b", 7, 9), 422, None),
        ("no proof", request(signed(text("a", 9)), "7"), 422, None),
        ("the log has grown", grown("a", 7, 9), 200, text("a", 9)),
        ("a line more", request(signed(extended), "9", FACES["a"].consistency_proof(9, 10)), 200, extended),
        ("a second log", request(signed(second, key=SECOND, name="two.example/log"), "0"), 200, second),
    ]  # fmt: skip
    answers: list[JSON] = []
    for number, (why, body, status, told) in enumerate(asked):
        time_s = NOW_S + number
        answer = None
        if isinstance(told, str):
            answer = cosign_note(told, name=NAME, key=WITNESS, time_s=time_s).to_line()
        elif told is not None:
            answer = f"{told}\n"
        kind = SIZE if status == 409 else TEXT
        answers.append(
            {"why": why, "time_s": time_s, "request": body, "status": status, "type": kind, "answer": answer}
        )
    return {
        "description": "What a witness is asked, one after the other, and must answer (C2SP, July 2026).",
        "seed": WITNESS.seed,
        "name": NAME,
        "logs": [ONE, TWO],
        "requests": answers,
        "newest": [
            {
                "origin": ORIGIN,
                "path": f"/{hashlib.sha256(ORIGIN.encode()).hexdigest()}/checkpoint",
                "checkpoint": signed(extended) + answers[-2]["answer"],
            }
        ],
    }


FILES: dict[str, Callable[[], JSON]] = {
    "log_policies": log_policies,
    "bad_log_policies": bad_log_policies,
    "witness": witness,
}
