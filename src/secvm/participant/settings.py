"""Settings of a device, as they stand in its TOML file; docs/how-to/take-part.md explains each."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from secvm.crypto.notes import NoteKey, SignatureKind
from secvm.crypto.signing import VerifyKey
from secvm.errors import MalformedMessageError
from secvm.files import read_beginning_with
from secvm.participant.consent import policies
from secvm.participant.device import DAILY_BYTES, PARALLEL_SENDS
from secvm.participant.trust.trust_policy import MOST_UNSEEN, REFETCHES, TrustedRelay, TrustPolicy
from secvm.privacy.statements.operators import ONE_RELAY
from secvm.protocol.documents.recomputation import Caps
from secvm.protocol.log.policy import MOST_POLICY_BYTES, LogPolicy, read_policy
from secvm.runtime.http.messages import is_onion
from secvm.runtime.http.tor import DEFAULT_PROXY, TorProxy
from secvm.runtime.settings import Settings

#: The name of the settings in a device's folder.
SETTINGS_FILE = "participant.toml"
_NUMBER = r"[0-9]{1,18}(\.[0-9]{1,18}|/[1-9][0-9]{0,17})?"


class DeviceSettings(Settings):
    """[device]"""

    #: Where the device keeps vault, state and models. With [testing] people: where the folders of all of them are.
    folder: Path


class RelaySettings(Settings):
    """[relay]"""

    #: The relays through which public files are fetched. Packages take those that the experiment names, if [trust]
    #: relays, or this list where there is none, has them.
    urls: tuple[str, ...] = Field(min_length=1)
    #: A file with the credential that the relay knows this device by, where it wants one. It is sent to the origins of
    #: ``urls`` and to no others. Test person n has that text, a hyphen and n.
    credential_file: Path | None = None
    #: "tor": everything goes over Tor, and nothing where Tor is away.
    via: Literal["tor"] | None = None
    #: The SOCKS port of Tor on this machine.
    tor_proxy: str = DEFAULT_PROXY

    def tor(self) -> TorProxy | None:
        """The proxy that everything goes through; None: none."""
        return None if self.via is None else TorProxy.from_text(self.tor_proxy)

    @field_validator("tor_proxy")
    @classmethod
    def _is_proxy(cls, text: str) -> str:
        try:
            TorProxy.from_text(text)
        except ValueError:
            raise ValueError("must be an address of this machine and a port, such as 127.0.0.1:9050") from None
        return text

    @model_validator(mode="after")
    def _onions_need_tor(self) -> Self:
        if self.via is None and any(is_onion(url) for url in self.urls):
            raise ValueError('has an onion address, which Tor alone reaches: set via = "tor"')
        return self

    @field_validator("urls")
    @classmethod
    def _are_urls(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        if not all(re.fullmatch(r"https?://[^\s/]\S*", url) for url in urls):
            raise ValueError("must be URLs such as https://relay.example/relay")
        # A name before the host would travel in a header of its own, with every fetch.
        if any("@" in urlsplit(url).netloc for url in urls):
            raise ValueError("must not have a name or password in them: credential_file is for what a relay is told")
        return urls


class CoordinatorSettings(Settings):
    """[coordinator], instead of [relay]: everything goes straight there. Test experiments only."""

    unsafe_direct_url: str


class TrafficSettings(Settings):
    """[traffic]"""

    #: Bytes in a day, sent and fetched; a round that would go beyond is not begun.
    daily_bytes: int = Field(default=DAILY_BYTES, ge=1)
    #: Capsules of one device under way at once.
    parallel_sends: int = Field(default=PARALLEL_SENDS, ge=1, le=1000)


class TrustedRelaySettings(Settings):
    """[[trust.relays]]: a relay that packages may take, and who runs it."""

    #: In the person's own words.
    operator: str = Field(min_length=1, max_length=200)
    #: As experiments name it.
    url: str = Field(pattern=r"^https?://[!-~]{1,500}$")
    #: As its operator hands it out, in hexadecimal.
    key: str = Field(pattern=r"^[0-9a-f]{64}$")

    def relay(self) -> TrustedRelay:
        """As a value. Raises ``ValueError`` in a sentence for the settings."""
        try:
            key = VerifyKey(bytes.fromhex(self.key))
        except MalformedMessageError as fault:
            raise ValueError(str(fault)) from None
        return TrustedRelay(url=self.url, key=key, operator=self.operator)


class TrustSettings(Settings):
    """[trust]: what this device demands of a server."""

    #: The only relays that packages may take. Else those at the URLs of [relay].
    relays: tuple[TrustedRelaySettings, ...] | None = Field(default=None, min_length=1)
    #: Who runs the coordinator, in the same words as ``operator`` of a relay.
    coordinator: str | None = Field(default=None, min_length=1, max_length=200)
    #: "one relay": join also where the coordinator's operator runs one of an experiment's two relays, so that all rests
    #: on the other.
    profile: Literal["two relays", "one relay"] = "two relays"
    #: Keys of the only witnesses that count, each as its operator hands it out: name+id+key; or a file that says which
    #: logs are known, which witnesses count and how many are enough (c2sp.org/tlog-policy). Else those count that an
    #: experiment names.
    witnesses: Annotated[tuple[str, ...], Field(min_length=1)] | Path | None = None
    #: No round is joined whose weights have a larger Euclidean norm, or a larger bias: "10", "2.5", "7/3".
    norm_cap: str | None = Field(default=None, pattern=f"^{_NUMBER}$")
    bias_cap: str | None = Field(default=None, pattern=f"^{_NUMBER}$")
    #: So often in each window the log is looked at again.
    refetches: int = Field(default=REFETCHES, ge=0, le=16)
    #: So many rounds in a row in which no look was answered end this device's part, until its person resumes.
    most_unseen: int = Field(default=MOST_UNSEEN, ge=1, le=16)
    #: Join experiments without a log too: nobody can tell then whether everybody is told the same.
    without_log: bool = False

    @field_validator("relays")
    @classmethod
    def _are_relays(cls, relays: tuple[TrustedRelaySettings, ...] | None) -> tuple[TrustedRelaySettings, ...] | None:
        if relays is not None and len({relay.relay().url for relay in relays}) < len(relays):
            raise ValueError("must not name a URL twice")
        return relays

    def log_policy(self) -> LogPolicy | None:
        """Which log, and which witnesses are enough; None: as an experiment says."""
        if isinstance(self.witnesses, Path):
            return read_policy(read_beginning_with(b"", self.witnesses, most=MOST_POLICY_BYTES))
        return None if self.witnesses is None else LogPolicy.of_witnesses(read_witnesses(self.witnesses))

    @field_validator("witnesses")
    @classmethod
    def _are_keys(cls, witnesses: tuple[str, ...] | Path | None) -> tuple[str, ...] | Path | None:
        if isinstance(witnesses, tuple):
            read_witnesses(witnesses)
        return witnesses


def read_witnesses(texts: tuple[str, ...]) -> list[NoteKey]:
    """Witnesses' keys. Raises ``ValueError`` in a sentence for the settings."""
    try:
        keys = [NoteKey.from_text(text) for text in texts]
    except MalformedMessageError:
        keys = []
    if len(keys) != len(texts) or any(key.kind is not SignatureKind.COSIGNATURE for key in keys):
        raise ValueError("must be keys of witnesses, each name+id+key")
    return keys


