import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { unhex, utf8 } from "../../../src/bytes.ts";
import { sha256 } from "../../../src/crypto/hashes.ts";
import { X25519PrivateKey } from "../../../src/crypto/sealing/kem.ts";
import { verify, VerifyKey } from "../../../src/crypto/signing.ts";
import { MalformedMessageError } from "../../../src/errors.ts";
import { encodeDocument } from "../../../src/protocol/canonical.ts";
import { ExperimentDocument } from "../../../src/protocol/documents/experiment.ts";
import { MANIFEST, type RelayedManifest } from "../../../src/protocol/relays/manifest.ts";
import {
  clientsOf,
  ENDING,
  followingFaults,
  isOpened,
  missingFrom,
  OPENING,
  openingFaults,
  type Opening,
} from "../../../src/protocol/relays/opening.ts";
import { refused, vectors } from "../../vectors.ts";

const VECTORS = vectors("opening");
const DOCUMENT = ExperimentDocument.fromBytes(utf8(VECTORS.document));
const ROUND = MANIFEST.fromBytes(utf8(VECTORS.manifest));
const FIRST = OPENING.fromBytes(utf8(VECTORS.cases[0].payload));
/** Of a round that is not opened. */
const UNOPENED = { countSeed: null, tally: null, shards: null };

test("openings of the vectors are true, and tell what is missing", async () => {
  for (const { envelope, payload, missing } of VECTORS.cases) {
    const opening = await DOCUMENT.read(OPENING, unhex(envelope));
    assert.deepEqual(OPENING.toBytes(opening), utf8(payload));
    assert.deepEqual(missingFrom(opening).map((name) => name.toLowerCase()), missing);
    assert.deepEqual(await openingFaults(opening, ROUND, DOCUMENT), []);
    assert.equal(await isOpened(opening, ROUND, DOCUMENT), missing.length === 0);
  }
});

test("the bad openings of the vectors are not true", async () => {
  const { good, document, manifest, cases, malformed } = vectors("bad_openings");
  const [experiment, round] = [ExperimentDocument.fromBytes(utf8(document)), MANIFEST.fromBytes(utf8(manifest))];
  for (const { why, changes, faults } of cases) {
    const opening = OPENING.fromBytes(encodeDocument({ ...JSON.parse(good), ...changes }));
    assert.deepEqual((await openingFaults(opening, round, experiment)).toSorted(), faults.toSorted(), why);
    assert.ok(!(await isOpened(opening, round, experiment)), why);
  }
  await refused(malformed, ({ bytes }) => OPENING.fromBytes(unhex(bytes)), MalformedMessageError);
});

test("what is missing is told and accuses nobody", async () => {
  const names = ["entryCount", "mixCount", "entryReveal", "mixReveal"] as const;
  await fc.assert(
    fc.asyncProperty(fc.subarray([...names]), async (gone) => {
      const opening = { ...FIRST, ...UNOPENED, ...Object.fromEntries(gone.map((name) => [name, null])) };
      assert.equal(missingFrom(opening).length, gone.length + 1);
      assert.deepEqual(OPENING.fromBytes(OPENING.toBytes(opening)), opening);
      assert.deepEqual(await openingFaults(opening, ROUND, DOCUMENT), []);
    }),
    { numRuns: 20 },
  );
});

test("seed, tally and shards stand there together or not at all", () => {
  for (const changes of [{ tally: null }, { shards: null }, { countSeed: null }, { mixReveal: null }]) {
    assert.throws(() => OPENING.digest({ ...FIRST, ...changes }), /exactly where nothing is missing/);
  }
});

test("a count key that its seed does not give opens nothing", async () => {
  const { publicKey } = await X25519PrivateKey.derive(sha256(utf8("other")));
  const faults = await openingFaults(FIRST, { ...ROUND, countKey: publicKey.data }, DOCUMENT);
  assert.ok(faults.includes("COUNT_KEY"));
});

test("a next round follows from the opening, and steps only from an opened one", async () => {
  const names = { state: "1".repeat(64), trainingWeights: "2".repeat(64), evaluationWeights: "3".repeat(64) };
  const after = (opening: Opening, changes: object = {}): RelayedManifest =>
    ({ ...ROUND, roundNumber: 2, previous: MANIFEST.digest(ROUND), opening: OPENING.digest(opening), ...changes });
  const unopened = { ...FIRST, ...UNOPENED, mixReveal: null };
  const crowded = new ExperimentDocument({ ...DOCUMENT, floor: clientsOf(FIRST) + 1 });
  const cases: [RelayedManifest, Opening, ExperimentDocument, string[]][] = [
    [after(FIRST, names), FIRST, DOCUMENT, []],
    [after(FIRST), FIRST, DOCUMENT, []],
    [after(unopened), unopened, DOCUMENT, []],
    [after(unopened, names), unopened, DOCUMENT, ["UNOPENED_STEP"]],
    [after(unopened, names), FIRST, DOCUMENT, ["OTHER_OPENING"]],
    [after(FIRST, { opening: "0".repeat(64) }), FIRST, DOCUMENT, ["OTHER_OPENING"]],
    [after(FIRST, names), FIRST, crowded, ["UNOPENED_STEP"]],
  ];
  for (const [manifest, opening, document, faults] of cases) {
    assert.deepEqual(await followingFaults(manifest, ROUND, opening, document), faults);
  }
});

test("endings of the vectors are read, and name their last round or none", async () => {
  const { public_key, cases } = vectors("ending");
  const keys = [new VerifyKey(unhex(public_key))];
  for (const { envelope, payload } of cases) {
    const data = await verify(unhex(envelope), { purpose: ENDING.purpose, keys });
    assert.deepEqual(data, utf8(payload));
    const ending = ENDING.fromBytes(data);
    assert.deepEqual(ENDING.toBytes(ending), data);
    const others = [{ roundNumber: ending.roundNumber ? 0 : 1 }, { manifest: ending.manifest ? null : "0".repeat(64) }];
    for (const other of others) {
      assert.throws(() => ENDING.digest({ ...ending, ...other }), /names the last round with its manifest and its open/);
    }
  }
});
