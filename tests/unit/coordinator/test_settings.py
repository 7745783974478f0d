"""A coordinator's settings: what is documented is taken, what is not is refused, and the grid stays."""

import json
import tomllib
from pathlib import Path

import pytest

from secvm.cli.main import run
from secvm.coordinator import main
from secvm.coordinator import settings as module
from secvm.coordinator.epochs import Grid
from secvm.coordinator.log.cosigning import WitnessAddress
from secvm.coordinator.settings import EXAMPLE, CoordinatorProgramSettings
from secvm.crypto.notes import NoteKey
from secvm.crypto.signing import VerifyKey
from secvm.errors import BadInputError
from secvm.protocol.log.policy import LogPolicy, LogTerms, read_policy
from secvm.runtime.settings import read_settings
from tests.unit.protocol.helpers import LOG, WITNESSES, log_terms


def read(folder: Path, text: str) -> CoordinatorProgramSettings:
    (folder / "coordinator.toml").write_text(text, encoding="utf-8")
    return read_settings(folder / "coordinator.toml", CoordinatorProgramSettings)


def documented() -> str:
    """The example of the module's docstring, with a hash where it leaves one out."""
    lines = (module.__doc__ or "").splitlines()
    return "\n".join(line[4:] for line in lines if line.startswith("    ")).replace("…", "ab" * 32)


def test_what_the_documentation_shows_is_taken(tmp_path: Path) -> None:
    told = read(tmp_path, documented())
    assert told.epochs.grid == Grid(period_s=3600, lead_s=300)
    assert [relay.name for relay in told.relays] == ["relay.example"]
    assert told.testing is not None
    assert [witness.address.url for witness in told.witnesses] == ["https://witness.example"]
    terms = told.terms(LOG.public)
    assert terms is not None
    assert (terms.name, terms.quorum, terms.freshness_s) == ("secvm.example", 1, 3600)


def test_every_setting_is_documented() -> None:
    shown = tomllib.loads(documented())
    assert shown.keys() == CoordinatorProgramSettings.model_fields.keys()


def test_what_init_writes_is_taken_as_it_is(tmp_path: Path) -> None:
    told = read(tmp_path, EXAMPLE)
    assert (told.listen.port, told.state.folder, told.testing) == (8750, tmp_path / "state", None)
    assert told.terms(LOG.public) is None


def witness(number: int, key: str | None = None) -> str:
    key = WITNESSES[number].public.data.hex() if key is None else key
    return f'[[witnesses]]\nname = "w{number}.example"\nurl = "https://w{number}.example/"\nkey = "{key}"\n'


LOGGED = '[log]\nname = "log.example"\n'


@pytest.mark.parametrize(("count", "quorum"), [(1, 1), (2, 2), (3, 2)])
def test_more_than_half_of_the_witnesses_are_enough_where_nothing_is_said(
    tmp_path: Path, count: int, quorum: int
) -> None:
    terms = read(tmp_path, EXAMPLE + LOGGED + "".join(map(witness, range(count)))).terms(LOG.public)
    assert terms is not None
    assert (terms.quorum, len(terms.witnesses)) == (quorum, count)


def test_a_witness_key_may_be_written_as_c2sp_writes_it(tmp_path: Path) -> None:
    key = log_terms().witness_keys[0]
    told = read(tmp_path, EXAMPLE + LOGGED + witness(0, key.to_text()))
    assert told.witnesses[0].address == WitnessAddress(key, "https://w0.example")


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (LOGGED, "a log needs witnesses"),
        (witness(0), "witnesses need a log"),
        (LOGGED + "quorum = 1\n" + witness(0) + witness(1), "log.quorum of 2 witnesses lies between 2 and 2"),
        (LOGGED + witness(0) + witness(0), "a witness of the log stands there twice"),
        ('[log]\nname = "https://log.example"\n' + witness(0), "the log cannot be published"),
        (LOGGED + witness(0, "a secret"), "witnesses.0 key should be 64 hexadecimal digits"),
        (LOGGED + witness(0, "00" * 32), "of a key that only its owner can sign for"),
        (LOGGED + witness(0, log_terms().witness_keys[1].to_text()), "key should be that of a witness of this name"),
        (LOGGED + witness(0, log_terms().log_key.to_text()), "key should be that of a witness of this name"),
        (LOGGED + witness(0).replace("https", "ftp"), "witnesses.0.url is not written as it should be"),
    ],
)
def test_a_log_that_cannot_be_is_refused_in_one_sentence(tmp_path: Path, more: str, sentence: str) -> None:
    with pytest.raises(BadInputError, match=sentence) as caught:
        read(tmp_path, EXAMPLE + more)
    assert "a secret" not in str(caught.value)


def with_policy(folder: Path) -> tuple[CoordinatorProgramSettings, LogTerms, str]:
    """Settings with three witnesses, and the policy that says the same."""
    told = read(folder, EXAMPLE + LOGGED + "".join(map(witness, range(3))))
    terms = told.terms(LOG.public)
    assert terms is not None
    return (
        told,
        terms,
        LogPolicy.of_terms(terms, {one.note_key.key: one.url for one in told.witnesses}).to_bytes().decode(),
    )


def policed(folder: Path, policy: str) -> CoordinatorProgramSettings:
    (folder / "log.policy").write_text(policy, encoding="utf-8")
    return read(folder, EXAMPLE + LOGGED + 'quorum = "log.policy"\n').with_policy()


