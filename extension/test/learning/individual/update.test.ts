import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { BadInputError } from "../../../src/errors.ts";
import { BinnedVector } from "../../../src/learning/individual/binning.ts";
import {
  band,
  fixedEpsilon,
  fixedNorm,
  fixedTarget,
  localUpdate,
  MAX_TARGET,
  score,
  squaredNorm,
} from "../../../src/learning/individual/update.ts";
import { Loss } from "../../../src/learning/losses.ts";
import type { Sign } from "../../../src/learning/package.ts";
import { Ratio } from "../../../src/learning/ratio.ts";
import { Weights } from "../../../src/learning/weights.ts";
import { vectors } from "../../vectors.ts";

test("scores, bands and updates are those of the vectors", () => {
  for (const told of vectors("update").cases) {
    const { note, normalised, first } = told;
    const unit = Ratio.of(told.unit);
    const weights = new Weights({ mantissas: [Int32Array.from(told.mantissas)], unit, normalised, first });
    const vector = new BinnedVector(new Map(told.vector), told.mantissas.length - 1);
    const [threshold, width] = [BigInt(told.threshold), BigInt(told.width)];
    const norm = normalised ? fixedNorm(squaredNorm(vector)) : null;
    assert.equal(score(weights, 0, vector), told.score, note);
    assert.equal(norm === null ? null : String(norm), told.norm, note);
    assert.deepEqual(band({ threshold, width, norm, unit }), told.band.map(BigInt), note);
    const update = localUpdate({ weights, model: 0, vector, labelSign: told.label_sign, threshold, width });
    assert.deepEqual(update && [...update.values], told.update, note);
  }
});

test("numbers as labels are centred, scaled and rounded as the vectors say", () => {
  for (const { target, centre, spread, fixed } of vectors("losses").targets) {
    const asked = { centre: Ratio.of(centre), spread: Ratio.of(spread) };
    assert.equal(fixedTarget(Number(target), asked), BigInt(fixed));
  }
  const asked = { centre: new Ratio(0), spread: new Ratio(1) };
  for (const none of [NaN, Infinity, MAX_TARGET, -MAX_TARGET]) {
    assert.throws(() => fixedTarget(none, asked), BadInputError, `${none}`);
  }
  assert.equal(fixedTarget(-1e300, { ...asked, clamp: true }), -((BigInt(MAX_TARGET) - 1n) << 32n));
  assert.equal(fixedEpsilon(new Loss("epsilon-insensitive", "1/2"), new Ratio(2)), 1n << 30n);
  assert.equal(fixedEpsilon(new Loss("pinball"), new Ratio(2)), 0n);
});

test("on the margin, numbers decide as rationals do", () => {
  const mantissa = fc.integer({ min: -(2 ** 31) + 1, max: 2 ** 31 - 1 });
  const value = fc.integer({ min: -(2 ** 20), max: 2 ** 20 });
  fc.assert(
    fc.property(
      fc.array(fc.tuple(mantissa, value), { minLength: 1, maxLength: 3 }),
      mantissa,
      fc.integer({ min: -1, max: 1 }),
      fc.constantFrom<Sign>(-1, 1),
      fc.bigInt({ min: 1n, max: 2n ** 40n }),
      (row, bias, apart, y, q) => {
        const weights = new Weights({
          mantissas: [Int32Array.of(...row.map(([m]) => m), bias)],
          unit: new Ratio(1n, q),
        });
        const vector = new BinnedVector(new Map(row.map(([, x], bin) => [bin, x])), row.length);
        const exactly = row.reduce((sum, [m, x]) => sum + BigInt(m) * BigInt(x), BigInt(bias));
        assert.equal(BigInt(score(weights, 0, vector)), exactly);
        // θ lies on the person's own score, or a 2^32th beside it.
        const threshold = ((BigInt(y) * exactly) << 32n) / q + BigInt(apart);
        const violates = BigInt(y) * exactly << 32n < threshold * q;
        const isNear = threshold * q < 1n << 92n && -threshold * q < 1n << 92n;
        const update = localUpdate({ weights, model: 0, vector, labelSign: y, threshold });
        if (isNear) assert.equal(update !== null, violates);
      },
    ),
  );
});
