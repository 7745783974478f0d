import assert from "node:assert/strict";
import { test } from "node:test";

import { unhex, utf8 } from "../../../src/bytes.ts";
import { NoteKey } from "../../../src/crypto/notes.ts";
import { SigningKey } from "../../crypto/signers.ts";
import { LocalProtocolError } from "../../../src/errors.ts";
import { checkEnough, Quorum, readCheckpoint, timesOf } from "../../../src/protocol/log/checkpoints.ts";
import { refused, vectors, type Vector } from "../../vectors.ts";

/** The names of witnesses that have cosigned lately, where they are enough. */
async function fresh(terms: Vector, note: string): Promise<string[]> {
  const signed = await readCheckpoint(utf8(note), { log: NoteKey.fromText(terms.log) });
  const witnesses: NoteKey[] = terms.witnesses.map(NoteKey.fromText);
  const quorum = new Quorum(terms.quorum, witnesses.map((witness) => witness.key));
  const options = { now: terms.now, freshnessS: terms.freshness_s };
  return [...checkEnough(await timesOf(signed, witnesses), quorum, options).keys()].map((witness) => witness.name);
}

test("checkpoints of the vectors are read", async () => {
  for (const { seed, origin, size, root, note } of vectors("checkpoints").checkpoints) {
    const log = new NoteKey(origin, new SigningKey(unhex(seed)).public);
    assert.deepEqual((await readCheckpoint(utf8(note), { log })).checkpoint, { origin, size, root: unhex(root) });
  }
});

test("enough witnesses have cosigned lately", async () => {
  for (const terms of vectors("checkpoints").quorums) assert.deepEqual(await fresh(terms, terms.note), terms.fresh);
});

test("bad checkpoints are refused", async () => {
  const terms = vectors("bad_checkpoints");
  assert.ok((await fresh(terms, terms.good)).length);
  await refused(terms.cases, ({ note }) => fresh(terms, note));
});

test("of a log that has ended cosignatures do not grow old", async () => {
  const terms = vectors("bad_checkpoints");
  const later = { ...terms, now: terms.now + 9e12 };
  await refused([{ why: "old", fault: "stale" }], () => fresh(later, terms.good));
  assert.equal((await fresh({ ...later, freshness_s: null }, terms.good)).length, 2);
});

test("a key signs what it is for", async () => {
  const { log, witnesses, good } = vectors("bad_checkpoints");
  await assert.rejects(readCheckpoint(utf8(good), { log: NoteKey.fromText(witnesses[0]) }), LocalProtocolError);
  const signed = await readCheckpoint(utf8(good), { log: NoteKey.fromText(log) });
  await assert.rejects(timesOf(signed, [NoteKey.fromText(log)]), LocalProtocolError);
});

test("a quorum is met at the earliest time by which enough had cosigned", () => {
  const [a, b, c] = [1, 2, 3].map((seed) => new SigningKey(new Uint8Array(32).fill(seed)).public) as [any, any, any];
  const name = (key: typeof a): string => Buffer.from(key.data).toString("hex");
  const rule = new Quorum(2, [a, new Quorum(1, [b, c])]);
  assert.deepEqual([...rule.keys], [a, b, c].map(name));
  assert.equal(rule.metAt(new Map([[name(a), 5], [name(b), 9], [name(c), 7]])), 7);
  assert.equal(rule.metAt(new Map([[name(b), 9], [name(c), 7]])), null);
  assert.ok(!rule.metBy([name(b), name(c)]));
  assert.ok(rule.metBy([name(c), name(a)]));
});
