"""Whose log it is, and whose cosignatures count: by the experiment, and by a reader's own policy (§20).

A coordinator has one log for all its experiments, with one origin, ``name/secvm/v2``; its entries are lines
(``log.entries``). ``LogTerms`` stand in the experiment document: the log's name and key, the witnesses, and
how many of them are enough. Experiments of one log may name different witnesses, and never another log.

A policy is a file, as C2SP writes it (c2sp.org/tlog-policy), that says which logs, and which witnesses are enough:

    log coordinator.example/secvm/v2+3b2e…+AV… https://coordinator.example/secvm/v2
    witness w1 witness.newspaper.example+7ad9…+BD… https://witness.newspaper.example
    witness w2 witness.university.example+03c1…+BC…
    witness w3 witness.association.example+f00a…+BA…
    group enough 2 w1 w2 w3
    quorum enough

A device, an auditor and a coordinator can be given one. Its quorum comes on top of the experiment's (``quorum_of``):
neither can make the other smaller. Names of witnesses and groups mean nothing outside the file; a witness is its key.
Keys are Ed25519, of type 01 for logs and 04 for witnesses; a file with others is refused as a whole, because what a
quorum over unknown keys demands cannot be checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from secvm.crypto.notes import NoteKey, SignatureKind
from secvm.crypto.signing import VerifyKey
from secvm.errors import BadInputError, LocalProtocolError, MalformedMessageError
from secvm.protocol.log.checkpoints import Quorum, SignedCheckpoint, check_enough, check_written
from secvm.protocol.records import Record, SignerKey, listed, text, whole
from secvm.protocol.version import LOG_ORIGIN

MAX_WITNESSES = 16
#: A week: an older view is no view.
MAX_FRESHNESS_S = 7 * 86_400
#: A host and a path, as they stand in a URL without its scheme.
_LOG_NAME = r"[a-z0-9][a-z0-9.:-]*(/[a-z0-9._-]+)*"
#: Anything that is seen, but no plus: witnesses run elsewhere have the names they have.
_WITNESS_NAME = r"[!-*,-~]+"


@dataclass(frozen=True, slots=True)
class Witness(Record):
    """Somebody else, who cosigns what extends what they have seen."""

    name: Annotated[str, text(longest=200, pattern=_WITNESS_NAME)]
    key: SignerKey

    @property
    def note_key(self) -> NoteKey:
        """The key as it stands under checkpoints."""
        return NoteKey(self.name, self.key, SignatureKind.COSIGNATURE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTerms(Record):
    """Whose log it is, and whose cosignatures count. Part of the experiment; never changes."""

    #: What the log's origin begins with: host and path.
    name: Annotated[str, text(longest=200, pattern=_LOG_NAME)]
    key: SignerKey
    witnesses: Annotated[tuple[Witness, ...], listed(Witness, shortest=1, longest=MAX_WITNESSES)]
    #: So many of the witnesses must have cosigned: more than half, else two halves could be shown two logs.
    quorum: Annotated[int, whole(1)]
    #: How long ago that may have been.
    freshness_s: Annotated[int, whole(1, MAX_FRESHNESS_S)]

    @property
    def log_key(self) -> NoteKey:
        """The key of the log; its name is the log's origin."""
        return NoteKey(f"{self.name}/{LOG_ORIGIN}", self.key)

    @property
    def witness_keys(self) -> tuple[NoteKey, ...]:
        """The witnesses' keys as they stand under checkpoints."""
        return tuple(witness.note_key for witness in self.witnesses)

    @property
    def rule(self) -> Quorum:
        """Who must have cosigned."""
        return Quorum(self.quorum, tuple(witness.key for witness in self.witnesses))

    def check_quorum(self, signed: SignedCheckpoint, *, now: int) -> dict[NoteKey, int]:
        """That enough of the witnesses have cosigned lately; see ``checkpoints.check_enough``."""
        return check_enough(signed.times(self.witness_keys), self.rule, now=now, freshness_s=self.freshness_s)

    def _check_whole(self) -> None:
        keys, names = {witness.key for witness in self.witnesses}, {witness.name for witness in self.witnesses}
        count = len(self.witnesses)
        if {len(keys), len(names)} != {count}:
            raise MalformedMessageError("a witness of the log stands there twice")
        if not count // 2 < self.quorum <= count:
            raise MalformedMessageError(
                f"a quorum of {self.quorum} of {count} witnesses; it must be from {count // 2 + 1} to {count}"
            )
        if self.key in keys:
            raise MalformedMessageError("a log cannot be its own witness")