def test_a_policy_names_witnesses_and_quorum_instead(tmp_path: Path) -> None:
    told, terms, policy = with_policy(tmp_path)
    addresses = [one.address for one in policed(tmp_path, policy).witnesses]
    assert addresses == [one.address for one in told.witnesses]
    assert policed(tmp_path, policy).terms(LOG.public) == terms
    # Without settings for it nothing is read.
    assert told.with_policy() is told


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("group g1 2 w1 w2 w3", "group g1 1 w1 w2 w3", "log.quorum of 3 witnesses lies between 2 and 3"),
        ("group g1 2 w1 w2 w3\n", "group g0 1 w1 w2\ngroup g1 2 g0 w3\n", "one group with every witness in it"),
        ("group g1 2 w1 w2 w3", "group g1 2 w1 w2", "one group with every witness in it"),
        ("quorum g1", "quorum none", "one group with every witness in it"),
        (" https://w0.example/", "", "every witness should have a URL"),
        (" https://w0.example/", " ftp://w0.example/", "every witness should have a URL"),
        ("log.example/secvm/v2", "other.example/secvm/v2", "none of its logs has the origin log.example/secvm/v2"),
        ("quorum g1\n", "", "one line quorum"),
    ],
)
def test_a_policy_that_no_experiment_can_have_is_refused(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    _, terms, policy = with_policy(tmp_path)
    if old.startswith("log.example"):
        policy = policy.replace(terms.log_key.to_text(), NoteKey(new, LOG.public).to_text())
    assert old in policy or old.startswith("log.example")
    with pytest.raises(BadInputError, match=sentence):
        policed(tmp_path, policy.replace(old, new))


def test_witnesses_stand_in_one_place(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="leave out"):
        read(tmp_path, EXAMPLE + LOGGED + 'quorum = "log.policy"\n' + witness(0))
    with pytest.raises(BadInputError, match="cannot read"):
        read(tmp_path, EXAMPLE + LOGGED + 'quorum = "nowhere"\n').with_policy()


def test_the_policy_of_a_coordinator_is_told_with_its_logs_own_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["coordinator", "init", str(tmp_path / "c"), "--format", "json"]) == 0
    key = VerifyKey(bytes.fromhex(json.loads(capsys.readouterr().out)["log_key"]))
    config = tmp_path / "c/coordinator.toml"
    assert run(["coordinator", "policy", "--config", str(config)]) == 2
    assert "has no log" in capsys.readouterr().err
    config.write_text(EXAMPLE + LOGGED + "".join(map(witness, range(3))), encoding="utf-8")
    assert run(["coordinator", "policy", "--config", str(config)]) == 0
    terms = read_settings(config, CoordinatorProgramSettings).terms(key)
    assert terms is not None
    urls = {one.key: f"https://w{i}.example/" for i, one in enumerate(terms.witnesses)}
    assert read_policy(capsys.readouterr().out.encode()) == LogPolicy.of_terms(terms, urls)
    (tmp_path / "c/state/log.key").unlink()
    assert run(["coordinator", "policy", "--config", str(config)]) == 2
    assert "no log key" in capsys.readouterr().err
    assert not (tmp_path / "c/state/log.key").exists()


def test_a_witness_with_the_logs_own_key_is_refused(tmp_path: Path) -> None:
    told = read(tmp_path, EXAMPLE + LOGGED + witness(0))
    with pytest.raises(BadInputError, match="cannot be its own witness"):
        told.terms(WITNESSES[0].public)


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ("[listen]\nprot = 1", "listen.prot is not a setting"),
        ("[listen]\nport = 70000", "listen.port should be less than or equal to 65535"),
        ('[[relays]]\nname = "r"\ntoken_sha256 = "a secret"', "relays.0.token_sha256 should be a SHA-256"),
        ("[extra]", "extra is not a setting"),
    ],
)
def test_what_is_wrong_is_named_and_not_quoted(tmp_path: Path, more: str, key: str) -> None:
    least = '[state]\nfolder = "s"\n[epochs]\nperiod_s = 60\nlead_s = 5\n'
    assert read(tmp_path, least).public is None
    with pytest.raises(BadInputError, match=key) as caught:
        read(tmp_path, least + more)
    assert "a secret" not in str(caught.value)


def test_the_lead_leaves_time_for_a_window(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="lead_s leaves no time for a window"):
        read(tmp_path, EXAMPLE.replace("lead_s = 300", "lead_s = 3600"))


def test_the_grid_cannot_change_once_a_coordinator_has_run(tmp_path: Path) -> None:
    main._check_grid(tmp_path, read(tmp_path, EXAMPLE))
    main._check_grid(tmp_path, read(tmp_path, EXAMPLE.replace("lead_s = 300", "lead_s = 200")))
    with pytest.raises(BadInputError, match="cannot change"):
        main._check_grid(tmp_path, read(tmp_path, EXAMPLE.replace("period_s = 3600", "period_s = 1800")))


@pytest.mark.parametrize("text", ["", "abc", "ab" * 31, "xy" * 32])
def test_a_broken_hash_of_the_admin_key_is_refused(tmp_path: Path, text: str) -> None:
    assert main._admin_sha256(tmp_path) is None
    (tmp_path / "admin.sha256").write_text(text)
    with pytest.raises(BadInputError, match="holds no SHA-256"):
        main._admin_sha256(tmp_path)
