/** A published shard is counted again: what is true passes, and every single change of its three files is noticed. */

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { compare, concat, hex, unhex, utf8, type Bytes } from "../../../src/bytes.ts";
import { X25519PrivateKey, X25519PublicKey } from "../../../src/crypto/sealing/kem.ts";
import { INNER_BYTES, innerLayer } from "../../../src/crypto/sealing/layers.ts";
import { BadProofError, LocalProtocolError, MalformedMessageError } from "../../../src/errors.ts";
import { encode } from "../../../src/protocol/codec.ts";
import { ExperimentDocument } from "../../../src/protocol/documents/experiment.ts";
import { capsuleDigest } from "../../../src/protocol/relays/batches.ts";
import { CapsuleReader, Cells } from "../../../src/protocol/relays/counting.ts";
import { labelOfRound, MANIFEST } from "../../../src/protocol/relays/manifest.ts";
import { OPENING } from "../../../src/protocol/relays/opening.ts";
import {
  MAX_SUB_TALLY_BYTES,
  readShardTally,
  Recount,
  writeShardTally,
  WrongCountError,
  type ShardTally,
} from "../../../src/protocol/relays/recount.ts";
import { ShardRun } from "../../../src/protocol/relays/shardRuns.ts";
import { readSubTally, writeSubTally } from "../../../src/protocol/relays/shards.ts";
import { vectors, type Vector } from "../../vectors.ts";
import { ShardTree } from "./shardTree.ts";

/** The capsules of 80 bytes among those that count and those that are junk, as one shard. */
const JUNK = vectors("junk");
const DOCUMENT = ExperimentDocument.fromBytes(utf8(JUNK.document));
const CAPSULES = (JUNK.cases as Vector[])
  .map(({ capsule }): Bytes => unhex(capsule))
  .filter(({ length }) => length === INNER_BYTES)
  .sort((a, b) => compare(capsuleDigest(a), capsuleDigest(b)));
const DIGESTS = CAPSULES.map(capsuleDigest);
const SUB_TALLY = unhex(JUNK.sub_tally);
const READER = new CapsuleReader({
  document: DOCUMENT,
  label: unhex(JUNK.label),
  roundNumber: JUNK.round,
  key: await X25519PrivateKey.derive(unhex(JUNK.count_seed)),
});

interface Files {
  readonly run: ShardRun;
  readonly capsules: Bytes;
  readonly tally: ShardTally;
}

/** The round whose opening is bound to this sub-tally, and the three files of its only shard. */
function bound(subTally: Bytes): [Recount, Files] {
  const tree = new ShardTree(DIGESTS, subTally);
  const recount = new Recount(READER, { capsules: DIGESTS.length, mixRoot: tree.mixRoot, shards: tree.root });
  return [recount, { run: tree.run(0), capsules: concat(...CAPSULES), tally: { path: tree.proof(0).path, subTally } }];
}

const [RECOUNT, FILES] = bound(SUB_TALLY);

test("an honest shard is what it says", async () => {
  const found = await RECOUNT.check(FILES.run, FILES.capsules, FILES.tally);
  assert.equal(hex(found.subTally), JUNK.sub_tally);
  const counts = [...readSubTally(found.subTally, { cells: 30, capsules: found.capsules }).values()];
  const told = (is: (each: Vector) => boolean) =>
    JUNK.cases.filter((each: Vector) => each.capsule.length === 2 * INNER_BYTES && is(each)).length;
  assert.equal(found.junk, told(({ junk }) => junk));
  assert.equal(found.nulls, told(({ junk, cell }) => !junk && cell === null));
  assert.equal(found.capsules, counts.reduce((sum, count) => sum + count, 0) + found.junk + found.nulls);
  assert.equal(RECOUNT.shards, 1);
});

