"""A whole federation with everything that goes wrong, and nothing that it writes holds a secret.

Processes with their keys under a passphrase, two rounds with anonymous tokens and a witness; strangers with wrong
tokens, keys and garbage; a kill and a restart; a wrong passphrase; settings with secrets in the wrong place. Then all
that was written is searched for every secret there is, in every spelling: what processes said, the pages they serve,
the answers they gave, the public folder, the databases, and the key files themselves. That the search finds is shown by
planting each secret, in each spelling, into what was gathered.

The gateway's keys are read out of the store while they live. So it is also seen here that each round has its own, that
it is the one of the manifest in the log, and that its private half is nowhere on the disk when the round is over.
"""

import http.client
import io
import json
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from secvm.cli import main as cli
from secvm.crypto.locking import Cost
from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.oblivious import decode_key_configurations
from secvm.crypto.signing import Envelope
from secvm.protocol.documents.manifest import RoundManifest
from secvm.runtime.disk.secret_files import CREDENTIAL, Passphrase, make_secret, protect, read_secret
from secvm.testing.federation import COORDINATOR, RELAY, Federation, HostOf, Pace
from secvm_lab.published import from_outside
from tests.leaks import LeakFinder

ROOT = Path(__file__).parents[2]
PEOPLE = [
    ({"zirkuszelt", "quittengelee", "blaubeerwald"}, "nordmeerkueste"),
    ({"paukenschlag", "rhabarberfeld", "kirschkernkissen"}, "suedwindhafen"),
    ({"zirkuszelt", "löwenzahnwiese"}, "nordmeerkueste"),
]
BUDGET, ROUNDS = 8, 2
SPECIFICATION = {
    "title": "Kettledrum",
    "labels": ["nordmeerkueste", "suedwindhafen"],
    "floor": 1,
    "rounds": ROUNDS,
    "budget": BUDGET,
    "train_share": 0.9,
    "features": {"source": "words"},
    "binning": {"bins": 100},
}
SEED = "seed-of-all-dice-of-this-run"
PASSPHRASE, WRONG_PASSPHRASE = "six words that nobody here should repeat", "words that open nothing of all this"
STRANGER = {
    "authorization": "Bearer token-of-a-stranger-4711",
    "secvm-credential": "credential-of-a-stranger-0815",
    "x-real-ip": "203.0.113.77",
    "x-forwarded-for": "203.0.113.77",
    "forwarded": "for=203.0.113.77",
    "cookie": "session=cookie-of-a-stranger",
    "user-agent": "agent-of-a-stranger/1.0",
}
#: From where the stranger comes; on loopback every address is this machine's.
ADDRESS = "127.77.88.99"
DATABASE_PASSWORD = "password-of-the-database-1234"
LABELS = "a label's name"
#: Files that hold what they are for: a person's device, the file of people, the passphrase that systemd hands over.
OWN = ("devices", "people.jsonl", "credentials", "wrong", "host-0.toml", "database.toml")


