"""Attacks by way of devices: what they look for, whom they accuse, what they send to whom, and who is enough."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.layers import open_inner, open_outer
from secvm.crypto.sealing.oblivious import KEYS_MEDIA_TYPE, GatewayKey, encode_key_configurations
from secvm.learning.package import Package, TrainPackage
from secvm.privacy.statements.plain import Terms, coalitions
from secvm.protocol.codec import decode
from secvm.protocol.documents.experiment import Relay
from secvm.protocol.evidence.missing_canary import MissingCanary, examine_canary
from secvm.protocol.relays.batches import capsule_digest
from secvm.protocol.relays.counts import EntryCount, MixCount
from secvm.protocol.relays.submission import read_request
from secvm.relay.entry.intake import IntakeVerdict
from secvm_lab.attacks.attack import Goal
from secvm_lab.attacks.relayed.stage import LIMITS, Stage
from secvm_lab.attacks.relayed.trap import Tried, held, refused, trap
from secvm_lab.rigs.histories.relayed_rounds import MIX, STRANGER, relayed_experiment
from secvm_lab.rigs.histories.sealed_round import SealedRound

_UNIT = TrainPackage(model=0, bin_index=3, sign=1)
_DEVICES = 5


def _contents(told: SealedRound) -> dict[bytes, Package]:
    """What C and X know together: each device's inner capsule by digest, and what it says."""
    found = {}
    for one in told.submissions:
        for outer in read_request(one.body, budget=told.document.budget):
            inner = open_outer(told.secret("mix").mix_key, told.label, outer)
            found[capsule_digest(inner)] = decode(open_inner(told.count_key, told.label, inner)).package
    return found


@trap(
    20,
    "dropping relay",
    needs="One of the relays (F4).",
    steps=("Leave out all capsules of a device, and fill up with others.",),
    defence="The device looks for its canary, and with the receipt shows everybody who left it out.",
    remains="Of m of B dropped capsules the canary is one with chance m/B.",
)
def dropping(dice: random.Random, _folder: Path, *, defended: bool) -> Tried:
    """A relay leaves out all capsules of a device and puts others in their place; which of the two, dice say."""
    told = SealedRound()
    outers = frozenset(told.submission)
    by_entry = SealedRound(entry_leaves_out=outers)
    by_mix = SealedRound(mix_leaves_out=frozenset(told.inner_of[outer] for outer in outers))
    evidence = dice.choice([by_entry, by_mix]).evidence(narrowed=True)
    return held("seen by the device's canary", succeeded=not defended or evidence is None)


@trap(
    41,
    "dropped cell as an oracle",
    needs="Coordinator and mixing relay.",
    steps=("Drop all packages of a cell.", "See which devices complain: those had one of them."),
    defence="A device looks for its canary alone, a null whose place was drawn before data were looked at.",
)
def dropped_cell(_dice: random.Random, _folder: Path, *, defended: bool) -> Tried:
    """C and X drop all packages of a cell; one device has one of them, another has none. Do they act differently?"""
    acted = []
    for packages in ((_UNIT,), ()):
        told = SealedRound(told=(packages,))
        victims = frozenset(inner for inner, package in _contents(told).items() if package == _UNIT)
        lying = replace(told, mix_leaves_out=victims)
        own = {told.inner_of[outer] for outer in told.submission}
        acted.append(lying.evidence() is not None if defended else not own <= set(lying.mixed))
    return held("foiled by the canary alone", succeeded=acted[0] != acted[1])


@trap(
    42,
    "dropped cover as an oracle",
    needs="Coordinator and mixing relay.",
    steps=("Leave out one capsule.", "See whether the entry relay minds: then it was cover."),
    defence="A relay does not react to cover that is missing and not opened.",
)
def missing_cover(_dice: random.Random, folder: Path, *, defended: bool) -> Tried:
    """C and X leave out one capsule: cover of the entry relay's, or a person's. Does the relay tell which it was?"""
    acted = []
    for is_cover in (True, False):
        with Stage(folder / f"{is_cover}") as stage:
            entry = stage.entry()
            stage.send(entry, 0, 1)
            own = EntryCount.enclosed(stage.batch(entry)[0])
            entry.handed_on()
            count = MixCount(
                label=own.label,
                entry_count=own.digest,
                refused=1,
                capsules=own.capsules - 1 + stage.plan.packages,
                root=bytes([is_cover]) * 32,
            )
            answered = refused("", lambda: entry.answer(count.signed(MIX), stage.plan.instants.mix_by)).succeeded  # noqa: B023
            acted.append(answered if defended else is_cover)
    return held("foiled by silence", succeeded=acted[0] != acted[1])


@trap(
    43,
    "framed relay",
    needs="A device.",
    steps=("Send a request that no relay takes.", "Accuse the relays of having left it out."),
    defence="Evidence needs the entry relay's receipt, which late, malformed, doubled or foreign requests do not get.",
)
def framing(_dice: random.Random, _folder: Path, *, defended: bool) -> Tried:
    """A device whose request was late, and got no receipt, accuses the relays with one that it signed itself."""
    told = SealedRound()
    lying = SealedRound(mix_leaves_out=frozenset({told.submissions[0].canary.inner_digest}))
    evidence = lying.evidence()
    assert evidence is not None
    file = replace(evidence, receipt=told.receipt.signed(STRANGER)).to_bytes()
    if not defended:
        return held("", succeeded=MissingCanary.from_bytes(file).to_bytes() == file)
    return refused("the missing receipt", lambda: examine_canary(file))


