import assert from "node:assert/strict";
import { test } from "node:test";

import { hex, unhex } from "../../../src/bytes.ts";
import { LocalProtocolError, MalformedMessageError } from "../../../src/errors.ts";
import { entriesPath, readBundle } from "../../../src/protocol/log/tiles.ts";
import { vectors } from "../../vectors.ts";

test("a tile of entries has one path", () => {
  const tiles = vectors("log").paths.filter((tile: { level: number | null }) => tile.level === null);
  assert.equal(tiles.length, 2);
  for (const { tile, width, path } of tiles) assert.equal(entriesPath(tile, width), path);
  assert.equal(entriesPath(1000), "tile/entries/x001/000");
  for (const [index, width] of [[-1, 1], [0.5, 1], [0, 0], [0, 257]] as const) {
    assert.throws(() => entriesPath(index, width), LocalProtocolError);
  }
});

test("bundles of the vectors are read", () => {
  for (const { width, entries, bytes } of vectors("log").bundles) {
    assert.deepEqual(readBundle(unhex(bytes), { width }).map(hex), entries);
  }
  for (const { why, width, bytes } of vectors("bad_log").bundles) {
    assert.throws(() => readBundle(unhex(bytes), { width }), MalformedMessageError, why);
  }
});
