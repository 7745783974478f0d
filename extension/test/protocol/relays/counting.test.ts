import assert from "node:assert/strict";
import { inspect } from "node:util";
import { test } from "node:test";

import { concat, hex, unhex, utf8, type Bytes } from "../../../src/bytes.ts";
import { X25519PrivateKey } from "../../../src/crypto/sealing/kem.ts";
import { INNER_BYTES } from "../../../src/crypto/sealing/layers.ts";
import { decode } from "../../../src/protocol/codec.ts";
import { ExperimentDocument } from "../../../src/protocol/documents/experiment.ts";
import { CapsuleReader, Cells, JUNK, NULL, subTallyOf } from "../../../src/protocol/relays/counting.ts";
import { vectors, type Vector } from "../../vectors.ts";

const VECTORS = vectors("junk");
const DOCUMENT = ExperimentDocument.fromBytes(utf8(VECTORS.document));
const SEED = unhex(VECTORS.count_seed);
const READER = new CapsuleReader({
  document: DOCUMENT,
  label: unhex(VECTORS.label),
  roundNumber: VECTORS.round,
  key: await X25519PrivateKey.derive(SEED),
});

test("capsules of the vectors count for their cell, or are junk", async () => {
  const cells = Cells.of(DOCUMENT.experiment);
  for (const { why, capsule, junk, cell } of VECTORS.cases) {
    const counted = await READER.package(unhex(capsule));
    assert.equal(counted === null, junk, why);
    assert.equal(counted === null ? null : cells.cellOf(counted), cell, why);
  }
});

test("many capsules come to the same, and to the sub-tally of the vectors", async () => {
  const whole = VECTORS.cases.filter(({ capsule }: Vector) => capsule.length === 2 * INNER_BYTES);
  const found = await READER.cells(concat(...whole.map(({ capsule }: Vector): Bytes => unhex(capsule))));
  assert.deepEqual(found, whole.map(({ junk, cell }: Vector) => (junk ? JUNK : (cell ?? NULL))));
  assert.equal(hex(subTallyOf(found)), VECTORS.sub_tally);
});

test("packages of the vectors are in their cells", () => {
  for (const { models, bins, labels, package: content, cell } of vectors("shards").cells) {
    const cells = new Cells({ models, bins, labels, tested: true });
    assert.equal(cells.cellOf(decode(unhex(content)).package), cell);
  }
});

test("every cell has one package", () => {
  const shapes = [
    { models: 1, bins: 10, labels: 2, tested: true },
    { models: 6, bins: 3, labels: 4, tested: true },
    { models: 1, bins: 4, labels: 1, tested: false },
  ];
  for (const shape of shapes) {
    const cells = new Cells(shape);
    const upTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i);
    const labels = upTo(shape.labels);
    const found = [
      ...upTo(shape.models).flatMap((model) =>
        upTo(shape.bins + 1).flatMap((binIndex) =>
          ([1, -1] as const).map((sign) => cells.cellOf({ kind: "train", model, binIndex, sign })),
        ),
      ),
      ...(["train", "test"] as const).flatMap((cohort) =>
        labels.map((classIndex) => cells.cellOf({ kind: "participation", cohort, classIndex })),
      ),
      ...(shape.tested ? labels : []).flatMap((trueClass) =>
        labels.map((predictedClass) => cells.cellOf({ kind: "test", trueClass, predictedClass })),
      ),
    ];
    assert.deepEqual(found, upTo(cells.count));
    assert.equal(cells.cellOf({ kind: "null" }), null);
  }
});

test("cells of cover are these cells", () => {
  const cells = Cells.of(DOCUMENT.experiment);
  const kinds = DOCUMENT.relayCover.kinds.map((noise) => noise.cells);
  assert.deepEqual(kinds, [cells.train, cells.participation, cells.test]);
});

test("who counts does not print the key", () => {
  assert.doesNotMatch(inspect(READER, { showHidden: true, depth: 0 }), /key|PrivateKey|Crypto/i);
});
