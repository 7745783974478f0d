"""One process at a time runs a party from a folder."""

import subprocess
import sys
from pathlib import Path

import pytest

from secvm.errors import BadInputError
from secvm.runtime.disk.process_lock import is_running, only_one

HOLD = """
import sys
from pathlib import Path
from secvm.runtime.disk.process_lock import only_one

with only_one(Path(sys.argv[1]), "device"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_second_process_is_refused_until_the_first_is_dead(tmp_path: Path) -> None:
    path = tmp_path / "running.lock"
    assert not is_running(path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert is_running(path)
        assert path.stat().st_mode & 0o777 == 0o600
        with pytest.raises(BadInputError, match="another process runs this device"), only_one(path, "device"):
            pass
        other.kill()
        other.wait()
        with only_one(path, "device"):
            assert is_running(path)
    assert not is_running(path)


def test_folder_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "running.lock"
    with pytest.raises(BadInputError, match="cannot be used as a relay's folder"), only_one(path, "relay"):
        pass
