"""A coordinator's start: what is wrong with its folders is told before anything runs."""

import os
from pathlib import Path

import pytest

from secvm.coordinator.books import first_blobs
from secvm.coordinator.main import KEY_FILE, STORE_FILE, Coordinator, initialise
from secvm.coordinator.questions import OwnSettings
from secvm.coordinator.settings import CoordinatorSettings
from secvm.coordinator.store.port import Standing, StoredExperiment
from secvm.coordinator.store.sqlite import SQLiteStore
from secvm.errors import BadInputError
from secvm.protocol.experiment_document import publish
from tests.unit.coordinator.rounds import experiment
from tests.unit.protocol.helpers import COORDINATOR


def settings(**changes: object) -> CoordinatorSettings:
    told = {
        "state": {"folder": "state"},
        "public": {"folder": "public"},
        "epochs": {"period_s": 3600, "lead_s": 300},
        **changes,
    }
    return CoordinatorSettings.model_validate(told, strict=False)


def test_repro_a_second_coordinator_on_one_state_folder_is_refused(tmp_path: Path) -> None:
    first = Coordinator(settings(), tmp_path)
    with pytest.raises(BadInputError, match="another process runs this coordinator"):
        Coordinator(settings(), tmp_path)
    first.close()
    Coordinator(settings(), tmp_path).close()


def test_repro_a_signing_key_that_is_not_the_experiments_own_is_refused(tmp_path: Path) -> None:
    initialise(tmp_path)
    of = experiment()
    store = SQLiteStore(tmp_path / "state" / STORE_FILE)
    own = OwnSettings().model_dump_json().encode()
    stored = StoredExperiment(of.digest, publish(of, keys=(COORDINATOR,)), own, Standing.RUNNING)
    store.add_experiment(stored, first_blobs(of))
    store.close()
    # Restored without its key: a new one was made, which no device knows.
    with pytest.raises(BadInputError, match="signing key"):
        Coordinator(settings(), tmp_path)
    (tmp_path / "state" / KEY_FILE).write_bytes(COORDINATOR.seed)
    Coordinator(settings(), tmp_path).close()


@pytest.mark.parametrize("public", [".", "state", "state/public", ""])
def test_repro_a_public_folder_in_which_the_state_lies_is_refused(tmp_path: Path, public: str) -> None:
    with pytest.raises(BadInputError, match="public folder"):
        Coordinator(settings(public={"folder": public}), tmp_path)


def test_repro_a_state_folder_that_was_open_to_others_is_closed(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o755)
    Coordinator(settings(), tmp_path).close()
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o077 for file in (tmp_path / "state").iterdir() if file.name != "grid.json"} == {0}
    assert os.access(tmp_path / "state" / STORE_FILE, os.R_OK)


def test_repro_a_deposit_as_large_as_allowed_may_wait(tmp_path: Path) -> None:
    made = Coordinator(settings(limits={"deposit_bytes": 2**30}), tmp_path)
    assert made.ingest_limits.content_bytes > 2**30
    made.close()
