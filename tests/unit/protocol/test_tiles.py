"""Tiles: paths in one spelling, and a tree that can be put together from them again."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.crypto import merkle
from secvm.crypto.merkle import MAX_SIZE, Tree, leaf_hash
from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.log.tiles import (
    MAX_ENTRY_BYTES,
    TILE_HEIGHT,
    TILE_WIDTH,
    Tile,
    read_bundle,
    tiles_of,
    write_bundle,
    write_tile,
)

BIG = 70_000


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree(leaf_hash(b"%d" % i) for i in range(BIG))


@given(st.none() | st.integers(0, 7), st.integers(0, 2**20), st.integers(1, 256))
def test_paths_lead_back_to_their_tiles(level: int | None, index: int, width: int) -> None:
    try:
        tile = Tile(level, index, width)
    except LocalProtocolError:
        assert (index * 256 + width) * 256 ** (level or 0) > MAX_SIZE
        return
    assert Tile.from_path(tile.path) == tile


def test_log_of_the_specifications_example_has_its_tiles() -> None:
    found = [tile for tile in tiles_of(BIG) if tile.level is not None]
    assert [tile for tile in found if tile.width < 256] == [Tile(0, 273, 112), Tile(1, 1, 17), Tile(2, 0, 1)]
    assert [tile.level for tile in found if tile.width == 256] == [0] * 273 + [1]
    assert tiles_of(256) == [Tile(None, 0), Tile(0, 0), Tile(1, 0, 1)]
    assert tiles_of(0) == []


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=6).map(sorted))
def test_growing_step_by_step_writes_all_that_the_last_size_has(sizes: list[int]) -> None:
    written: list[Tile] = []
    for before, now in zip([0, *sizes], sizes, strict=False):
        new = tiles_of(now, since=before)
        assert not set(new) & set(written)
        written += new
    assert set(tiles_of(sizes[-1])) <= set(written)


@settings(max_examples=30)
@given(data=st.data(), size=st.integers(1, 1200) | st.integers(60_000, BIG))
def test_roots_and_proofs_from_tiles_are_those_of_the_tree(tree: Tree, data: st.DataObject, size: int) -> None:
    served = set(tiles_of(size))

    def fetch(tile: Tile) -> bytes:
        assert tile in served
        return write_tile(tile, tree.node)

    def node(level: int, index: int) -> bytes:
        """The hash of a complete subtree, from the one tile that holds it or all that is right below it."""
        high, low = divmod(level, TILE_HEIGHT)
        number, start = divmod(index << low, TILE_WIDTH)
        width = min(TILE_WIDTH, (size >> TILE_HEIGHT * high) - number * TILE_WIDTH)
        data = fetch(Tile(high, number, width))
        hashes = [data[32 * at : 32 * (at + 1)] for at in range(start, start + (1 << low))]
        while len(hashes) > 1:
            hashes = [merkle.node_hash(*pair) for pair in zip(hashes[::2], hashes[1::2], strict=True)]
        return hashes[0]

    assert merkle.root(node, size) == tree.root(size)
    index, first = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, size))
    assert merkle.inclusion_proof(node, index, size) == tree.inclusion_proof(index, size)
    assert merkle.consistency_proof(node, first, size) == tree.consistency_proof(first, size)


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=256))
def test_entries_come_back(entries: list[bytes]) -> None:
    data = write_bundle(entries)
    assert read_bundle(data, width=len(entries)) == entries
    for wrong in (data + b"\0", data[:-1], data + b"\0\0"):
        with pytest.raises(MalformedMessageError):
            read_bundle(wrong, width=len(entries))


def test_what_fits_into_no_tile_is_not_written() -> None:
    assert read_bundle(write_bundle([bytes(MAX_ENTRY_BYTES)]), width=1) == [bytes(MAX_ENTRY_BYTES)]
    for wrong in ([], [b""] * 257, [bytes(MAX_ENTRY_BYTES + 1)]):
        with pytest.raises(LocalProtocolError):
            write_bundle(wrong)
    with pytest.raises(LocalProtocolError):
        write_tile(Tile(None, 0), lambda level, index: bytes(32))
    with pytest.raises(LocalProtocolError):
        tiles_of(3, since=4)
    for level, index, width in ((8, 0, 1), (0, -1, 1), (0, 0, 0), (0, 0, 257)):
        with pytest.raises(LocalProtocolError):
            Tile(level, index, width)
