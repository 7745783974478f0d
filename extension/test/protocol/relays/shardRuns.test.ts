import assert from "node:assert/strict";
import { test } from "node:test";

import { bigEndian, compare, concat, equal, fromBigEndian, type Bytes } from "../../../src/bytes.ts";
import { BadProofError, MalformedMessageError } from "../../../src/errors.ts";
import { checkAbsence, placeOf } from "../../../src/protocol/relays/batches.ts";
import { SHARD } from "../../../src/protocol/relays/shards.ts";
import {
  absenceIn,
  beside,
  indexBytes,
  PREFIX_BYTES,
  readIndex,
  readRun,
  ShardRun,
  shardOf,
} from "../../../src/protocol/relays/shardRuns.ts";
import { ascending, ShardTree } from "./shardTree.ts";

const SMALL = new ShardTree(ascending(700));
const LARGE = new ShardTree(ascending(2 * SHARD + 5));
const FIRST = new Uint8Array(32);
const LAST = new Uint8Array(32).fill(0xff);
const after = (digest: Bytes): Bytes => bigEndian(fromBigEndian(digest) + 1n, 32);

/** As a device looks for a digest; whether it is there. Its absence is shown by a proof that holds. */
function look(told: ShardTree, digest: Bytes): boolean {
  const capsules = told.digests.length;
  const runOf = (shard: number): ShardRun => readRun(told.run(shard).toBytes(), { shard, capsules });
  const run = runOf(shardOf(readIndex(told.index, { capsules }), digest));
  const also = beside(run, digest);
  const runs = also === null ? [run] : [run, runOf(also)];
  for (const each of runs) each.check(told.mixRoot);
  if (runs.some((each) => each.find(digest) !== null)) return true;
  checkAbsence(absenceIn(digest, runs)!, digest, { size: capsules, root: told.mixRoot });
  return false;
}

test("what is there is found, at edges too", () => {
  assert.ok([0, 350, 699].every((at) => look(SMALL, SMALL.digests[at]!)));
  const edges = [0, SHARD - 1, SHARD, 2 * SHARD - 1, 2 * SHARD, 2 * SHARD + 4];
  assert.ok(edges.every((at) => look(LARGE, LARGE.digests[at]!)));
});

test("what is not there is shown to be absent, at edges too", () => {
  for (const told of [SMALL, LARGE]) {
    const some = [0, 5, 699, SHARD - 1, 2 * SHARD - 1, 2 * SHARD + 4].flatMap((at) => told.digests[at] ?? []);
    assert.ok([FIRST, LAST, ...some.map(after)].every((digest) => !look(told, digest)));
  }
});

test("digests that begin like the first of the next shard are found", () => {
  // Eight bytes decide where to look, and here they are the same on both sides of an edge.
  const same = concat(new Uint8Array(8).fill(0x80));
  const alike = Array.from({ length: 250 }, (_, i) => concat(same, new Uint8Array(24).fill(i)));
  const low = Array.from({ length: SHARD - 100 }, (_, i) => bigEndian(i + 1, 32));
  const high = Array.from({ length: SHARD - 150 }, (_, i) => concat(LAST.slice(0, 8), bigEndian(i, 24)));
  const told = new ShardTree([...low, ...alike, ...high].sort(compare));
  assert.ok(equal(told.shards[1]![0]!.slice(0, PREFIX_BYTES), same));
  const edge = told.digests.slice(SHARD - 2, SHARD + 2);
  assert.ok(edge.every((digest) => look(told, digest)));
  assert.ok(edge.map(after).every((digest) => !look(told, digest)));
});

test("a changed run is not under the root", () => {
  const run = LARGE.run(1);
  const others = [
    new ShardRun({ ...run, digests: [...run.digests.slice(1), LAST] }),
    new ShardRun({ ...run, shard: 0 }),
    new ShardRun({ ...run, path: run.path.slice(1) }),
    SMALL.run(0),
  ];
  for (const other of others) assert.throws(() => other.check(LARGE.mixRoot), BadProofError);
});

test("absence needs neighbours", () => {
  const edge = after(LARGE.digests[SHARD - 1]!);
  assert.equal(beside(LARGE.run(0), edge), 1);
  assert.equal(beside(LARGE.run(1), edge), 0);
  assert.deepEqual([beside(LARGE.run(0), FIRST), beside(LARGE.run(2), LAST)], [null, null]);
  for (const runs of [[LARGE.run(0)], [LARGE.run(1)], []]) assert.equal(absenceIn(edge, runs), null);
  assert.notEqual(absenceIn(edge, [LARGE.run(1), LARGE.run(0)]), null);
  assert.equal(absenceIn(LARGE.digests[5]!, [LARGE.run(0)]), null);
  assert.notEqual(absenceIn(after(LARGE.digests[3]!), [LARGE.run(0), LARGE.run(2)]), null);
});

test("places of a run are those of the whole tree", () => {
  for (const index of [0, 1, SHARD - 1, SHARD, 2 * SHARD, 2 * SHARD + 4]) {
    const run = LARGE.run(Math.floor(index / SHARD));
    assert.deepEqual(run.place(index % SHARD), placeOf(LARGE.digests, index));
  }
});

test("an index has eight bytes a shard, ascending", () => {
  assert.deepEqual([1, SHARD, SHARD + 1].map(indexBytes), [8, 8, 16]);
  const capsules = LARGE.digests.length;
  assert.equal(readIndex(LARGE.index, { capsules }).length, 3);
  for (const other of [concat(LARGE.index.slice(8), LARGE.index.slice(0, 8)), LARGE.index.slice(1)]) {
    assert.throws(() => readIndex(other, { capsules }), MalformedMessageError);
  }
});

test("what is no run is refused", () => {
  const run = SMALL.run(0).toBytes();
  const twice = concat(run.slice(0, -64), run.slice(-32), run.slice(-32));
  const others: [Uint8Array, number][] = [
    [new Uint8Array(), 0], [Uint8Array.of(1), 0], [run.slice(0, -1), 0], [run, 1], [twice, 0],
  ];
  for (const [data, shard] of others) {
    assert.throws(() => readRun(data, { shard, capsules: SMALL.digests.length }), MalformedMessageError);
  }
});
