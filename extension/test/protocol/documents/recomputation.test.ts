/** One step played again, exactly; and caps, exactly on the edge. */

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { unhex, utf8 } from "../../../src/bytes.ts";
import { BadInputError } from "../../../src/errors.ts";
import { emptyTally } from "../../../src/learning/aggregate/index.ts";
import { Tally } from "../../../src/learning/aggregate/tally.ts";
import { Ratio } from "../../../src/learning/ratio.ts";
import { Weights } from "../../../src/learning/weights.ts";
import { digestOf } from "../../../src/protocol/canonical.ts";
import { MAX_COUNT, readTallyBytes } from "../../../src/protocol/documents/blobs.ts";
import { ExperimentDocument } from "../../../src/protocol/documents/experiment.ts";
import { afterOpened, Caps, firstModel } from "../../../src/protocol/documents/recomputation.ts";
import { vectors, type Vector } from "../../vectors.ts";

const VECTORS = vectors("tallies");
const DOCUMENT = ExperimentDocument.fromBytes(utf8(VECTORS.covered));
const { experiment: EXPERIMENT } = DOCUMENT;
const FIRST = firstModel(DOCUMENT);

function tallyOf(why: string): Promise<Tally> {
  const { bytes } = VECTORS.cases.find((each: Vector) => each.cover && each.why === why);
  return readTallyBytes(unhex(bytes[0]), EXPERIMENT);
}

/** The same count of every positive unit, and these people. */
function inflated(people: readonly bigint[]): Tally {
  const empty = emptyTally(EXPERIMENT);
  return new Tally({
    ...empty.withTrain(empty.plus.map((row) => row.map(() => MAX_COUNT)), empty.minus),
    participants: BigInt64Array.from(people),
  });
}

test("models have the names that Python gives them", async () => {
  const zero = "739f5fec92414261560d971c2238d8439956ca7a8612fa650aeaff3036fb740a";
  assert.deepEqual(FIRST.names, ["6a4d6538eae7b98b4fc3b29c99c64ffbfa257728b19486fde19c29d0c2914194", zero, zero]);
  assert.deepEqual(FIRST.names, FIRST.blobs.map(digestOf));
  const noise = await tallyOf("noise");
  const one = afterOpened(DOCUMENT, FIRST.state, noise, { clients: 10 });
  assert.deepEqual([one.stayed, ...one.model.names], [
    null,
    "afb9f19bbdf5743adacfb43029f89675dc76ca0446f4ff226a6b942d818cee11",
    "d4c9f5c4676e91842f216762763281ea2c49dd956387da7a5699e560cc9e1454",
    "6863b7de332ef19eff96a3598b93b005870cd94071dea2c5f42e96ea0ccc8a59",
  ]);
  const two = afterOpened(DOCUMENT, one.model.state, noise, { clients: 10 });
  assert.deepEqual([two.stayed, ...two.model.names], [
    null,
    "e7371ccc4bf79a65befed1188b0bca9f0b73f96d1ab2037a3909804e57453e6b",
    "e599fb1cce3c3a90cfb7837a0aed2771e9b5c6c389381451d11410428fab58d3",
    "d0c773ae944b2a6680ca3500c6fb4b7a428ef40ac101dc9d5812f31c8307f1e8",
  ]);
});

test("rounds that do not change the model leave it as it is, and say why", async () => {
  const most = Number(MAX_COUNT);
  const cases = [
    [await tallyOf("noise"), DOCUMENT.floor - 1, "FLOOR"],
    [await tallyOf("noise"), DOCUMENT.floor, null],
    [await tallyOf("nothing counted"), 10, "NOBODY"],
    [await tallyOf("the known mean"), most, "NOBODY"],
    // A test cell of 1,000 is just within what 928 devices and cover explain.
    [await tallyOf("two planes"), 927, "UNEXPLAINED"],
    [await tallyOf("two planes"), 928, "NOBODY"],
    [inflated([4n, 3n]), most, "RANGE"],
    [inflated([MAX_COUNT, 3n]), most, null],
  ] as const;
  for (const [net, clients, expected] of cases) {
    const { model, stayed } = afterOpened(DOCUMENT, FIRST.state, net, { clients });
    assert.equal(stayed, expected);
    assert.equal(model.names[0] === FIRST.names[0], stayed !== null);
  }
});

// ── caps ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

function weights(unit: Ratio, ...rows: number[][]): Weights {
  return new Weights({ mantissas: rows.map((row) => Int32Array.from(row)), unit });
}

const ONE = new Ratio(1);
const third = (n: number): Ratio => new Ratio(n, 3);
/** 3, 4 | 7: norm 5, bias 7, in units of a third. */
const THIRDS = weights(third(1), [3, -4, -7]);
const LITTLE = new Ratio(1, 10n ** 30n);

test("caps hold exactly on the edge", () => {
  const cases: [Caps, Weights, RegExp | null][] = [
    [new Caps(), THIRDS, null],
    [new Caps({ norm: third(5), bias: third(7) }), THIRDS, null],
    [new Caps({ norm: third(5).minus(LITTLE) }), THIRDS, /the model's weights are larger than this device allows/],
    [new Caps({ bias: third(7).minus(LITTLE) }), THIRDS, /the model's bias is larger than this device allows/],
    // Each model is held to them, and zero is a cap.
    [new Caps({ norm: new Ratio(9) }), weights(ONE, [0, 0, 0], [0, 9, 0]), null],
    [new Caps({ norm: new Ratio(8) }), weights(ONE, [0, 0, 0], [0, 9, 0]), /weights/],
    [new Caps({ norm: new Ratio(0), bias: new Ratio(0) }), weights(ONE, [0, 0]), null],
    [new Caps({ bias: new Ratio(0) }), weights(ONE, [0, 1]), /bias/],
  ];
  for (const [caps, of, refusal] of cases) {
    const said = caps.refuses(of);
    if (refusal === null) assert.equal(said, null);
    else assert.match(said!, refusal);
  }
});

test("less than zero is no cap", () => {
  for (const wrong of [{ norm: new Ratio(-1) }, { bias: new Ratio(-1, 9) }]) {
    assert.throws(() => new Caps(wrong), BadInputError);
  }
});

test("a norm is compared without rounding", () => {
  const mantissa = fc.integer({ min: -(2 ** 31) + 1, max: 2 ** 31 - 1 });
  const row = fc.array(mantissa, { minLength: 2, maxLength: 40 });
  const natural = fc.integer({ min: 1, max: 1000 });
  fc.assert(
    fc.property(row, natural, natural, (told, p, q) => {
      const unit = new Ratio(p, q);
      const squared = told.slice(0, -1).reduce((sum, m) => sum + BigInt(m) ** 2n, 0n);
      const largest = Math.max(...told.map(Math.abs));
      const refused = new Caps({ norm: unit.times(new Ratio(largest)) }).refuses(weights(unit, told)) !== null;
      assert.equal(refused, squared > BigInt(largest) ** 2n);
    }),
  );
});