MOST_POLICY_BYTES = 2**16
#: Logs, witnesses or groups of a file: C2SP asks for at least 32 of each.
MOST_LINES = 64
NONE = "none"
_OCTETS = re.compile(rb"[\t\n\x20-\x7e\x80-\xff]*")
_NUMBER = re.compile("[1-9][0-9]{0,3}")


@dataclass(frozen=True, slots=True)
class Listed:
    """A log or a witness of a policy."""

    key: NoteKey
    #: Of a witness its submission prefix, of a log what its tiles' paths begin with; None: not told.
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPolicy:
    """Which logs may have signed a checkpoint, and which witnesses must have cosigned it."""

    #: Any of these; none: the log is known otherwise.
    logs: tuple[Listed, ...] = ()
    #: Others do not count; none: those that the experiment names.
    witnesses: tuple[Listed, ...] = ()
    #: None: no cosignatures are demanded, beyond what the experiment demands itself.
    quorum: Quorum | None = None

    @classmethod
    def of_witnesses(cls, keys: Iterable[NoteKey]) -> LogPolicy:
        """Only these witnesses count, and the experiment says how many."""
        return cls(witnesses=tuple(map(Listed, keys)))

    @classmethod
    def of_terms(cls, terms: LogTerms, urls: Mapping[VerifyKey, str] | None = None) -> LogPolicy:
        """What a coordinator's settings or an experiment say of their log; ``urls``: where its witnesses are."""
        return cls(
            logs=(Listed(terms.log_key, f"https://{terms.log_key.name}"),),
            witnesses=tuple(Listed(key, (urls or {}).get(key.key)) for key in terms.witness_keys),
            quorum=terms.rule,
        )

    def to_bytes(self) -> bytes:
        """A file that says so."""
        names: dict[VerifyKey | Quorum, str] = {}
        lines = [_line("log", log.key.to_text(), log.url) for log in self.logs]
        for number, witness in enumerate(self.witnesses, start=1):
            names[witness.key.key] = f"w{number}"
            lines.append(_line("witness", names[witness.key.key], witness.key.to_text(), witness.url))

        def name(rule: VerifyKey | Quorum) -> str:
            if isinstance(rule, Quorum) and rule not in names:
                members = [name(member) for member in rule.of]
                names[rule] = f"g{1 + sum(isinstance(known, Quorum) for known in names)}"
                lines.append(_line("group", names[rule], str(rule.least), *members))
            if rule not in names:
                raise LocalProtocolError("a policy's quorum is of witnesses that it lists")
            return names[rule]

        lines.append(_line("quorum", NONE if self.quorum is None else name(self.quorum)))
        data = "\n".join((*lines, "")).encode(errors="surrogateescape")
        return check_written(data, read_policy, self, "this policy cannot be written so that it is read again")


def quorum_of(terms: LogTerms, policy: LogPolicy | None) -> Quorum:
    """Who must have cosigned for a reader of an experiment: the experiment's quorum, of witnesses that count for the
    reader, and the reader's own besides.

    Raises
    ------
    BadInputError
        Its log is none of the policy's, or its witnesses can never be enough.
    """
    if policy is None:
        return terms.rule
    if policy.logs and terms.log_key not in {party.key for party in policy.logs}:
        raise BadInputError("this experiment's log is none of those that the policy names")
    listed = {party.key.key for party in policy.witnesses} or {key.key for key in terms.witness_keys}
    known = tuple(key.key for key in terms.witness_keys if key.key in listed)
    if len(known) < terms.quorum:
        raise BadInputError("too few of this experiment's witnesses are ones that this device knows")
    own = Quorum(terms.quorum, known)
    if policy.quorum is None:
        return own
    if not policy.quorum.met_by(known):
        raise BadInputError("this experiment's witnesses are not enough for the policy's quorum")
    return Quorum(2, (own, policy.quorum))


