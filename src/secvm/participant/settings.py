"""Settings of a device, as they stand in its TOML file; docs/how-to/take-part.md explains each."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from secvm.crypto.notes import NoteKey, SignatureKind
from secvm.errors import MalformedMessageError
from secvm.learning.arithmetic import exact
from secvm.participant.consent import (
    LEAST_FLOOR,
    MOST_AUC,
    MOST_EPSILON,
    MOST_ROUNDS,
    TOTAL_DELTA,
    Budget,
    Consent,
    default_policy,
)
from secvm.participant.device import DAILY_BYTES, PARALLEL_SENDS
from secvm.participant.surroundings import RECEIPTS, REFETCHES, TrustPolicy
from secvm.privacy.statement import Assumption
from secvm.protocol.recompute import Caps
from secvm.runtime.settings import Settings

_NUMBER = r"[0-9]{1,18}(\.[0-9]{1,18}|/[1-9][0-9]{0,17})?"


class DeviceSettings(Settings):
    """[device]"""

    #: Where the device keeps vault, state and models. With [testing] people: where the folders of all of them are.
    folder: Path


class RelaySettings(Settings):
    """[relay]"""

    #: The relays through which public files are fetched. Packages take those that the experiment names.
    urls: tuple[str, ...] = Field(min_length=1)
    #: A file with the credential that the relay knows this device by, where it wants one. Test person n has that text,
    #: a hyphen and n.
    credential_file: Path | None = None

    @field_validator("urls")
    @classmethod
    def _are_urls(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        if not all(re.fullmatch(r"https?://[^\s/]\S*", url) for url in urls):
            raise ValueError("must be URLs such as https://relay.example/relay")
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


class TrustSettings(Settings):
    """[trust]: what this device demands of a server."""

    #: Keys of the only witnesses that count, each as its operator hands it out: name+id+key. Else those count that an
    #: experiment names.
    witnesses: tuple[str, ...] | None = Field(default=None, min_length=1)
    #: No round is joined whose weights have a larger Euclidean norm, or a larger bias: "10", "2.5", "7/3".
    norm_cap: str | None = Field(default=None, pattern=f"^{_NUMBER}$")
    bias_cap: str | None = Field(default=None, pattern=f"^{_NUMBER}$")
    #: So often in each window the log is looked at again.
    refetches: int = Field(default=REFETCHES, ge=0, le=16)
    #: So many capsules of each round are looked for under the received root.
    receipts: int = Field(default=RECEIPTS, ge=0, le=16)
    #: Join experiments without a log too: nobody can tell then whether everybody is told the same.
    without_log: bool = False

    @field_validator("witnesses")
    @classmethod
    def _are_keys(cls, witnesses: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if witnesses is not None:
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
    #: Without a formal guarantee: the largest AUC with which whoever knows the features may tell the label.
    most_auc: float = Field(default=MOST_AUC, ge=0.5, le=1)
    #: With one: the largest ε of an experiment over all its rounds, by what this device counts on.
    most_epsilon: float = Field(default=MOST_EPSILON, gt=0)
    most_rounds: int = Field(default=MOST_ROUNDS, ge=1)
    #: Fewest people with which a round may count.
    least_floor: int = Field(default=LEAST_FLOOR, ge=1)
    #: γ: this device counts on so many of the participants being honest and delivering.
    honest_share: float = Field(default=0.5, gt=0, le=1)
    #: It never counts on more participants than this; without, on as many as an experiment plans with.
    participants: int | None = Field(default=None, ge=1)
    #: The chance that each experiment's guarantee leaves aside.
    delta: float = Field(default=1e-6, gt=0, lt=1)
    #: The budget over all experiments, for the device's life.
    total_auc: float = Field(default=MOST_AUC, ge=0.5, le=1)
    total_epsilon: float = Field(default=MOST_EPSILON, gt=0)
    total_delta: float = Field(default=TOTAL_DELTA, gt=0, lt=1)

    def consent(self, *, without_log: bool = False) -> Consent:
        """As a value; ``without_log`` is what [trust] says."""
        assumption = Assumption(
            gamma=exact(self.honest_share),
            participants=self.participants,
            delta=self.delta,
            without_log=without_log,
        )
        if self.policy == "unsafe-accept-anything":
            return replace(Consent.unsafe_accept_anything(), assumption=assumption)
        return Consent(
            policy=default_policy(
                auc=self.most_auc, epsilon=self.most_epsilon, rounds=self.most_rounds, floor=self.least_floor
            ),
            assumption=assumption,
            budget=Budget(epsilon=self.total_epsilon, delta=self.total_delta, auc=self.total_auc),
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
    #: Each of them tells relays a credential of its own: its number.
    credentials: bool = False
    #: Take salts from the development beacon, whose outputs everybody knows.
    unsafe_beacons: bool = False

    @model_validator(mode="after")
    def _people_are_named(self) -> Self:
        if self.people is None and (self.join or self.first or self.count != 1):
            raise ValueError("first, count and join belong to people")
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

    def policy(self) -> TrustPolicy:
        """What this device demands of a server."""
        trust = self.trust
        keys = None if trust.witnesses is None else frozenset(key.key for key in read_witnesses(trust.witnesses))
        return TrustPolicy(
            witnesses=keys,
            caps=Caps(
                norm=None if trust.norm_cap is None else Fraction(trust.norm_cap),
                bias=None if trust.bias_cap is None else Fraction(trust.bias_cap),
            ),
            refetches=trust.refetches,
            receipts=trust.receipts,
            without_log=trust.without_log,
            unsafe_beacons=self.testing is not None and self.testing.unsafe_beacons,
        )