class ConsentSettings(Settings):
    """[consent]: what this device agrees to tell about its person."""

    #: "unsafe-accept-anything" agrees to everything, for made-up people in tests and demos.
    policy: Literal["default", "unsafe-accept-anything"] = "default"
    #: Without a formal guarantee: the largest AUC with which whoever knows the features and reads the tallies of an
    #: honest run may tell the label. 0.5: no such experiment is joined without a yes to it alone.
    most_auc: float = Field(default=policies.MOST_AUC, ge=0.5, le=1)
    #: With one: the largest ε of an experiment over all its rounds.
    most_epsilon: float = Field(default=policies.MOST_EPSILON, gt=0)
    most_rounds: int = Field(default=policies.MOST_ROUNDS, ge=1)
    #: The chance that each experiment's guarantee leaves aside.
    delta: float = Field(default=policies.DELTA, gt=0, lt=1)
    #: The budget over all experiments, for the device's life.
    total_auc: float = Field(default=policies.TOTAL_AUC, ge=0.5, le=1)
    total_epsilon: float = Field(default=policies.MOST_EPSILON, gt=0)
    total_delta: float = Field(default=policies.TOTAL_DELTA, gt=0, lt=1)

    def consent(self, *, coordinator: str | None = None, one_relay: bool = False) -> policies.Consent:
        """As a value; the arguments are what [trust] says."""
        if self.policy == "unsafe-accept-anything":
            anything = policies.Consent.unsafe_accept_anything()
            return replace(anything, delta=self.delta, coordinator=coordinator, one_relay=one_relay)
        return policies.Consent(
            most_auc=self.most_auc,
            most_epsilon=self.most_epsilon,
            most_rounds=self.most_rounds,
            delta=self.delta,
            budget=policies.Budget(epsilon=self.total_epsilon, delta=self.total_delta, auc=self.total_auc),
            coordinator=coordinator,
            one_relay=one_relay,
        )


