"""``secvm participant ui`` as a process, beside ``secvm participant run`` of the same device."""

import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from secvm.participant.storage.state import DeviceState, Status
from tests.system.parties import party
from tests.unit.participant.world import World


def ask(address: str, path: str, said: object = None) -> Any:
    parts = urlsplit(address)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    headers = {} if said is None else {"Content-Type": "application/json", "Secvm-Page": "person"}
    body = None if said is None else json.dumps(said)
    connection.request("GET" if said is None else "POST", parts.path + path, body=body, headers=headers)
    answer = connection.getresponse()
    content = json.loads(answer.read())
    connection.close()
    assert answer.status == 200, content
    return content


def test_page_runs_beside_its_device_and_decides_for_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.joined().close()
    config, digest = tmp_path / "device.toml", world.of.digest
    config.write_text(
        f'[device]\nfolder = "{world.folder}"\n[relay]\nurls = ["http://127.0.0.1:9/nobody"]\n'
        '[trust]\nwithout_log = true\n[consent]\npolicy = "unsafe-accept-anything"\n'
    )
    with party("participant", "ui", "--no-run", "--config", str(config), "--format", "json") as page:
        address = page.shows('"page": ?"([^"]+)"')[1]
        assert ask(address, "api/state")["runs"] is False
        with party("participant", "run", "--config", str(config)) as device:
            device.told("started")
            told = ask(address, "api/state")
            assert told["runs"] is True
            assert told["experiments"][0]["status"] == "joined"
            ask(address, "api/pause", {"digest": digest})
            assert ask(address, "api/state")["experiments"][0]["status"] == "paused"
            ask(address, "api/forget", {"digest": digest})
            device.stop()
        assert ask(address, "api/state")["runs"] is False
        secret = urlsplit(address).path.strip("/")
        # Arguments are there for every account to see.
        assert secret not in Path(f"/proc/{page.process.pid}/cmdline").read_text()
        assert secret not in Path(f"/proc/{page.process.pid}/environ").read_text()
        page.stop()
    state = DeviceState(world.folder)
    record = state.record(digest)
    state.close()
    assert record is not None
    assert record.status is Status.FORGOTTEN
    assert not (world.folder / "open-page.html").exists()
