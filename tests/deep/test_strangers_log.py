"""Live against a stranger: Go's packages of its checksum database, from which C2SP's formats come, in both directions.

Debian's golang-golang-x-mod-dev has them as source. Notes, cosigned checkpoints, tree hashes, proofs and tiles: what
one side makes, the other takes, and what is wrong is refused by both.
"""

import base64
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from secvm.crypto.merkle import Tree, check_consistency, check_inclusion, leaf_hash
from secvm.crypto.notes import Note, NoteKey
from secvm.crypto.signing import SigningKey
from secvm.errors import BadProofError
from secvm.protocol.log.checkpoints import Checkpoint, read_checkpoint
from secvm.protocol.log.tiles import TILE_WIDTH, tiles_of, write_tile
from secvm_lab.rigs.histories.witnessed_log import KnownLog, known_log_terms
from tests.deep.strangers.node import STRANGERS, Stranger
from tests.effort import scaled
from tests.seeds import seed_for

GO_PATH = Path("/usr/share/gocode")
TERMS = known_log_terms()


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stranger]:
    """The program, built here and running."""
    program, folder = shutil.which("go"), tmp_path_factory.mktemp("go")
    if program is None or not (GO_PATH / "src/golang.org/x/mod").is_dir():
        pytest.fail("Go is missing: apt-get install golang-go golang-golang-x-mod-dev, or run ./secvm test --deep")
    environment = {
        **os.environ,
        "GO111MODULE": "off",
        "GOPATH": str(GO_PATH),
        "GOCACHE": str(folder / "cache"),
        "GOFLAGS": "",
        "CGO_ENABLED": "0",
    }
    command = [program, "build", "-o", str(folder / "log"), "main.go"]
    built = subprocess.run(
        command, cwd=STRANGERS / "log", env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert built.returncode == 0, built.stderr
    with subprocess.Popen([folder / "log"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Stranger(process)
        finally:
            process.kill()


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def texts(data: object) -> list[str]:
    return list(map(text, data))  # type: ignore[call-overload]


def hashes(data: list[str]) -> list[bytes]:
    return list(map(base64.b64decode, data))


@pytest.mark.parametrize("body", ["one line\n", "Größe\n\nand an empty line\n", "\n"])
@pytest.mark.parametrize("name", ["a.example/log", "ä/🙂"])
def test_a_note_of_gos_is_believed_here(go: Stranger, name: str, body: str) -> None:
    made = go("sign", name=name, text=body)
    key, note = NoteKey.from_text(made["key"]), Note.from_bytes(made["note"].encode())
    assert (key.name, note.text) == (name, body)
    assert key.check(note) is None
    assert note.to_bytes().decode() == made["note"]
    assert key.to_text() == made["key"]


def test_a_cosigned_checkpoint_of_ours_is_believed_by_go(go: Stranger) -> None:
    log = KnownLog([b"%d" % i for i in range(9)])
    note = log.note(witnesses=2).data.decode()
    keys = [key.to_text() for key in (TERMS.log_key, *TERMS.witness_keys)]
    said = go("open", note=note, keys=keys)
    assert said["names"] == [TERMS.log_key.name, *(key.name for key in TERMS.witness_keys[:2])]
    assert Checkpoint.from_text(said["text"]) == read_checkpoint(note.encode(), log=TERMS.log_key).checkpoint
    # Who does not know the witnesses passes over their lines.
    assert go("open", note=note, keys=keys[:1])["others"] == 2
    for wrong in (note.replace("\n9\n", "\n8\n"), note[:-1], note.replace("\u2014", "-")):
        assert "error" in go.try_to("open", note=wrong, keys=keys)
    other = NoteKey(TERMS.log_key.name, SigningKey(b"x" * 32).public)
    assert "error" in go.try_to("open", note=note, keys=[other.to_text()])
    assert "error" in go.try_to("open", note=note, keys=[keys[0].replace(TERMS.log_key.key_id.hex(), "00000000")])


def test_roots_and_proofs_are_the_same_and_each_believes_the_others(go: Stranger) -> None:
    dice = random.Random(seed_for("go's trees"))
    for _ in range(scaled(60, 600)):
        entries = [dice.randbytes(dice.randrange(40)) for _ in range(dice.randint(1, 300))]
        ours = Tree(map(leaf_hash, entries))
        size = dice.randint(1, len(entries))
        old, index = dice.randint(1, size), dice.randrange(size)
        theirs = go("prove", entries=texts(entries), size=size, old=old, index=index)
        inclusion, growth = ours.inclusion_proof(index, size), ours.consistency_proof(old, size)
        root, old_root = ours.root(size), ours.root(old)
        assert hashes([theirs["root"], theirs["old_root"]]) == [root, old_root]
        assert hashes(theirs["inclusion"]) == list(inclusion)
        assert hashes(theirs["growth"]) == list(growth)
        leaf = leaf_hash(entries[index])
        check_inclusion(leaf, index=index, size=size, proof=hashes(theirs["inclusion"]), root=root)
        check_consistency(first=old, second=size, first_root=old_root, second_root=root, proof=hashes(theirs["growth"]))
        there = {"size": size, "index": index, "root": text(root), "leaf": text(leaf)}
        go("check inclusion", proof=texts(inclusion), **there)
        grown = {"size": size, "old": old, "root": text(root), "old_root": text(old_root)}
        go("check growth", proof=texts(growth), **grown)
        # Both refuse what was changed.
        bad = bytes(32)
        assert "error" in go.try_to("check inclusion", proof=texts(inclusion), **{**there, "leaf": text(bad)})
        with pytest.raises(BadProofError):
            check_inclusion(bad, index=index, size=size, proof=inclusion, root=root)
        assert "error" in go.try_to("check growth", proof=texts(growth), **{**grown, "old_root": text(bad)})
        with pytest.raises(BadProofError):
            check_consistency(first=old, second=size, first_root=bad, second_root=root, proof=growth)


@pytest.mark.parametrize("size", [1, 7, 255, 256, 257, 300, 70_000])
def test_tiles_are_gos_without_the_height_in_their_path(go: Stranger, size: int) -> None:
    entries = [b"%d" % i for i in range(size)]
    ours = Tree(map(leaf_hash, entries))
    found = {tile.path: write_tile(tile, ours.node) for tile in tiles_of(size) if tile.level is not None}
    said = go("tiles", entries=texts(entries), size=size)["tiles"]
    assert TILE_WIDTH == 2**8
    theirs = {path.replace("tile/8/", "tile/"): base64.b64decode(data) for path, data in said.items()}
    assert found.items() <= theirs.items()
    # Go also names the partial tiles of all sizes on the way there.
    assert {path for path in theirs if ".p/" not in path} <= set(found)