class StatusSettings(Settings):
    """[status]"""

    #: Address and port on this machine where counts are shown.
    listen: str


class TestingSettings(Settings):
    """[testing]: for experiments that are marked as a test, and no others."""

    #: A file that tells the time, instead of the machine's clock.
    clock: Path | None = None
    #: The seed of the dice that decide what is learnt.
    seed: str | None = None
    #: A file of people: the host carries a device for each of ``count`` of them, from number ``first`` on.
    people: Path | None = None
    first: int = Field(default=0, ge=0)
    count: int = Field(default=1, ge=1, le=10_000)
    #: Nothing is synced to the disk: hundreds of devices on one disk would wait for each other. A killed process loses
    #: nothing, a power cut may.
    unsafe_unsynced: bool = False
    #: Digests of experiments that these people join by themselves.
    join: tuple[str, ...] = ()
    #: The list of words of these experiments, where they have one.
    vocabulary: Path | None = None
    #: Each of them tells relays a credential of its own: its number.
    credentials: bool = False
    #: Take salts from the development beacon, whose outputs everybody knows.
    unsafe_beacons: bool = False

    @model_validator(mode="after")
    def _people_are_named(self) -> Self:
        if self.people is None and (self.join or self.first or self.count != 1 or self.vocabulary is not None):
            raise ValueError("first, count, join and vocabulary belong to people")
        return self


class ParticipantSettings(Settings):
    """The whole file."""

    device: DeviceSettings
    relay: RelaySettings | None = None
    coordinator: CoordinatorSettings | None = None
    traffic: TrafficSettings = TrafficSettings()
    trust: TrustSettings = TrustSettings()
    consent: ConsentSettings = ConsentSettings()
    status: StatusSettings | None = None
    testing: TestingSettings | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.relay is None) == (self.coordinator is None):
            raise ValueError("needs either [relay] or [coordinator]")
        return self

    @property
    def only_tests(self) -> bool:
        """Whether this device is for made-up data: it joins experiments that are marked as a test, and no others."""
        return self.testing is not None or self.coordinator is not None

    def agreed(self) -> policies.Consent:
        """What this device agrees to tell."""
        trust = self.trust
        return self.consent.consent(coordinator=trust.coordinator, one_relay=trust.profile == ONE_RELAY)

    def policy(self) -> TrustPolicy:
        """What this device demands of a server."""
        trust = self.trust
        return TrustPolicy(
            relays=self._relays(),
            log_policy=trust.log_policy(),
            caps=Caps(
                norm=None if trust.norm_cap is None else Fraction(trust.norm_cap),
                bias=None if trust.bias_cap is None else Fraction(trust.bias_cap),
            ),
            refetches=trust.refetches,
            most_unseen=trust.most_unseen,
            coordinator=trust.coordinator,
            one_relay=trust.profile == ONE_RELAY,
            without_log=trust.without_log,
            unsafe_beacons=self.testing is not None and self.testing.unsafe_beacons,
        )

    def _relays(self) -> tuple[TrustedRelay, ...] | None:
        """Those that packages may take; None where they take none at all, but go straight to a coordinator."""
        if self.trust.relays is not None:
            return tuple(relay.relay() for relay in self.trust.relays)
        return None if self.relay is None else tuple(TrustedRelay(url=url) for url in self.relay.urls)
