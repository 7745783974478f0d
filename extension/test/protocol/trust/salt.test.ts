import assert from "node:assert/strict";
import { test } from "node:test";

import { utf8, type Bytes } from "../../../src/bytes.ts";
import { saltFrom } from "../../../src/crypto/beacons/sources.ts";
import { BadBeaconError, BadProofError, BadSignatureError, MalformedMessageError } from "../../../src/errors.ts";
import { ExperimentDocument } from "../../../src/protocol/documents/experiment.ts";
import { Quorum } from "../../../src/protocol/log/checkpoints.ts";
import { experimentEntry } from "../../../src/protocol/log/entries.ts";
import { LOG_TERMS, witnessKeysOf, type LogPolicy } from "../../../src/protocol/log/policy.ts";
import { committedAt, saltOf } from "../../../src/protocol/trust/salt.ts";
import { SigningKey } from "../../crypto/signers.ts";
import { vectors } from "../../vectors.ts";
import { TERMS } from "../log/knownLog.ts";
import { DOCUMENT, documentOf, first, outputOf, recordOf, RECORDS, ROUNDS } from "./salted.ts";

const LOCAL = { allowUnsafe: true };
const STRANGER = new SigningKey(new Uint8Array(32).fill(99));

test("an experiment is committed when its quorum was reached", async () => {
  assert.equal(await committedAt(DOCUMENT, first([50, 10, 40])), 40_000);
  assert.equal(await committedAt(DOCUMENT, first([7, 7])), 7_000);
  await assert.rejects(committedAt(DOCUMENT, first([1])), /too few/);
});

test("only witnesses that the reader knows say when", async () => {
  const keys = witnessKeysOf(TERMS);
  const policy: LogPolicy = { logs: [], witnesses: keys.slice(1).map((key) => ({ key, url: null })), quorum: null };
  assert.equal(await committedAt(DOCUMENT, first([1, 1, 60])), 1_000);
  assert.equal(await committedAt(DOCUMENT, first([1, 1, 60]), { policy }), 60_000);
  await assert.rejects(committedAt(DOCUMENT, first([1, 1]), { policy }), BadSignatureError);
  const last = { ...policy, witnesses: [], quorum: new Quorum(1, [keys[2]!.key]) };
  assert.equal(await committedAt(DOCUMENT, first([10, 20, 50]), { policy: last }), 50_000);
});

test("the salt is that of the outputs, whose rounds lie after the commitment and not at it", async () => {
  const told = (...times: number[]) => ({ first: first(times), records: RECORDS, ...LOCAL });
  const salt = await saltOf(DOCUMENT, told(1, ROUNDS[0]! - 1));
  assert.deepEqual(salt, saltFrom(ROUNDS.map(outputOf), DOCUMENT.binning.bins));
  await assert.rejects(saltOf(DOCUMENT, told(1, ROUNDS[0]!)), /already known/);
});

test("records are those of the named rounds in their order", async () => {
  const [one, two] = RECORDS as [Bytes, Bytes];
  const proof = first([1, 1]);
  const wrong = [[one], [one, two, one], [two, one], [recordOf(ROUNDS[0]! + 1), two]];
  for (const records of wrong) {
    await assert.rejects(saltOf(DOCUMENT, { first: proof, records, ...LOCAL }), BadBeaconError);
  }
  await assert.rejects(saltOf(DOCUMENT, { first: null, records: RECORDS, ...LOCAL }), BadBeaconError);
});

test("the development beacon needs a test and somebody who says so", async () => {
  const told = { first: first([1, 1]), records: RECORDS };
  await assert.rejects(saltOf(DOCUMENT, told), /development/);
  const real = documentOf({ test: false });
  await assert.rejects(saltOf(real, { ...told, first: first([1, 1], real), ...LOCAL }), /development/);
});

test("a first checkpoint of another log or entry proves nothing", async () => {
  const other = documentOf({ log: LOG_TERMS.toContent({ ...TERMS, name: "else.example" }) });
  await assert.rejects(committedAt(other, first([1, 1], other)), MalformedMessageError);
  const elsewhere = documentOf({ log: LOG_TERMS.toContent({ ...TERMS, key: STRANGER.public }) });
  await assert.rejects(committedAt(elsewhere, first([1, 1], elsewhere)), BadSignatureError);
  const entry = experimentEntry("1".repeat(64));
  await assert.rejects(committedAt(DOCUMENT, first([1, 1], DOCUMENT, entry)), BadProofError);
});

test("a salt that stands in the experiment needs nobody, and words have none", async () => {
  const nothing = { first: null, records: [] };
  const salted = vectors("experiment_document").cases
    .map(({ text }: { text: string }) => ExperimentDocument.fromBytes(utf8(text)))
    .find(({ binning }: ExperimentDocument) => binning.kind === "hash" && binning.salt !== null);
  assert.deepEqual(await saltOf(salted, nothing), salted.binning.salt);
  const { bins } = DOCUMENT.binning;
  const words = documentOf({ binning: { kind: "vocabulary", bins, digest: "ab".repeat(32) } });
  await assert.rejects(saltOf(words, nothing), /no salt/);
});
