"""Which logs, and which witnesses are enough: a policy file, as C2SP writes it (c2sp.org/tlog-policy).

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

from secvm.crypto.notes import NoteKey, SignatureKind
from secvm.crypto.signing import VerifyKey
from secvm.errors import BadInputError, LocalProtocolError, MalformedMessageError
from secvm.protocol.log.checkpoints import Quorum
from secvm.protocol.log.terms import LogTerms

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
        lines = [_line("log", one.key.to_text(), one.url) for one in self.logs]
        for number, one in enumerate(self.witnesses, start=1):
            names[one.key.key] = f"w{number}"
            lines.append(_line("witness", names[one.key.key], one.key.to_text(), one.url))

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
        try:
            same = read_policy(data) == self
        except BadInputError:
            same = False
        if not same:
            raise LocalProtocolError("this policy cannot be written so that it is read again")
        return data


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