test("files that are not the shard's accuse nobody", async () => {
  const { run, capsules, tally } = FILES;
  const [first, second, ...rest] = CAPSULES;
  const swapped = concat(second!, first!, ...rest);
  const permuted = [DIGESTS[1]!, DIGESTS[0]!, ...DIGESTS.slice(2)];
  const invented = [new Uint8Array(INNER_BYTES), ...CAPSULES.slice(1)].sort((a, b) =>
    compare(capsuleDigest(a), capsuleDigest(b)),
  );
  const nowhere = [new Uint8Array(32)];
  const others: Partial<Files>[] = [
    { capsules: swapped },
    { capsules: swapped, run: new ShardRun({ ...run, digests: permuted }) },
    { capsules: concat(...invented), run: new ShardRun({ ...run, digests: invented.map(capsuleDigest) }) },
    { tally: { ...tally, subTally: writeSubTally(new Map([[0, 1]])) } },
    { capsules: capsules.slice(0, -INNER_BYTES) },
    { capsules: concat(capsules, new Uint8Array(INNER_BYTES)) },
    { capsules: capsules.slice(0, -1) },
    { capsules: concat(capsules, Uint8Array.of(0)) },
    {
      capsules: capsules.slice(0, -INNER_BYTES),
      run: new ShardRun({ ...run, digests: DIGESTS.slice(0, -1) }),
    },
    { run: new ShardRun({ ...run, capsules: run.capsules - 1 }) },
    { run: new ShardRun({ ...run, shard: 1 }) },
    { run: new ShardRun({ ...run, path: nowhere }) },
    { tally: { ...tally, path: nowhere } },
  ];
  for (const other of others) {
    const files = { ...FILES, ...other };
    await assert.rejects(
      RECOUNT.check(files.run, files.capsules, files.tally),
      (fault) => fault instanceof BadProofError && !(fault instanceof WrongCountError),
    );
  }
});

test("a sub-tally that the opening is bound to, and that is false, is a wrong count", async () => {
  const cells = Cells.of(DOCUMENT.experiment).count;
  const counts = readSubTally(SUB_TALLY, { cells, capsules: DIGESTS.length });
  await fc.assert(
    fc.asyncProperty(fc.nat(cells - 1), fc.constantFrom(1, -1, 2, 5), async (cell, more) => {
      const wrong = writeSubTally(new Map([...counts, [cell, Math.max(0, (counts.get(cell) ?? 0) + more)]]));
      const [recount, files] = bound(wrong);
      const checked = recount.check(files.run, files.capsules, files.tally);
      if (hex(wrong) === JUNK.sub_tally) await checked;
      else await assert.rejects(checked, WrongCountError);
    }),
    { numRuns: 20 },
  );
});

test("an opening's seed counts what was sealed for its round, and another seed nothing", async () => {
  const told = vectors("opening");
  const document = ExperimentDocument.fromBytes(utf8(told.document));
  const manifest = MANIFEST.fromBytes(utf8(told.manifest));
  const opening = OPENING.fromBytes(utf8(told.cases[0].payload));
  const { experimentId } = document;
  const content = { kind: "train", model: 0, binIndex: 3, sign: 1 } as const;
  const data = encode({ experimentId, roundNumber: manifest.roundNumber, package: content });
  const ephemeral = new Uint8Array(32).fill(7);
  const capsule = await innerLayer(labelOfRound(manifest)).seal(new X25519PublicKey(manifest.countKey), ephemeral, data);
  const one = await (await Recount.of(document, manifest, opening)).count(concat(capsule, new Uint8Array(INNER_BYTES)));
  assert.deepEqual(one, { capsules: 2, junk: 1, nulls: 0, subTally: writeSubTally(new Map([[6, 1]])) });
  const other = await Recount.of(document, manifest, { ...opening, countSeed: new Uint8Array(32) });
  assert.deepEqual(await other.count(capsule), { capsules: 1, junk: 1, nulls: 0, subTally: new Uint8Array() });
  const unopened = { ...opening, mixReveal: null, countSeed: null, tally: null, shards: null };
  await assert.rejects(
    Recount.of(document, manifest, unopened),
    (fault: Error) => fault instanceof LocalProtocolError && /unopened: there is nothing to count/.test(fault.message),
  );
});

test("a sub-tally's file has its limits", () => {
  for (const { path, subTally } of [FILES.tally, { path: [new Uint8Array(32)], subTally: SUB_TALLY }]) {
    assert.deepEqual(readShardTally(writeShardTally({ path, subTally })), { path, subTally });
  }
  assert.equal(readShardTally(new Uint8Array(1 + MAX_SUB_TALLY_BYTES)).subTally.length, MAX_SUB_TALLY_BYTES);
  assert.throws(() => readShardTally(new Uint8Array(2 + MAX_SUB_TALLY_BYTES)), MalformedMessageError);
});
