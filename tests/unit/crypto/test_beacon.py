"""Public randomness by name: every chain's records, whatever bytes they are, and the salt that follows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto.beacons.records import MAX_RECORD_BYTES, BeaconOutput
from secvm.crypto.beacons.sources import (
    MAX_BEACONS,
    SALT_BYTES,
    LocalUnsafeBeacon,
    is_unsafe,
    round_time,
    salt_from,
    verify_beacon,
)
from secvm.errors import BadBeaconError, LocalProtocolError
from tests.unit.crypto.recorded_beacons import (
    CERTIFICATE,
    DRAND,
    DRAND_RECORD,
    NIST,
    NIST_RECORD,
    OUTPUT,
    PULSE,
    RANDOMNESS,
    ROUND,
    SERVED_PULSE,
)

LOCAL = "local-unsafe-test"
OUTPUTS = st.binary(min_size=32, max_size=32) | st.binary(min_size=64, max_size=64)


def taken(chain: str, round_number: int, record: bytes) -> BeaconOutput | None:
    """What comes out; anything but the one documented error goes through."""
    try:
        return verify_beacon(chain, round_number, record, allow_unsafe=True)
    except BadBeaconError:
        return None


def test_recorded_rounds_are_genuine() -> None:
    assert verify_beacon(NIST, PULSE, NIST_RECORD).value == OUTPUT
    assert verify_beacon(DRAND, ROUND, DRAND_RECORD).value == RANDOMNESS


# ── any bytes ────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(
    chain=st.sampled_from([(NIST, PULSE, NIST_RECORD, OUTPUT), (DRAND, ROUND, DRAND_RECORD, RANDOMNESS)]),
    at=st.floats(0, 1, exclude_max=True),
    put=st.binary(max_size=3),
    dropped=st.integers(0, 3),
)
def test_no_change_to_a_genuine_record_gives_another_output(
    chain: tuple[str, int, bytes, bytes], at: float, put: bytes, dropped: int
) -> None:
    name, number, record, value = chain
    place = int(at * len(record))
    found = taken(name, number, record[:place] + put + record[place + dropped :])
    # White space, the case of letters, and addresses that are not signed may change.
    assert found is None or (found.value == value and found.at == verify_beacon(name, number, record).at)


@pytest.mark.parametrize("record", [b"[" * 60_000, b'{"pulse":' * 7_000, b"9" * 60_000, b" " * (MAX_RECORD_BYTES + 1)])
@pytest.mark.parametrize(("chain", "number"), [(NIST, PULSE), (DRAND, ROUND), (LOCAL, 7)])
def test_deep_and_long_bytes_are_refused(chain: str, number: int, record: bytes) -> None:
    assert taken(chain, number, record) is None


@given(damage=st.binary(min_size=1, max_size=40), at=st.integers(28, len(CERTIFICATE) - 60))
def test_damaged_certificate_is_refused(damage: bytes, at: int) -> None:
    damaged = CERTIFICATE[:at] + damage + CERTIFICATE[at + len(damage) :]
    found = taken(NIST, PULSE, SERVED_PULSE + damaged)
    assert found is None or found.value == OUTPUT


# ── names and times ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("chain", ["", "nist-2.0", "nist-2.0-chain-0", "drand", "Drand-quicknet", "local", "unsafe"])
def test_unknown_chain_is_refused(chain: str) -> None:
    with pytest.raises(BadBeaconError):
        verify_beacon(chain, 7, DRAND_RECORD, allow_unsafe=True)
    with pytest.raises(BadBeaconError):
        round_time(chain, 7)


@pytest.mark.parametrize("round_number", [-1, 0, 2**53])
@pytest.mark.parametrize("chain", [NIST, DRAND, LOCAL])
def test_no_chain_has_such_a_round(chain: str, round_number: int) -> None:
    with pytest.raises(BadBeaconError):
        verify_beacon(chain, round_number, b"", allow_unsafe=True)
    with pytest.raises(BadBeaconError):
        round_time(chain, round_number)


def test_time_by_number_is_the_time_that_verification_gives() -> None:
    assert round_time(DRAND, ROUND) == verify_beacon(DRAND, ROUND, DRAND_RECORD).at
    local = LocalUnsafeBeacon().fetch(LOCAL, 7)
    assert round_time(LOCAL, 7) == verify_beacon(LOCAL, 7, local, allow_unsafe=True).at == 7000


# ── the development beacon ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("chain", ["local-unsafe", LOCAL])
def test_development_beacon_is_refused_unless_it_is_allowed(chain: str) -> None:
    record = LocalUnsafeBeacon().fetch(chain, 7)
    assert is_unsafe(chain)
    with pytest.raises(BadBeaconError):
        verify_beacon(chain, 7, record)
    assert len(verify_beacon(chain, 7, record, allow_unsafe=True).value) == 32


@given(a=st.tuples(st.integers(1, 99), st.sampled_from("abc")), b=st.tuples(st.integers(1, 99), st.sampled_from("abc")))
def test_development_rounds_are_fixed_by_number_and_seed(a: tuple[int, str], b: tuple[int, str]) -> None:
    one, two = (LocalUnsafeBeacon().fetch(f"local-unsafe-{seed}", number) for number, seed in (a, b))
    assert (one == two) == (a == b)
    assert (taken(f"local-unsafe-{a[1]}", a[0], two) is not None) == (a == b)


def test_development_beacon_speaks_for_no_other() -> None:
    with pytest.raises(BadBeaconError):
        LocalUnsafeBeacon().fetch(DRAND, 7)


# ── the salt ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(
    one=st.lists(OUTPUTS, min_size=1, max_size=MAX_BEACONS),
    two=st.lists(OUTPUTS, min_size=1, max_size=MAX_BEACONS),
    bins=st.integers(1, 2**24),
    others=st.integers(1, 2**24),
)
def test_salt_is_of_all_outputs_in_their_order_and_of_the_bins(
    one: list[bytes], two: list[bytes], bins: int, others: int
) -> None:
    assert len(salt_from(one, bins)) == SALT_BYTES
    assert (salt_from(one, bins) == salt_from(two, others)) == ((one, bins) == (two, others))


@pytest.mark.parametrize(
    ("outputs", "bins"),
    [([], 8), ([bytes(32)] * 9, 8), ([bytes(31)], 8), ([b""], 8), ([bytes(32)], 0), ([bytes(32)], -1)],
)
def test_salt_of_nothing_is_refused(outputs: list[bytes], bins: int) -> None:
    with pytest.raises(LocalProtocolError):
        salt_from(outputs, bins)
