"""A coordinator's settings, from one TOML file. Paths are relative to the file's folder.

    [listen]
    host = "127.0.0.1"              # a reverse proxy with TLS stands before it
    port = 8750                     # 0: any that is free; the log says which

    [state]
    folder = "state"                # the store, the keys that sign and log, the hash of the admin key

    [public]
    folder = "public"               # what everybody may see, as static files

    [epochs]                        # the grid (docs/protocol.md §19.1); fixed once the first experiment is made
    period_s = 3600
    lead_s = 300
    origin_ms = 0

    [[relays]]                      # who may hand batches on
    name = "relay.example"
    token_sha256 = "…"              # SHA-256 of the relay's token, in hexadecimal
    url = "https://relay.example/r" # of a relay of experiments with two relays' cover: as they name it; and
    token_file = "relay.token"      # a file with the same token, with which the relay is asked for commitments

    [limits]                        # and those of docs/how-to/limit-a-server.md
    connections = 10000
    per_address = 256               # of these, from one address; loopback is exempt
    exempt = []                     # so are these: relays, a reverse proxy on another machine
    deposit_bytes = 1073741824      # of a relay's whole epoch: 8,000,000 packages
    answer_bytes = 8388608          # of an answer to a device: what every relay passes on, by its own answer_bytes;
                                    # an experiment with larger tallies (524,000 bins, one model) is refused

    [opening]
    lanes = "auto"                  # eight capsules at once, where 'secvm coordinator build-lanes' has built the code
                                    # for it and the CPU can; "off": one after the other, always
    kept_days = 30                  # so long after open_by the capsules of an opened round with two relays are public,
                                    # for everybody to count again; 7 are the least

    [log]                           # every experiment that is made from now on stands in a log (docs/protocol.md §20)
    name = "secvm.example"          # host and path, without https://, under which this coordinator is reached
    freshness_s = 3600              # how old witnesses' cosignatures may be for a device
    quorum = 1                      # so many witnesses are enough; more than half of them, without
                                    # or "log.policy": instead of [[witnesses]], a file with both (c2sp.org/tlog-policy)

    [[witnesses]]                   # who cosigns the log
    name = "witness.example/w"
    url = "https://witness.example" # /add-checkpoint comes after it
    key = "…"                       # 64 hexadecimal digits, or name+id+key as C2SP writes keys

    [beacons]                       # where public randomness is fetched; each has its public address without
    nist_url = "https://beacon.nist.gov/beacon/2.0"
    drand_urls = ["https://api.drand.sh"]
    issuers = "issuers.pem"         # certificates that lead from NIST's own to a pinned one

    [webhook]                       # events for whoever runs it: rounds abandoned, a quorum or a relay lost, and back
    url = "https://ops.example/hook"  # POSTed JSON; https, or this machine
    url_file = "webhook.url"        # goes before url: a file with the address, mode 0600

    [database]                      # a PostgreSQL database that many nodes have in common; without it, a file
    url = "file:database.url"       # a file with postgresql://…, mode 0600; or that itself; or env:NAME

    [node]                          # with a database: what this process is among the others
    name = "node-1"                 # for the log and for you
    drives = true                   # whether it may be the one that drives; then it needs the keys that sign and log
    lease_s = 10.0                  # so long after the driver died, stopped or lost the database another one drives
    poll_s = 1.0                    # how often to look for what others did, where nobody tells
    claim_s = 30.0                  # so long others wait for what a node that died was opening or counting

    [testing]
    clock = "clock"                 # a steered clock; then only experiments marked as a test may run

A key that is not here is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Self

import pydantic

from secvm.coordinator.epochs import Grid
from secvm.coordinator.log.cosigning import WitnessAddress
from secvm.coordinator.webhook import WebhookPart
from secvm.crypto.notes import NoteKey, SignatureKind
from secvm.crypto.signing import PUBLIC_KEY_BYTES, VerifyKey
from secvm.errors import BadInputError, ProtocolError
from secvm.files import read_beginning_with
from secvm.protocol.canonical import Fields
from secvm.protocol.log.policy import (
    MAX_FRESHNESS_S,
    MAX_WITNESSES,
    MOST_POLICY_BYTES,
    LogPolicy,
    LogTerms,
    Witness,
    read_policy,
)
from secvm.protocol.relays.shards import LEAST_DAYS
from secvm.protocol.version import LOG_ORIGIN
from secvm.runtime.beacons import DRAND_URLS, NIST_URL
from secvm.runtime.disk.secret_files import Passphrase, read_secret
from secvm.runtime.http.guard import HttpLimits
from secvm.runtime.lanes import Mode
from secvm.runtime.settings import Listen, Settings, place_in, usual_port


def _check_sha256(text: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise ValueError("should be a SHA-256: 64 hexadecimal digits in lower case")
    return text


_URL = r"https?://[!-~]+"
Sha256 = Annotated[str, pydantic.AfterValidator(_check_sha256)]
#: Where it listens unless its settings say otherwise.
PORT = 8750
Positive = Annotated[int, pydantic.Field(ge=1)]


class FolderPart(Settings):
    """The table of a folder."""

    folder: Path


class EpochsPart(Settings):
    """The table of the grid of epochs."""

    period_s: Positive
    lead_s: Annotated[int, pydantic.Field(ge=0)]
    origin_ms: Annotated[int, pydantic.Field(ge=0)] = 0

    @pydantic.model_validator(mode="after")
    def _leaves_time_for_a_window(self) -> Self:
        if self.lead_s >= self.period_s:
            raise ValueError("lead_s leaves no time for a window: it must be less than period_s")
        return self

    @property
    def grid(self) -> Grid:
        """The grid, as the driver uses it."""
        return Grid(period_s=self.period_s, lead_s=self.lead_s, origin_ms=self.origin_ms)


class RelayAccess(Settings):
    """A relay that may hand batches on, and that is asked for commitments where it has an address."""

    name: str
    token_sha256: Sha256
    #: As experiments with two relays' cover name it.
    url: Annotated[str, pydantic.Field(pattern=r"^https?://[!-~]+$")] | None = None
    #: The token itself, by which relay and coordinator know each other.
    token_file: Path | None = None

    @pydantic.model_validator(mode="after")
    def _is_asked_with_a_token(self) -> Self:
        if (self.url is None) != (self.token_file is None):
            raise ValueError("a relay that is asked needs url and token_file; one that only hands on neither")
        return self


class OpeningPart(Settings):
    """How capsules are opened, and how long they are public then."""

    lanes: Mode = "auto"
    #: After ``open_by`` of a round with two relays.
    kept_days: Annotated[int, pydantic.Field(ge=LEAST_DAYS, le=36_500)] = 30


class LimitsPart(HttpLimits):
    """Limits on connections and on the sizes of requests and answers."""

    #: Of a relay's whole epoch: 2^30 bytes are 8,000,000 packages.
    deposit_bytes: Positive = 2**30
    #: Of an answer to a device, at most as much as every relay passes on (its ``limits.answer_bytes``).
    answer_bytes: Positive = 2**23


class LogPart(Settings):
    """The log of experiments that are made from now on."""

    #: What the origins of the logs begin with.
    name: str
    freshness_s: Annotated[int, pydantic.Field(ge=1, le=MAX_FRESHNESS_S)] = 3600
    #: More than half of the witnesses, without. A path: of a file with quorum and witnesses, as C2SP writes policies.
    quorum: Positive | Path | None = None


class WitnessPart(Settings):
    """A witness, and where it is asked."""

    name: str
    #: The submission prefix.
    url: Annotated[str, pydantic.Field(pattern=f"^{_URL}$")]
    #: In hexadecimal, or as C2SP writes keys.
    key: str

    @pydantic.model_validator(mode="after")
    def _is_a_key(self) -> Self:
        _ = self.note_key  # refuses what is no key of this witness
        return self

    @property
    def note_key(self) -> NoteKey:
        """The witness's key as it stands under checkpoints."""
        try:
            if re.fullmatch("[0-9a-f]{64}", self.key):
                return NoteKey(self.name, VerifyKey(bytes.fromhex(self.key)), SignatureKind.COSIGNATURE)
            key = NoteKey.from_text(self.key)
        except ProtocolError:
            raise ValueError(
                "key should be 64 hexadecimal digits, or name+id+key as C2SP writes keys, of a key that only its"
                " owner can sign for"
            ) from None
        if key.name != self.name or key.kind is not SignatureKind.COSIGNATURE:
            raise ValueError("key should be that of a witness of this name")
        return key

    @property
    def address(self) -> WitnessAddress:
        """The witness's key and address, as the cosigner uses them."""
        return WitnessAddress(self.note_key, self.url.removesuffix("/"))