class ToldRun(Federation):
    """A federation whose keys are under a passphrase, and which hears of everything that it could tell."""

    def __init__(self, folder: Path) -> None:
        people = folder / "people.jsonl"
        lines = [json.dumps({"features": sorted(words), "label": label}) for words, label in PEOPLE]
        people.write_text("\n".join(lines) + "\n", encoding="utf-8")
        pace = Pace(length_s=30, grace_s=4, lead_s=10, rate=40.0)
        super().__init__(folder, hosts=[HostOf(people, 0, len(PEOPLE))], seed=SEED, pace=pace, witnesses=1)
        self.finder = LeakFinder()
        self.answers: dict[str, bytes] = {}
        #: Of each round, the private key of the gateway.
        self.gateway_keys: dict[int, bytes] = {}
        self.manifests: dict[int, RoundManifest] = {}

    @property
    def key_files(self) -> list[Path]:
        names = ("relay.key", "relay.token", "witness-0.key")
        return [*(self.folder / name for name in names), *(self.folder / COORDINATOR).glob("*.key")]

    def write_settings(self) -> None:
        super().write_settings()
        for path in self.key_files:
            self.finder.add(f"the secret {path.name}", *_spelled(read_secret(path).strip()))
        word = Passphrase(PASSPHRASE.encode)
        protect(self.key_files, old=None, new=word, dice=os.urandom, cost=Cost(10))
        settings = self.folder / f"{COORDINATOR}.toml"
        settings.write_text(settings.read_text() + '[public]\nfolder = "public"\n')

    def play(self) -> None:
        """Both rounds, and what goes wrong meanwhile."""
        self.start_servers()
        self.begin(SPECIFICATION)
        for number in range(1, ROUNDS + 1):
            self.play_round(number, attending=len(PEOPLE), budget=BUDGET, before_closing=self.look)
        self.patiently(lambda: self.public(f"/v1/experiment/{self.digest}/ending"), "the ending")
        self._await(lambda: len(self.events(COORDINATOR, "epoch-scrubbed")) == ROUNDS, "the epochs to be scrubbed")
        for name in self.names:
            for path in ("/metrics", "/health", "/status", "/v1/seen", "/v1/experiments"):
                self.answers[f"GET {name}{path}"] = self.answer(name, path) or b""
        self.answers["audit"] = "\n".join(self.audit()).encode()

    def audit(self) -> list[str]:
        """Faults that somebody finds who replays all that is public, the log included."""
        faults, forks = from_outside(self)
        return [*faults, *(["forks"] if forks else [])]

    def look(self) -> None:
        """In the window: what lives only now, and strangers; in the first round also a kill."""
        number = len(self.gateway_keys) + 1
        with closing(sqlite3.connect(f"file:{self.folder}/{COORDINATOR}/coordinator.sqlite?mode=ro", uri=True)) as db:
            ((private,),) = db.execute("SELECT private FROM keys WHERE epoch = ?", (number - 1,)).fetchall()
        self.gateway_keys[number] = private
        served = self.ask(COORDINATOR, "GET", f"/v1/experiment/{self.digest}/manifest/{number}")
        self.manifests[number] = RoundManifest.from_bytes(Envelope.from_bytes(served).payload)
        self.finder.add("a gateway's private key", private)
        self.strangers(number)
        if number == 1:
            for name in (COORDINATOR, RELAY):
                self.kill(name)
            self.look_at_the_relay()
            for name in (COORDINATOR, RELAY):
                self.restart(name)
            self._await(lambda: self.healthy(COORDINATOR) and self.healthy(RELAY), "both to be back")

    def look_at_the_relay(self) -> None:
        """While it is dead: it lets nobody read its store when it lives."""
        with tempfile.TemporaryDirectory() as copy:
            for path in self.folder.glob("relay.db*"):
                shutil.copy(path, copy)
            with closing(sqlite3.connect(f"{copy}/relay.db")) as db:
                keys = [row[0] for row in db.execute("SELECT client_key FROM epochs")]
        self.finder.add("the key that hides clients", *keys)

    def strangers(self, number: int) -> None:
        """Requests that are wrong in many ways, full of what must not be told."""
        bodies = {"words": b"zirkuszelt paukenschlag " * 20, "capsule": bytes(133), "long": bytes(100_000)}
        paths = ("/relay", "/relay/fetch", "/relay/tokens", "/v1/fetch", "/v1/batch", "/v1/deposit")
        for name in (RELAY, COORDINATOR, *self.witness_names):
            for path in (*paths, "/admin/experiments", "/add-checkpoint", "/nordmeerkueste?zirkuszelt=1"):
                for what, body in bodies.items():
                    self.answers[f"{number} {name} {path} {what}"] = self.stranger(name, path, body)

    def stranger(self, name: str, path: str, body: bytes) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port(name), timeout=30, source_address=(ADDRESS, 0))
        try:
            connection.request("POST", path, body, {"content-type": "message/ohttp-req", **STRANGER})
            answer = connection.getresponse()
            return f"{answer.status} {answer.headers}".encode() + answer.read()
        except OSError:
            # Hung up on while it sends too much: that is an answer too.
            return b"hung up"
        finally:
            connection.close()

    def give_wrong_things(self) -> None:
        """Commands and services that are given something wrong; what they say is gathered."""
        wrong = self.folder / "wrong"
        make_secret(wrong / "passphrase", WRONG_PASSPHRASE.encode())
        make_secret(wrong / "relay.key", PASSPHRASE.encode())
        settings = (self.folder / "relay.toml").read_text(encoding="utf-8")
        (wrong / "relay.toml").write_text(settings.replace(str(self.folder / "relay.key"), str(wrong / "relay.key")))
        misplaced = (self.folder / f"{COORDINATOR}.toml").read_text(encoding="utf-8")
        (wrong / "misplaced.toml").write_text(
            f'{misplaced}\n[[relays]]\nname = "r"\ntoken_sha256 = "{self.admin_key[:40]}"\n'
        )
        # Beside the others, whose clock and keys it names: it gets as far as the database.
        (self.folder / "database.toml").write_text(
            f'{misplaced}\n[node]\nname = "n"\n[database]\nurl = "postgresql://secvm:{DATABASE_PASSWORD}@127.0.0.1:9/secvm"\n'
        )
        here, opens_nothing = str(self.folder), ("--passphrase-file", str(wrong / "passphrase"))
        commands = [
            (RELAY, "serve", "--config", f"{here}/relay.toml", *opens_nothing),
            ("witness", "serve", "--config", f"{here}/witness-0.toml", *opens_nothing),
            (COORDINATOR, "serve", "--config", f"{here}/coordinator.toml", *opens_nothing),
            (COORDINATOR, "protect-keys", "--remove", "--config", f"{here}/coordinator.toml", *opens_nothing),
            (RELAY, "serve", "--config", str(wrong / "relay.toml")),
            (COORDINATOR, "serve", "--config", str(wrong / "misplaced.toml")),
            (COORDINATOR, "serve", "--config", f"{here}/database.toml"),
        ]
        for number, command in enumerate(commands):
            # A database that is away is no fault of the settings.
            code = 1 if command[-1].endswith("database.toml") else 2
            self.answers[f"command {number}"] = refused(*command, code=code)

    def pause_as_a_stranger(self) -> None:
        (self.folder / "wrong").mkdir(mode=0o700)
        make_secret(self.folder / "wrong/admin.key", b"admin-key-of-a-stranger")
        order = ["experiment", "pause", self.digest, "--coordinator", self.coordinator_url]
        self.answers["an order"] = refused(*order, "--admin-key-file", str(self.folder / "wrong/admin.key"))

    def name_the_rest(self) -> None:
        """All other secrets of the run."""
        add = self.finder.add
        add("the admin key", self.admin_key, bytes.fromhex(self.admin_key))
        add("a passphrase", PASSPHRASE, WRONG_PASSPHRASE)
        add("the database's password", DATABASE_PASSWORD)
        add("the seed of dice", SEED)
        add("a device's name", *(f"test-person-{number}" for number in range(len(PEOPLE))), "test-host")
        add("a stranger", *STRANGER.values(), "203.0.113.77", "token-of-a-stranger-4711", "admin-key-of-a-stranger")
        add("an address", ADDRESS)
        add("a feature", *(word for words, _ in PEOPLE for word in words))
        add(LABELS, *(label for _, label in PEOPLE))


