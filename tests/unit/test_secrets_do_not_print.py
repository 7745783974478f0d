"""Whatever holds a secret does not print it: neither with ``repr`` nor ``str``, nor inside of another value."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from secvm.coordinator.settings import CoordinatorProgramSettings
from secvm.crypto.locking import KeptKey
from secvm.crypto.sealing.kem import HybridPrivateKey, X25519PrivateKey
from secvm.crypto.sealing.oblivious import GatewayKey, GatewayKeys
from secvm.crypto.signing import SigningKey
from secvm.crypto.tokens import TokenBatch, TokenKey
from secvm.learning.individual.dice import KeptOnDevice
from secvm.participant.storage.device_lock import DeviceLock
from secvm.participant.storage.state import DeviceState
from secvm.participant.storage.vault import Vault
from secvm.participant.ui.guard import PageGuard
from secvm.relay.settings import RelayServiceSettings
from secvm.runtime.disk.secret_files import Passphrase
from secvm.runtime.settings import read_settings
from tests.leaks import LeakFinder

SECRET = bytes(range(100, 132))
TEXT = "a-secret-of-words-and-more"


def vault(folder: Path) -> Vault:
    with Vault(folder / "device") as found:
        found.put("words", {TEXT: 1})
        found.set_label("question", TEXT)
        return found


def asked(folder: Path) -> Passphrase:
    found = Passphrase(TEXT.encode)
    found.get()
    return found


def relay_settings(folder: Path) -> RelayServiceSettings:
    """The token is in a file; only the file's name is a setting."""
    (folder / "relay.token").write_text(TEXT)
    path = folder / "relay.toml"
    path.write_text(
        f'[gateway]\nurl = "https://c.example"\ntoken_file = "{folder}/relay.token"\n[epochs]\nperiod_s = 60\n'
    )
    return read_settings(path, RelayServiceSettings)


def database_settings(folder: Path) -> CoordinatorProgramSettings:
    """The one setting that can hold a secret itself: the address of a database with its password."""
    path = folder / "coordinator.toml"
    path.write_text(
        '[state]\nfolder = "state"\n[epochs]\nperiod_s = 60\nlead_s = 5\n[node]\nname = "n"\n'
        f'[database]\nurl = "postgresql://secvm:{TEXT}@db.example/secvm"\n'
    )
    return read_settings(path, CoordinatorProgramSettings)


HOLDERS: dict[str, Callable[[Path], object]] = {
    "a signing key": lambda _: SigningKey(SECRET),
    "a gateway's key": lambda _: GatewayKey(1, X25519PrivateKey(SECRET)),
    "a gateway's keys": lambda _: GatewayKeys([GatewayKey(1, X25519PrivateKey(SECRET))]),
    "a hybrid key": lambda _: HybridPrivateKey(SECRET),
    "a token key": lambda _: TokenKey.of_round(SECRET, quick=False),
    "a batch of tokens": lambda _: TokenBatch(SECRET, 1),
    "a kept key": lambda _: KeptKey(SECRET),
    "a device's lock": lambda _: DeviceLock(KeptKey(SECRET), os.urandom),
    "the guard of a person's page": lambda _: PageGuard(TEXT, ("127.0.0.1:1",)),
    "a passphrase": asked,
    "features": lambda _: KeptOnDevice({TEXT: 1}),
    "a vault": vault,
    "a device's state": lambda folder: DeviceState(folder / "device"),
    "a relay's settings": relay_settings,
    "settings with a database": database_settings,
}


def finder() -> LeakFinder:
    found = LeakFinder()
    found.add("bytes", SECRET)
    found.add("text", TEXT)
    return found


@pytest.mark.parametrize("name", HOLDERS)
def test_what_holds_a_secret_does_not_print_it(name: str, tmp_path: Path) -> None:
    holder = HOLDERS[name](tmp_path)
    shown = f"{holder!r} {holder} {[holder]!r} { {'it': holder}!r}"
    assert finder().search({name: shown.encode()}) == []
    if isinstance(holder, DeviceState):
        holder.close()


def test_a_value_that_prints_itself_is_seen() -> None:
    @dataclasses.dataclass
    class Careless:
        seed: bytes

    assert finder().search({"careless": repr(Careless(SECRET)).encode()})
    assert finder().search({"careless": repr(Careless(TEXT.encode())).encode()})