class BeaconsPart(Settings):
    """Where public randomness is fetched."""

    nist_url: str = NIST_URL
    drand_urls: Annotated[tuple[str, ...], pydantic.Field(min_length=1)] = DRAND_URLS
    #: A file of certificates as PEM.
    issuers: Path | None = None


class DatabasePart(Settings):
    """A database for many nodes. Its address may hold a password, so it may stand elsewhere, and is shown nowhere."""

    #: postgresql://…, or file:PATH of a file with it that only its owner can read, or env:NAME of the environment.
    url: Annotated[str, pydantic.Field(pattern="^(postgresql://|postgres://|file:|env:).", repr=False)]

    @property
    def file(self) -> Path | None:
        """The file in which the address stands, where one does."""
        return Path(self.url.removeprefix("file:")) if self.url.startswith("file:") else None

    def placed(self, folder: Path) -> Self:
        """The same, with the file's whole path."""
        return self if self.file is None else self.model_copy(update={"url": f"file:{place_in(folder, self.file)}"})

    def address(self, environment: Mapping[str, str], passphrase: Passphrase | None = None) -> str:
        """Where the database is."""
        if self.file is not None:
            data = read_secret(self.file, shortest=1, passphrase=passphrase)
            try:
                return data.decode().strip()
            except UnicodeDecodeError:
                raise BadInputError(f"{self.file} holds no address of a database") from None
        kind, _, rest = self.url.partition(":")
        if kind == "env":
            if not environment.get(rest):
                raise BadInputError(f"the environment has no {rest}, and database.url names it")
            return environment[rest]
        return self.url


