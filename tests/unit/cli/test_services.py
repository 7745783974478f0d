"""A service whose store does not answer ends so that it is started again; bad settings end so that it is not."""

from pathlib import Path
from typing import NoReturn

import pytest

from secvm.errors import BadInputError, SecVMError, StoreError
from tests.program import Program

SERVICES = [
    ("coordinator", "serve", "secvm.coordinator.main.serve"),
    ("relay", "serve", "secvm.relay.main.serve"),
    ("witness", "serve", "secvm.witness.main.serve"),
    ("participant", "run", "secvm.participant.main.run"),
]


@pytest.mark.parametrize(("fault", "code"), [(StoreError("the disk is full"), 1), (BadInputError("no such key"), 2)])
@pytest.mark.parametrize(("party", "command", "begins"), SERVICES)
def test_repro_only_what_a_person_must_put_right_is_final(
    party: str,
    command: str,
    begins: str,
    fault: SecVMError,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    secvm: Program,
    tmp_path: Path,
    repository: Path,
) -> None:
    def fail(*_given: object) -> NoReturn:
        raise fault

    monkeypatch.setattr(begins, fail)
    config = tmp_path / "settings.toml"
    config.write_text(
        '[device]\nfolder = "d"\n[relay]\nurls = ["https://relay.example/r"]\n' * (party == "participant")
    )
    assert secvm(party, command, "--config", config) == code
    assert secvm.err == f"secvm: {fault}\n"
    unit = (repository / "deploy" / f"secvm-{party}.service").read_text(encoding="utf-8")
    assert "RestartPreventExitStatus=2\n" in unit
