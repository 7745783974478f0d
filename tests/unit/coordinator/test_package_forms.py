"""Many packages judged at once are judged as one by one."""

import os

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from secvm.coordinator.intake import gateway
from secvm.coordinator.intake.gateway import open_block
from secvm.coordinator.intake.running import gateway_key
from secvm.coordinator.store.records import right_form
from secvm.crypto.sealing.binary_http import Request, encode_request
from secvm.crypto.sealing.lanes import Lanes
from secvm.crypto.sealing.oblivious import RequestSealer
from secvm.errors import MalformedMessageError
from secvm.learning.declared import MAX_BINS
from secvm.learning.label_models import MAX_MODELS
from secvm.learning.package import Cohort, NullPackage, ParticipationPackage, TestPackage, TrainPackage
from secvm.protocol import codec
from secvm.protocol.codec import AddressedPackage, ExperimentId
from secvm.protocol.plain.sealed_requests import fetch_request, package_request
from secvm.protocol.version import MAX_ROUND
from tests.unit.coordinator.package_path import EPOCH, KEY, PRESENT

models, labels = st.integers(0, MAX_MODELS - 1), st.integers(0, MAX_MODELS - 1)
good_packages = st.builds(
    lambda identity, number, package: codec.encode(AddressedPackage(ExperimentId(identity), number, package)),
    st.binary(min_size=16, max_size=16),
    st.integers(1, MAX_ROUND),
    st.one_of(
        st.builds(TrainPackage, model=models, bin_index=st.integers(0, MAX_BINS), sign=st.sampled_from([-1, 1])),
        st.builds(TestPackage, true_class=labels, predicted_class=labels),
        st.builds(ParticipationPackage, cohort=st.sampled_from(Cohort), class_index=labels),
        st.just(NullPackage()),
    ),
)


@st.composite
def any_packages(draw: st.DrawFn) -> bytes:
    """Good ones, good ones with one byte changed, and numbers just beyond what there may be."""
    package = bytearray(draw(good_packages))
    kind = draw(st.sampled_from(["good", "changed", "edge", "noise"]))
    if kind == "changed":
        package[draw(st.integers(0, 31))] = draw(st.integers(0, 255))
    elif kind == "edge":
        package[1] = draw(st.integers(0, 5))
        package[18:22] = draw(st.sampled_from([0, 1, MAX_ROUND, MAX_ROUND + 1, 2**32 - 1])).to_bytes(4, "little")
        package[22:24] = draw(st.sampled_from([0, 1, MAX_MODELS - 1, MAX_MODELS, 2**16 - 1])).to_bytes(2, "little")
        package[24:28] = draw(st.sampled_from([0, MAX_MODELS, MAX_BINS, MAX_BINS + 1])).to_bytes(4, "little")
        package[28] = draw(st.integers(0, 3))
    elif kind == "noise":
        package = bytearray(draw(st.binary(min_size=32, max_size=32)))
    return bytes(package)


def decodes(package: bytes) -> bool:
    try:
        codec.decode(package)
    except MalformedMessageError:
        return False
    return True


@given(packages=st.lists(any_packages(), max_size=30))
def test_the_form_of_many_is_what_decoding_each_says(packages: list[bytes]) -> None:
    rows = np.frombuffer(b"".join(packages), dtype=np.uint8).reshape(-1, 32)
    assert right_form(rows).tolist() == [decodes(package) for package in packages]


SEALER = RequestSealer(gateway_key(KEY).configuration)


def stranger(package: bytes) -> bytes:
    """The same request, written as we would not."""
    return encode_request(
        Request(method=b"POST", scheme=b"https", authority=b"a", path=b"/v1/packages", content=package),
        indeterminate=True,
    )


contents = st.one_of(
    any_packages().map(package_request),
    any_packages().map(stranger),
    st.binary(max_size=100),
    st.just(fetch_request("/v1/tip")),
    # A package that is too long.
    any_packages().map(lambda package: stranger(package + bytes(64))),
    # As long as ours, and something else around the package.
    st.tuples(any_packages(), st.integers(0, 45)).map(
        lambda both: (request := package_request(both[0]))[: both[1]] + b"\xff" + request[both[1] + 1 :]
    ),
)


@given(good=st.lists(good_packages.map(package_request), max_size=12), mixed=st.lists(contents, max_size=6))
def test_a_block_is_the_same_whichever_way_it_is_judged(
    lanes: Lanes | None, good: list[bytes], mixed: list[bytes]
) -> None:
    keys = PRESENT.keys_of(EPOCH).with_lanes(lanes)
    for requests in (good, good + mixed):
        capsules = [SEALER.seal(request, os.urandom).capsule for request in requests]
        quick = open_block(keys, capsules)
        slow = gateway._judge(capsules, PRESENT.keys_of(EPOCH).open_unanswered(capsules))
        assert quick == slow
        if requests is good:
            assert len(quick.block) == 64 * len(good)