class NodePart(Settings):
    """What a process is among others that have the same database."""

    name: Annotated[str, pydantic.Field(pattern=r"^[a-z0-9-]{1,40}$")]
    drives: bool = True
    #: How long after its last word the driver is taken for gone.
    lease_s: Annotated[float, pydantic.Field(ge=0.5, le=3600)] = 10.0
    #: How often to look for what others did.
    poll_s: Annotated[float, pydantic.Field(ge=0.05, le=60)] = 1.0
    #: How long what this node has begun to open or to count is left to it: longer than either takes.
    claim_s: Annotated[float, pydantic.Field(ge=1, le=3600)] = 30.0


class TestingPart(Settings):
    """Settings that only tests use."""

    #: The file of a steered clock.
    clock: Path


class CoordinatorProgramSettings(Settings):
    """All settings of a coordinator."""

    state: FolderPart
    epochs: EpochsPart
    listen: Annotated[Listen, usual_port(PORT)] = Listen(port=PORT)
    public: FolderPart | None = None
    relays: tuple[RelayAccess, ...] = ()
    limits: LimitsPart = LimitsPart()
    opening: OpeningPart = OpeningPart()
    log: LogPart | None = None
    witnesses: Annotated[tuple[WitnessPart, ...], pydantic.Field(max_length=MAX_WITNESSES)] = ()
    beacons: BeaconsPart = BeaconsPart()
    webhook: WebhookPart | None = None
    database: DatabasePart | None = None
    node: NodePart | None = None
    testing: TestingPart | None = None

    @pydantic.model_validator(mode="after")
    def _nodes_have_a_database(self) -> Self:
        if (self.database is None) != (self.node is None):
            raise ValueError("a node needs a database, and a database nodes: give [database] and [node], or neither")
        return self

    @pydantic.model_validator(mode="after")
    def _log_and_witnesses_belong_together(self) -> Self:
        if self.log is not None and isinstance(self.log.quorum, Path):
            if self.witnesses:
                raise ValueError("witnesses stand in the file that log.quorum names: leave out [[witnesses]]")
            return self
        if (self.log is None) != (not self.witnesses):
            raise ValueError(
                "a log needs witnesses, and witnesses need a log: give [log] and [[witnesses]], or neither"
            )
        self.check_log()
        return self

    def check_log(self) -> None:
        """That an experiment could say so of its log."""
        if self.log is not None and isinstance(self.log.quorum, int):
            least, most = len(self.witnesses) // 2 + 1, len(self.witnesses)
            if not least <= self.log.quorum <= most:
                raise ValueError(f"log.quorum of {most} witnesses lies between {least} and {most}")
        if self.log is not None:
            # In place of the log's own key, which is not known here: y = 2 is no point of the curve, so nobody has it.
            self.terms(VerifyKey((2).to_bytes(PUBLIC_KEY_BYTES, "little")))

    def with_policy(self) -> Self:
        """The same, with the witnesses and the quorum of the policy, if the settings name one."""
        if self.log is None or not isinstance(self.log.quorum, Path):
            return self
        path = self.log.quorum
        policy = read_policy(read_beginning_with(b"", path, most=MOST_POLICY_BYTES))
        try:
            made = self.model_copy(update=_from_policy(self.log, policy))
            made.check_log()
        except ValueError as fault:
            raise BadInputError(f"the policy {path} cannot be taken for this log: {fault}") from None
        return made

    def terms(self, key: VerifyKey) -> LogTerms | None:
        """What new experiments say of their log; None without one."""
        if self.log is None:
            return None
        if isinstance(self.log.quorum, Path):
            raise BadInputError(f"the policy {self.log.quorum} has not been read")
        terms = LogTerms(
            name=self.log.name,
            key=key,
            witnesses=tuple(Witness(witness.name, witness.note_key.key) for witness in self.witnesses),
            quorum=len(self.witnesses) // 2 + 1 if self.log.quorum is None else self.log.quorum,
            freshness_s=self.log.freshness_s,
        )
        try:
            # By the rules of the document in which they will stand.
            return LogTerms.from_fields(Fields(terms.to_content(), "the log"))
        except ProtocolError as fault:
            raise BadInputError(f"the log cannot be published: {fault}") from None


def _from_policy(log: LogPart, policy: LogPolicy) -> dict[str, object]:
    """What a policy says in place of settings. Experiments know one group of witnesses, and all of them are asked."""
    quorum = policy.quorum
    if quorum is None or {witness.key.key for witness in policy.witnesses} != set(quorum.of):
        raise ValueError("its quorum should be one group with every witness in it, or its one witness")
    if not all(re.fullmatch(_URL, witness.url or "") for witness in policy.witnesses):
        raise ValueError("every witness should have a URL, where it is asked")
    if policy.logs and f"{log.name}/{LOG_ORIGIN}" not in {witness.key.name for witness in policy.logs}:
        raise ValueError(f"none of its logs has the origin {log.name}/{LOG_ORIGIN}")
    return {
        "log": log.model_copy(update={"quorum": quorum.least}),
        "witnesses": tuple(
            WitnessPart(name=witness.key.name, url=witness.url or "", key=witness.key.to_text())
            for witness in policy.witnesses
        ),
    }


#: What ``secvm coordinator init`` writes, and what it adds for a node.
EXAMPLE, NODE_EXAMPLE = (
    (files("secvm.coordinator") / name).read_text(encoding="utf-8") for name in ("example.toml", "example_node.toml")
)
