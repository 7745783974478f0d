"""``secvm participant ui`` as a process, beside ``secvm participant run`` of the same device."""

import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from secvm.participant.storage.state import DeviceState, Status
from tests.unit.participant.world import World


@contextmanager
def command(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process that is told to stop, and ends with 0."""
    program = [sys.executable, "-P", "-m", "secvm.cli.main", "participant", *arguments]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


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
    with command("ui", "--config", str(config), "--format", "json") as page:
        assert page.stdout is not None
        address = json.loads(page.stdout.readline())["page"]
        assert ask(address, "api/state")["runs"] is False
        with command("run", "--config", str(config)) as device:
            assert device.stderr is not None
            while '"event":"started"' not in device.stderr.readline():
                pass
            told = ask(address, "api/state")
            assert told["runs"] is True
            assert told["experiments"][0]["status"] == "joined"
            ask(address, "api/pause", {"digest": digest})
            assert ask(address, "api/state")["experiments"][0]["status"] == "paused"
            ask(address, "api/forget", {"digest": digest})
        assert ask(address, "api/state")["runs"] is False
        secret = urlsplit(address).path.strip("/")
        # Arguments are there for every account to see.
        assert secret not in Path(f"/proc/{page.pid}/cmdline").read_text()
        assert secret not in Path(f"/proc/{page.pid}/environ").read_text()
    assert page.stderr is not None
    state = DeviceState(world.folder)
    record = state.record(digest)
    state.close()
    assert record is not None
    assert record.status is Status.FORGOTTEN
    assert not (world.folder / "open-page.html").exists()
