import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { concat, hex, unhex, utf8 } from "../../../src/bytes.ts";
import { INNER_BYTES, OUTER_BYTES } from "../../../src/crypto/sealing/layers.ts";
import { BadProofError, LocalProtocolError, MalformedMessageError } from "../../../src/errors.ts";
import type { Package } from "../../../src/learning/package.ts";
import { encodeDocument } from "../../../src/protocol/canonical.ts";
import { decode } from "../../../src/protocol/codec.ts";
import { ExperimentDocument } from "../../../src/protocol/documents/experiment.ts";
import { capsuleDigest, capsuleRoot } from "../../../src/protocol/relays/batches.ts";
import { MANIFEST } from "../../../src/protocol/relays/manifest.ts";
import { readStatement } from "../../../src/protocol/relays/statements.ts";
import {
  CANARY,
  canaryCapsules,
  checkReceipt,
  drawOrder,
  readRequest,
  RECEIPT,
  recounts,
  sealSubmission,
  SECRETS_BYTES,
  tokenBytes,
} from "../../../src/protocol/relays/submission.ts";
import { vectors, type Vector } from "../../vectors.ts";

const CASES = vectors("submission").cases.map((each: Vector) => ({
  document: ExperimentDocument.fromBytes(utf8(each.document)),
  manifest: MANIFEST.fromBytes(utf8(each.manifest)),
  packages: each.packages.map((data: string): Package => decode(unhex(data)).package),
  words: each.words.map(BigInt),
  order: each.order,
  ephemerals: unhex(each.ephemerals),
  token: unhex(each.token),
  body: unhex(each.body),
  canary: utf8(each.canary),
  receipt: unhex(each.receipt),
  taken: utf8(each.taken),
}));
const [FIRST] = CASES;
const { document: DOCUMENT, manifest: ROUND, packages: PACKAGES } = FIRST;
const SEALING = { order: FIRST.order, ephemerals: FIRST.ephemerals };

test("requests are those of the vectors, byte for byte", async () => {
  for (const { document, manifest, packages, words, order, ephemerals, token, body, canary } of CASES) {
    assert.deepEqual(drawOrder(document.budget, words.values()), order);
    const sealed = await sealSubmission(document, manifest, packages, { order, ephemerals, token });
    assert.equal(hex(sealed.body), hex(body));
    assert.deepEqual(CANARY.toBytes(sealed.canary), canary);
    assert.deepEqual(CANARY.fromBytes(canary), sealed.canary);
  }
});

test("the canary is a null under the root of its receipt", async () => {
  for (const { document, manifest, order, ephemerals, token, body, receipt, taken } of CASES) {
    const canary = CANARY.fromBytes(taken);
    const [inner, outer] = await canaryCapsules(manifest, document.experimentId, canary.ephemerals);
    assert.deepEqual([inner.length, outer.length], [INNER_BYTES, OUTER_BYTES]);
    assert.deepEqual([capsuleDigest(inner), capsuleDigest(outer)], [canary.innerDigest, canary.place.digest]);
    const at = order.at(-1) * SECRETS_BYTES;
    assert.deepEqual(canary.ephemerals, ephemerals.slice(at, at + SECRETS_BYTES));
    const told = await readStatement(RECEIPT, receipt, document.entryRelay.key);
    checkReceipt(canary, told);
    assert.deepEqual({ ...CANARY.fromBytes(taken), receipt }, canary);
    const capsules = readRequest(body, { budget: document.budget, token: token.length });
    assert.deepEqual(told.root, capsuleRoot(capsules.map(capsuleDigest)));
    for (const other of [{ capsules: told.capsules + 1 }, { label: told.root }, { root: told.label }]) {
      assert.throws(() => checkReceipt(canary, { ...told, ...other }), BadProofError);
    }
  }
});

test("the receipt of the vectors is for their digests", () => {
  for (const { digests, root } of vectors("statements").receipts) {
    assert.equal(hex(capsuleRoot(digests.map(unhex))), root);
  }
});

test("which shards are counted again is that of the vectors", () => {
  for (const each of vectors("shards").recounts) assert.equal(recounts(unhex(each.ephemerals)), each.recounts);
});

test("the same dice give the canary the same capsule, whatever the person has", async () => {
  const nothing = PACKAGES.map((): Package => ({ kind: "null" }));
  const [one, other] = [
    await sealSubmission(DOCUMENT, ROUND, PACKAGES, SEALING),
    await sealSubmission(DOCUMENT, ROUND, nothing, SEALING),
  ];
  assert.deepEqual(one.canary.ephemerals, other.canary.ephemerals);
  assert.deepEqual(one.canary.innerDigest, other.canary.innerDigest);
  assert.deepEqual(one.canary.place.digest, other.canary.place.digest);
});

test("other numbers of packages, secrets, places and tokens are our fault", async () => {
  const unit: Package = { kind: "train", model: 0, binIndex: 3, sign: -1 };
  const many: Package[] = [...PACKAGES, { kind: "null" }];
  const faults: [Package[], object, RegExp][] = [
    [PACKAGES.slice(0, -1), {}, /exactly 7 packages, of which the last is the canary's null/],
    [many, {}, /exactly 7 packages/],
    [PACKAGES.with(-1, unit), {}, /exactly 7 packages/],
    [PACKAGES, { order: [0, 1, 2, 3, 4, 5, 5] }, /an order and secrets of another number than 7 packages/],
    [PACKAGES, { order: [0, 1, 2] }, /an order and secrets of another number/],
    [PACKAGES, { ephemerals: new Uint8Array(64) }, /an order and secrets of another number/],
    [PACKAGES, { token: new Uint8Array(64) }, /a token of 64 bytes; a request of this one has 0/],
    [PACKAGES, { ephemerals: new Uint8Array(7 * 64) }, /its secrets are not fresh dice/],
  ];
  for (const [packages, changes, fault] of faults) {
    await assert.rejects(
      sealSubmission(DOCUMENT, ROUND, packages, { ...SEALING, ...changes }),
      (error: Error) => error instanceof LocalProtocolError && fault.test(error.message),
    );
  }
  assert.equal(tokenBytes(CASES[2].document), 64);
  assert.throws(() => drawOrder(0, [].values()), /there is at least the canary/);
});

test("requests of other lengths or orders are none", () => {
  const { body } = FIRST;
  const budget = DOCUMENT.budget;
  const first = body.slice(0, OUTER_BYTES);
  const others = [
    new Uint8Array(), body.slice(1), concat(body, first), concat(body.slice(OUTER_BYTES), first),
    concat(...Array.from({ length: budget }, () => first)),
  ];
  for (const other of others) assert.throws(() => readRequest(other, { budget }), MalformedMessageError);
});

test("an order is a permutation of the places", () => {
  const word = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 40 }), fc.array(word, { minLength: 99, maxLength: 99 }), (budget, words) => {
      const order = drawOrder(budget, words.values());
      assert.deepEqual(order.toSorted((a, b) => a - b), Array.from({ length: budget }, (_, place) => place));
    }),
  );
});

test("a canary that does not stand among its capsules is none", () => {
  const told = JSON.parse(new TextDecoder().decode(FIRST.canary));
  assert.throws(() => CANARY.fromBytes(encodeDocument({ ...told, capsules: 1 })), /a canary at place \d of 1/);
});
