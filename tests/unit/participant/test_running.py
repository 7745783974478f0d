"""One process runs a device at a time."""

import asyncio
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from secvm.errors import BadInputError
from secvm.participant import running
from secvm.participant.running import is_running, only_one

HOLD = """
import asyncio, sys
from pathlib import Path
from secvm.participant.running import only_one

async def hold():
    async with only_one(Path(sys.argv[1])):
        print("held", flush=True)
        sys.stdin.read()

asyncio.run(hold())
"""


def test_second_process_is_refused_until_the_first_is_dead(tmp_path: Path) -> None:
    folder = tmp_path / "device"
    assert not is_running(folder)

    async def take() -> None:
        async with only_one(folder):
            assert is_running(folder)

    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert is_running(folder)
        with pytest.raises(BadInputError, match="another process runs this device"):
            asyncio.run(take())
        other.kill()
        other.wait()
        asyncio.run(take())
    assert not is_running(folder)


def test_folder_and_lock_are_the_persons_alone(tmp_path: Path) -> None:
    async def take() -> None:
        async with only_one(tmp_path / "device"):
            pass

    asyncio.run(take())
    assert stat.S_IMODE((tmp_path / "device").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "device" / running.FILE).stat().st_mode) == 0o600


def test_folder_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    async def take() -> None:
        async with only_one(tmp_path / "file"):
            pass

    with pytest.raises(BadInputError, match="cannot be used") as caught:
        asyncio.run(take())
    assert os.linesep not in str(caught.value)