@trap(
    44,
    "rotating fetch keys",
    needs="The coordinator (F1).",
    steps=("Answer every request for the fetch key with another key.", "Know by the key whose a fetch is."),
    defence="The relay hands out the first key of the slot to everybody; devices ask anew for each fetch.",
)
def rotating_keys(dice: random.Random, _folder: Path, *, defended: bool) -> Tried:
    """The gateway gives another key to whoever asks, and knows by it whose each fetch is."""
    # Late, as in all that follows: relays' and devices' networks bring servers and clients along.
    from secvm.relay.admission import Epochs  # noqa: PLC0415
    from secvm.relay.gateway import FetchKeys  # noqa: PLC0415
    from secvm.runtime.http.server import HttpResponse  # noqa: PLC0415
    from secvm.runtime.metrics import Metrics  # noqa: PLC0415
    from secvm.testing.clock import ManualClock  # noqa: PLC0415

    class Rotating:
        async def get(self, _path: str) -> HttpResponse:
            key = GatewayKey(11, X25519PrivateKey(dice.randbytes(32))).configuration
            return HttpResponse(200, encode_key_configurations([key]), KEYS_MEDIA_TYPE)

    async def asked() -> set[bytes]:
        gateway, clock = Rotating(), ManualClock(600_000)
        keys = FetchKeys(gateway, Epochs(0, 60_000, 40_000), clock, Metrics("relay"))  # type: ignore[arg-type]
        found = set()
        for _ in range(_DEVICES):
            clock.advance(1_100)
            told = keys.answer() if defended else gateway.get("")
            found.add((told if isinstance(told, HttpResponse) else await told).body)
        return found

    return held("foiled by the first key of the slot", succeeded=len(asyncio.run(asked())) == _DEVICES)


@trap(
    46,
    "credential for a stranger",
    needs="Any experiment's author (F5).",
    steps=("Name a relay of one's own.", "Read the credential that devices have for theirs."),
    defence="A credential goes to the origin that it was given for, and nowhere else.",
)
def credential(_dice: random.Random, _folder: Path, *, defended: bool) -> Tried:
    """An experiment names a relay of the coordinator's, which looks for the credential of another relay."""
    from secvm.participant.sending.transport import RelayTransport  # noqa: PLC0415
    from secvm.runtime.http.client import HttpClient  # noqa: PLC0415
    from secvm.testing.gateway import FakeGateway  # noqa: PLC0415

    async def sent() -> bool:
        async with FakeGateway() as theirs, HttpClient(connections=1) as session:
            # Without the rule every relay is taken for the one that the credential is for.
            known = "https://relay.example/" if defended else theirs.url
            way = RelayTransport(session, [known], random.randbytes, credential="somebody")
            await way.submit(b"request", bytes(32), Relay(url=f"{theirs.url}/", key=STRANGER.public, role="entry"))
            return any("secvm-credential" in one.fields for one in theirs.seen)

    return held("foiled by one origin", succeeded=asyncio.run(sent()))


@trap(
    47,
    "many clients of one network",
    needs="Anybody with an IPv6 network of 48 bits (F7).",
    steps=("Send as many requests as there are networks of 64 bits in it.",),
    defence="A quota for each network of 48 bits. No guarantee rests on it: with two relays' cover Sybils gain"
    " nothing of privacy (A45).",
    remains="Who has many networks or credentials is many clients: the count of people is not shown to be true.",
)
def one_network(_dice: random.Random, folder: Path, *, defended: bool) -> Tried:
    """Somebody with a network of 48 bits is as many clients as it likes."""
    with Stage(folder) as stage:
        entry = stage.entry()
        limits = LIMITS if defended else replace(LIMITS, network_quota=100)
        verdicts = stage.send(entry, *range(_DEVICES), network=b"one /48", limits=limits)
    return held("refused by the network's quota", succeeded=verdicts == [IntakeVerdict.TAKEN] * _DEVICES)


@trap(
    48,
    "coalition that nobody names",
    needs="Whoever is enough, and is not in the statement (F9).",
    steps=("Find a sufficient coalition of a plain experiment that its statement leaves out.",),
    defence="The list of sufficient coalitions is computed from the document, and printed whole.",
)
def unnamed_coalition(_dice: random.Random, _folder: Path, *, defended: bool) -> Tried:
    """A coalition is enough to link packages with people, and the statement that people read does not name it."""
    enough = ("the relay alone", "the coordinator alone")
    experiment = replace(relayed_experiment(), cover=None, budget=None)
    named = [one.parties for one in coalitions(Terms(experiment=experiment, rounds=2, floor=100, quorum=(2, 3)))]
    # The sentence that stood there before was about one coalition.
    told = named if defended else ["the coordinator and the relay together"]
    return held("foiled by a computed list", succeeded=any(one not in told for one in enough))


@trap(
    49,
    "both relays together",
    needs="Both relays.",
    steps=("Join what the entry relay knows of clients with what the mixing relay opens.",),
    defence="None: nothing is promised against both relays together. They can link everything, for ever.",
    remains="Everything.",
    aim=Goal("succeeds with the defence too, and the report says so", lambda _, found: found.value == 1),
)
def both_relays(_dice: random.Random, folder: Path, *, defended: bool) -> Tried:
    """E knows whose each outer capsule is, X what is in it, and the count key's seed is public. No rule forbids it."""
    del defended
    with Stage(folder) as stage:
        entry = stage.entry()
        stage.send(entry, *range(_DEVICES))
        count, piece = stage.batch(entry)
        stage.mixed(stage.mix(), count, piece)
        told = stage.told
        whose = {
            told.inner_of[capsule_digest(outer)]: device
            for device, one in enumerate(told.submissions)
            for outer in read_request(one.body, budget=stage.plan.budget)
        }
        named = [(whose.get(inner), package) for inner, package in _contents(told).items()]
    return held("", succeeded=len(named) == _DEVICES * stage.plan.budget and all(who is not None for who, _ in named))