def refused(*command: str, code: int = 2) -> bytes:
    """What a command says that ends with this code, in this process."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        assert cli.run(list(command)) == code, said.getvalue()
    return said.getvalue().encode()


def _spelled(secret: bytes) -> Iterator[bytes]:
    """A secret as it stands in its file, and what that spells."""
    yield secret
    if len(secret) == 64:
        yield bytes.fromhex(secret.decode())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToldRun]:
    folder = tmp_path_factory.mktemp("told")
    credentials = folder / "credentials"
    credentials.mkdir(mode=0o700)
    make_secret(credentials / CREDENTIAL, PASSPHRASE.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CREDENTIALS_DIRECTORY", str(credentials))
        with ToldRun(folder) as federation:
            federation.play()
            federation.pause_as_a_stranger()
            federation.stop()
            federation.give_wrong_things()
            federation.name_the_rest()
        yield federation


def gathered(run: ToldRun) -> dict[str, bytes]:
    """All that was said, answered and written, but for what a file is there to hold."""
    files = [path for path in sorted(run.folder.rglob("*")) if path.is_file()]
    own = [path for path in files if path.relative_to(run.folder).parts[0] in OWN]
    texts = {str(path.relative_to(run.folder)): path.read_bytes() for path in files if path not in own}
    return {**texts, **run.answers}


def test_nothing_that_is_written_holds_a_secret(run: ToldRun) -> None:
    texts = gathered(run)
    # Names of labels are a part of the question, and public; whose they are is not told, and no log repeats them.
    public = {where: text for where, text in texts.items() if where.startswith(("public/", "coordinator/"))}
    quiet = {where: text for where, text in texts.items() if where not in public}
    asked = {f"GET {COORDINATOR}/v1/experiments"}
    assert run.finder.search({where: text for where, text in quiet.items() if where not in asked}) == []
    assert run.finder.search({**public, **{where: quiet[where] for where in asked}}, but=[LABELS]) == []


def test_all_that_could_tell_was_searched(run: ToldRun) -> None:
    texts = gathered(run)
    for name in run.names:
        assert b'"event":"listening"' in texts[f"{name}.log"], name
        assert texts[f"GET {name}/health"], name
    assert b"joined" in texts["GET host-0/status"]
    assert len([where for where in texts if where.startswith("public/")]) > 10
    for file in (
        "coordinator/coordinator.sqlite",
        "relay.db",
        "witness-0.db",
        "relay.key",
        "coordinator/signing.key",
    ):
        assert texts[file], file
    # Each stranger was answered, and refused but for the relay, which cannot know.
    said = [text for where, text in texts.items() if where.startswith(("1 ", "2 "))]
    assert len(said) == ROUNDS * 3 * 9 * 3
    assert {text[:1] for text in said} <= {b"2", b"4", b"5", b"h"}
    assert b"does not open" in texts["command 0"]
    assert b"token_sha256" in texts["command 5"]
    assert b"the database does not answer" in texts["command 6"]
    # Kinds of secrets there were, none without an example.
    assert len(run.finder.secrets) >= 16
    assert all(run.finder.secrets.values())


def test_logs_and_pages_have_words_of_the_code_alone_and_no_place(run: ToldRun) -> None:
    texts = gathered(run)
    logs = [texts[f"{name}.log"].decode() for name in run.names]
    pages = [texts[f"GET {name}{path}"].decode() for name in run.names for path in ("/metrics", "/health")]
    for text in [*logs, *pages, texts["an order"].decode()]:
        # But for the name of this log, which is public.
        assert "127.0.0.1" not in text.replace(f"127.0.0.1:{run.port(COORDINATOR)}", "")
        assert str(run.folder) not in text
    assert all(isinstance(json.loads(line), dict) for text in logs for line in text.splitlines())
    for family in ("coordinator_opened", "coordinator_stored", "relay_requests", "participant_acknowledged"):
        assert f"secvm_{family}" in "".join(pages), family
    # Labels name doors, outcomes and problems.
    labels = set(re.findall(r'="([^"]*)"', "".join(pages)))
    assert all(re.fullmatch(r"[a-z0-9+.-]+|\+Inf", label) for label in labels), labels


def test_a_planted_leak_of_each_kind_and_spelling_is_found(run: ToldRun) -> None:
    lines = run.children.log(RELAY).read_bytes()
    middle = lines.index(b"\n") + 1
    for kind, form, spelled in run.finder.all_forms():
        leaks = run.finder.search({"relay.log": lines[:middle] + b'{"event":"' + spelled + b'"}' + lines[middle:]})
        assert leaks, (kind, form)
        # Another kind may be a part of this one, as a token is of the header that it came in.
        assert {leak.where for leak in leaks} == {"relay.log"}


def test_each_round_has_a_gateway_key_of_its_own_which_the_log_holds_and_nobody_keeps(run: ToldRun) -> None:
    published = []
    for number, private in run.gateway_keys.items():
        (configuration,) = decode_key_configurations(run.manifests[number].gateway_keys)
        assert configuration.public_key.to_bytes() == X25519PrivateKey(private).public_key.to_bytes()
        published.append(configuration.public_key.to_bytes())
    assert len(set(published)) == ROUNDS
    # The log was replayed from outside, manifests and all, and every private half is gone from the disk.
    assert run.answers["audit"] == b""
    everything = {str(path): path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    alone = LeakFinder({"a gateway's private key": list(run.gateway_keys.values())})
    assert alone.search(everything) == []


def test_alert_rules_ask_for_figures_and_labels_that_there_are(run: ToldRun) -> None:
    texts = gathered(run)
    pages = "".join(texts[f"GET {name}/metrics"].decode() for name in run.names)
    rules = yaml.safe_load((ROOT / "deploy/alerts.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 5
    for rule in rules:
        asked = re.findall(r"(secvm_\w+?)(?:_total)?(?:\{(\w+)[!=~]+\"([^\"]+)\"\})?(?=\[| > )", rule["expr"])
        assert asked or rule["expr"].startswith("up{"), rule["expr"]
        for name, label, values in asked:
            assert f"# TYPE {name} " in pages.replace("_total ", " "), name
            assert all(f'{label}="{value}"' in pages for value in values.split("|") if label), rule["expr"]