def read_policy(data: bytes) -> LogPolicy:
    """The policy in a file.

    Raises
    ------
    BadInputError
        It is none; in a sentence with the number of the line.
    """
    return _Reading(data).policy()


class _Reading:
    """A policy file, line by line."""

    def __init__(self, data: bytes) -> None:
        if len(data) > MOST_POLICY_BYTES:
            raise BadInputError(f"a policy has at most {MOST_POLICY_BYTES} bytes")
        if not _OCTETS.fullmatch(data):
            raise BadInputError("a policy has no control characters but tabs and line feeds")
        if data and not data.endswith(b"\n"):
            raise BadInputError("the last line of a policy is not whole: it ends without a line feed")
        self._logs: dict[VerifyKey, Listed] = {}
        self._witnesses: dict[VerifyKey, Listed] = {}
        self._groups = 0
        self._rules: dict[str, VerifyKey | Quorum] = {}
        self._members: set[str] = set()
        self._quorum: list[Quorum | None] = []
        # Octets above 7f mean nothing here, and stay what they are.
        for number, line in enumerate(data.decode(errors="surrogateescape").split("\n"), start=1):
            words = re.findall(r"[^ \t]+", line)
            if words and not words[0].startswith("#"):
                try:
                    self._take(*words)
                except MalformedMessageError as fault:
                    raise BadInputError(f"{fault} (line {number} of the policy)") from None

    def policy(self) -> LogPolicy:
        """What the lines say together."""
        if len(self._quorum) != 1:
            raise BadInputError(f"a policy has one line quorum, and this one {len(self._quorum)}")
        return LogPolicy(
            logs=tuple(self._logs.values()), witnesses=tuple(self._witnesses.values()), quorum=self._quorum[0]
        )

    def _take(self, word: str, *rest: str) -> None:
        match word, rest:
            case "log", (key, *url) if len(url) < 2:
                self._list(self._logs, key, url, SignatureKind.PLAIN)
            case "witness", (name, key, *url) if len(url) < 2:
                self._define(name, self._list(self._witnesses, key, url, SignatureKind.COSIGNATURE))
            case "group", (name, least, _, *_):
                self._groups += 1
                if self._groups > MOST_LINES:
                    raise MalformedMessageError(f"there are more than {MOST_LINES} groups")
                self._define(name, self._group(least, rest[2:]))
            case "quorum", (name,):
                rule = None if name == NONE else self._known(name)
                self._quorum.append(rule if isinstance(rule, Quorum | None) else Quorum(1, (rule,)))
            case _:
                raise MalformedMessageError("this is no log, witness, group or quorum with what belongs to it")

    def _list(self, known: dict[VerifyKey, Listed], text: str, url: list[str], kind: SignatureKind) -> VerifyKey:
        try:
            key = NoteKey.from_text(text)
        except MalformedMessageError:
            raise MalformedMessageError("this is no Ed25519 key written name+id+key") from None
        if key.kind is not kind:
            raise MalformedMessageError(f"a key of type {key.kind:02x} stands where one of type {kind:02x} belongs")
        if key.key in known or len(known) == MOST_LINES:
            raise MalformedMessageError(f"a key stands there twice, or there are more than {MOST_LINES}")
        known[key.key] = Listed(key, *url)
        return key.key

    def _define(self, name: str, rule: VerifyKey | Quorum) -> None:
        if name == NONE or name in self._rules:
            raise MalformedMessageError("this name has a meaning already")
        self._rules[name] = rule

    def _group(self, least: str, names: tuple[str, ...]) -> Quorum:
        members = tuple(map(self._known, names))
        if len(set(names)) != len(names) or not self._members.isdisjoint(names):
            raise MalformedMessageError("a witness or group is a member of one group, once")
        self._members.update(names)
        number = {"all": str(len(names)), "any": "1"}.get(least, least)
        if not _NUMBER.fullmatch(number) or int(number) > len(names):
            raise MalformedMessageError("how many are enough is all, any, or a number from 1 to that of the members")
        return Quorum(int(number), members)

    def _known(self, name: str) -> VerifyKey | Quorum:
        try:
            return self._rules[name]
        except KeyError:
            raise MalformedMessageError("a name stands there that no line before it defines") from None


def _line(*words: str | None) -> str:
    return " ".join(word for word in words if word is not None)
