import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { concat, hex, littleEndian, unhex, utf8, type Bytes } from "../../../src/bytes.ts";
import { BadProofError, LocalProtocolError, MalformedMessageError } from "../../../src/errors.ts";
import {
  checkShardProof,
  readBelow,
  readSubTally,
  SHARD,
  SHARD_PROOF,
  shardCount,
  shardEntry,
  shardSize,
  writeBelow,
  writeSubTally,
} from "../../../src/protocol/relays/shards.ts";
import { readRun } from "../../../src/protocol/relays/shardRuns.ts";
import { refused, vectors, type Vector } from "../../vectors.ts";
import { ascending, ShardTree } from "./shardTree.ts";

const shown = ({ digests, sub_tally, capsules }: Vector) => ({
  digests: digests.map(unhex) as Bytes[],
  subTally: unhex(sub_tally),
  capsules: capsules as number,
});

test("shards of the vectors lead to both roots, in proofs and in files", () => {
  for (const each of vectors("shards").proofs) {
    const proof = SHARD_PROOF.fromBytes(utf8(each.proof));
    assert.deepEqual(SHARD_PROOF.toBytes(proof), utf8(each.proof));
    assert.equal(proof.shard, each.shard);
    const { digests, subTally, capsules } = shown(each);
    checkShardProof(proof, { ...shown(each), shards: unhex(each.shards), mixRoot: unhex(each.mix_root) });
    assert.equal(hex(shardEntry(digests, subTally)), each.entry);
    const run = readRun(unhex(each.run_file), { shard: each.shard, capsules });
    assert.deepEqual([run.path, run.digests], [proof.mixPath, digests]);
    assert.equal(hex(run.toBytes()), each.run_file);
    run.check(unhex(each.mix_root));
    assert.deepEqual(readBelow(unhex(each.tally_file)), [proof.path, subTally]);
    assert.equal(hex(writeBelow(proof.path, subTally)), each.tally_file);
  }
});

test("the bad shards, proofs and sub-tallies of the vectors are refused", async () => {
  const bad = vectors("bad_shards");
  const roots = { shards: unhex(bad.shards), mixRoot: unhex(bad.mix_root) };
  const check = (each: Vector) => checkShardProof(SHARD_PROOF.fromBytes(utf8(each.proof)), { ...shown(each), ...roots });
  await refused(bad.cases, check, BadProofError);
  await refused(bad.proofs, ({ bytes }) => SHARD_PROOF.fromBytes(unhex(bytes)), MalformedMessageError);
  await refused(bad.sub_tallies, ({ bytes, ...limits }) => readSubTally(unhex(bytes), limits), MalformedMessageError);
});

test("sub-tallies of the vectors are read and written", () => {
  for (const { counts, bytes } of vectors("shards").sub_tallies) {
    assert.deepEqual(readSubTally(unhex(bytes), { cells: 30, capsules: SHARD }), new Map(counts));
    assert.equal(hex(writeSubTally(new Map(counts.toReversed()))), bytes);
  }
});

test("a sub-tally is read as it was written", () => {
  const counts = fc.array(fc.tuple(fc.nat(29), fc.nat(100)), { maxLength: 30 }).map((pairs) => new Map(pairs));
  fc.assert(
    fc.property(counts, (told) => {
      const above = [...told].filter(([, count]) => count > 0).sort(([a], [b]) => a - b);
      const data = writeSubTally(told);
      assert.equal(data.length, 16 * above.length);
      assert.deepEqual([...readSubTally(data, { cells: 30, capsules: SHARD })], above);
    }),
  );
});

test("cells and counts that are none are neither written nor read", () => {
  for (const pair of [[-1, 1], [1, -1], [0.5, 1]] as const) {
    assert.throws(() => writeSubTally(new Map([pair])), LocalProtocolError);
  }
  const line = (cell: bigint | number, count: bigint | number) => concat(littleEndian(cell, 8), littleEndian(count, 8));
  const most = 2n ** 64n - 1n;
  const fifth = concat(...[0, 1, 2, 3, 4].map((cell) => line(cell, 1)));
  for (const data of [line(most, 1), line(1, most), concat(line(1, 2), line(2, 3)), fifth]) {
    assert.throws(() => readSubTally(data, { cells: 30, capsules: 4 }), MalformedMessageError);
  }
});

test("every shard leads to both roots, and no other does", () => {
  const counts = [1, SHARD - 1, SHARD, SHARD + 1, 2 * SHARD + 5];
  const subTally = writeSubTally(new Map([[3, 1], [7, 2]]));
  for (const capsules of counts) {
    const tree = new ShardTree(ascending(capsules), subTally);
    assert.equal(tree.shards.length, shardCount(capsules));
    const roots = { subTally, capsules, shards: tree.root, mixRoot: tree.mixRoot };
    tree.shards.forEach((digests, shard) => {
      assert.equal(digests.length, shardSize(shard, capsules));
      checkShardProof(tree.proof(shard), { ...roots, digests });
      const others = [
        { ...roots, digests: [...digests.slice(0, -1), digests.at(-1)!.slice(0, 31)] },
        { ...roots, digests: digests.slice(0, -1) },
        { ...roots, digests, shards: new Uint8Array(32) },
        { ...roots, digests, mixRoot: new Uint8Array(32) },
        { ...roots, digests, subTally: writeSubTally(new Map([[3, 2]])) },
      ];
      for (const other of others) assert.throws(() => checkShardProof(tree.proof(shard), other), BadProofError);
    });
  }
});

test("a path has its limit, and a file has its path", () => {
  const hash = new Uint8Array(32);
  assert.throws(() => writeBelow(Array.from({ length: 65 }, () => hash), hash), LocalProtocolError);
  for (const data of [new Uint8Array(), Uint8Array.of(1), concat(Uint8Array.of(65), new Uint8Array(65 * 32))]) {
    assert.throws(() => readBelow(data), MalformedMessageError);
  }
});
