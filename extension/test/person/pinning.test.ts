import assert from "node:assert/strict";
import { test } from "node:test";

import { utf8, type Bytes } from "../../src/bytes.ts";
import { BadInputError, BeaconUnavailableError } from "../../src/errors.ts";
import { fetchSalt } from "../../src/person/pinning.ts";
import { ExperimentDocument } from "../../src/protocol/documents/experiment.ts";
import { saltOf } from "../../src/protocol/trust/salt.ts";
import { DOCUMENT, first, recordOf, RECORDS, ROUNDS } from "../protocol/trust/salted.ts";
import { vectors } from "../vectors.ts";

const UNSAFE = { unsafeBeacons: true, logPolicy: null };
const KNOWN = 1000 * ROUNDS.at(-1)!;
const PLACE = `/v1/experiment/${DOCUMENT.digest}`;
const FILES = { first: first([1, 1]), "beacon/0": RECORDS[0]!, "beacon/1": RECORDS[1]! };

/** A coordinator that serves these files of the experiment, and what it was asked for. */
function serving(files: { [name: string]: Bytes }) {
  const asked: string[] = [];
  const fetch = async (path: string) => {
    asked.push(path);
    const content = files[path.slice(PLACE.length + 1)];
    return content === undefined ? null : { content };
  };
  return { fetch, asked };
}

test("a salt is fetched and held to its beacons", async () => {
  const salt = await fetchSalt(DOCUMENT, serving(FILES), UNSAFE, KNOWN);
  assert.deepEqual(salt, await saltOf(DOCUMENT, { first: FILES.first, records: RECORDS, allowUnsafe: true }));
  const strict = fetchSalt(DOCUMENT, serving(FILES), { ...UNSAFE, unsafeBeacons: false }, KNOWN);
  await assert.rejects(strict, { name: "BadInputError", message: /cannot be believed: .*for development/ });
});

test("before the beacons have spoken the time is told, and nobody is asked", async () => {
  const coordinator = serving(FILES);
  const message = "this experiment's salt is not known before 2026-01-01 00:03:20 UTC: its beacons are to come";
  await assert.rejects(fetchSalt(DOCUMENT, coordinator, UNSAFE, KNOWN - 1), { message });
  assert.deepEqual(coordinator.asked, []);
});

test("what is not there yet is no lie, and what is another is one", async () => {
  for (const name of Object.keys(FILES)) {
    const { [name as "first"]: _, ...others } = FILES;
    await assert.rejects(fetchSalt(DOCUMENT, serving(others), UNSAFE, KNOWN), BeaconUnavailableError);
  }
  for (const forged of [{ ...FILES, first: utf8("x") }, { ...FILES, "beacon/0": recordOf(ROUNDS[0]! + 1) }]) {
    await assert.rejects(fetchSalt(DOCUMENT, serving(forged), UNSAFE, KNOWN), BadInputError);
  }
});

test("an experiment with a salt of its own asks nobody", async () => {
  const document = ExperimentDocument.fromBytes(utf8(vectors("experiment_document").cases[0].text));
  const coordinator = serving({});
  assert.equal(await fetchSalt(document, coordinator, UNSAFE, 0), null);
  assert.deepEqual(coordinator.asked, []);
});
