import assert from "node:assert/strict";
import { test } from "node:test";

import { hex, unhex, utf8 } from "../../../src/bytes.ts";
import { LocalProtocolError, MalformedMessageError } from "../../../src/errors.ts";
import {
  contradict,
  entryFromBytes,
  entryToBytes,
  experimentEntry,
  follows,
  keyOf,
  logEntry,
  MAX_LINE_BYTES,
  type Entry,
} from "../../../src/protocol/log/entries.ts";
import { MAX_ROUND } from "../../../src/protocol/version.ts";
import { vectors } from "../../vectors.ts";

const D = "0123456789abcdef".repeat(4);
const E = "f".repeat(64);

function manifest(roundNumber: number, digest = E, experiment = D): Entry {
  return logEntry("manifest", { experiment, roundNumber }, digest);
}

function opening(roundNumber: number, digest = E): Entry {
  return logEntry("opening", { experiment: D, roundNumber }, digest);
}

function ending(digest = E, experiment = D): Entry {
  return logEntry("ending", { experiment, roundNumber: 9 }, digest);
}

test("entries of the vectors are read and written", () => {
  for (const { kind, experiment, round, digest, bytes } of vectors("log").entries) {
    const entry = { kind, experiment, roundNumber: round, digest };
    assert.deepEqual(entryFromBytes(unhex(bytes)), entry);
    assert.equal(hex(entryToBytes(entry)), bytes);
  }
});

test("an entry has one spelling", () => {
  for (const { why, bytes } of vectors("bad_log").entries) {
    assert.throws(() => entryFromBytes(unhex(bytes)), MalformedMessageError, why);
  }
  const texts = [
    `secvm-v2-experiment ${D}\n`,
    `secvm-v2-manifest ${D} 1 ${E}\n`,
    `secvm-v2-opening ${D} ${MAX_ROUND} ${E}\n`,
    `secvm-v2-ending ${D} ${E}\n`,
  ];
  for (const text of texts) {
    assert.equal(hex(entryToBytes(entryFromBytes(utf8(text)))), hex(utf8(text)));
    const others = [text.slice(0, -1), `${text}\n`, text.replace(" ", "  "), ` ${text}`, text.toUpperCase()];
    for (const other of others) assert.throws(() => entryFromBytes(utf8(other)), MalformedMessageError, other);
  }
  assert.equal(entryToBytes(manifest(MAX_ROUND)).length, MAX_LINE_BYTES);
});

test("what cannot be read cannot be written", () => {
  const entries: Entry[] = [
    experimentEntry("x"),
    { ...experimentEntry(D), digest: E },
    { ...manifest(1), roundNumber: null },
    { ...ending(), roundNumber: 1 },
    manifest(2 ** 20),
  ];
  for (const entry of entries) assert.throws(() => entryToBytes(entry), LocalProtocolError);
});

test("of one kind, experiment and round there is one entry", () => {
  assert.equal(keyOf(manifest(1, D)), keyOf(manifest(1, E)));
  const keys = [manifest(1), manifest(2), manifest(1, E, E), opening(1), ending(), experimentEntry(D)].map(keyOf);
  assert.equal(new Set(keys).size, keys.length);
});

test("after each entry only its successors follow", () => {
  const course = [experimentEntry(D), ...[1, 2, 3, 4].flatMap((number) => [manifest(number), opening(number)])];
  const every = [...course, ending()];
  let before: Entry | null = null;
  for (const after of course) {
    const mayEnd: boolean = before !== null && before.kind !== "manifest";
    assert.deepEqual(every.filter((entry) => follows(before, entry)), mayEnd ? [after, ending()] : [after]);
    before = after;
  }
  assert.ok(!every.some((entry) => follows(ending(), entry)));
  assert.throws(() => follows(experimentEntry(D), ending(D, E)), LocalProtocolError);
});

test("what breaks the order contradicts, and an honest log does not", () => {
  const pairs: [number, Entry, number, Entry][] = [
    [3, manifest(1, D), 4, manifest(1)],
    [3, manifest(1), 4, manifest(1)],
    [3, experimentEntry(D), 9, experimentEntry(D)],
    [3, manifest(2, D), 4, manifest(1)],
    [3, opening(1, D), 4, manifest(1)],
    [3, manifest(2, D), 4, opening(1)],
    [3, ending(D), 4, manifest(MAX_ROUND)],
    [3, ending(D), 4, ending()],
    [3, manifest(1, D), 4, experimentEntry(D)],
    [3, manifest(1, D), 3, manifest(1)],
    [3, experimentEntry(D), 3, experimentEntry(E)],
  ];
  for (const [i, first, j, second] of pairs) {
    assert.ok(contradict({ index: i, entry: first }, { index: j, entry: second }));
    assert.ok(contradict({ index: j, entry: second }, { index: i, entry: first }));
  }
  const others = [experimentEntry(E), manifest(1, D, E), ending(D, E)];
  const honest = [experimentEntry(D), ...others, manifest(1), opening(1), manifest(2), opening(2), ending()];
  const log = honest.map((entry, index) => ({ index, entry }));
  assert.ok(!log.some((one) => log.some((other) => contradict(one, other))));
});
