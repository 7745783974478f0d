import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { BadInputError } from "../../../src/errors.ts";
import { cellLosses, spreadOfLoss } from "../../../src/privacy/accounting/coverLoss.ts";
import { discretise, Looks, smallestEpsilon, type PrivacyLoss } from "../../../src/privacy/accounting/pld.ts";

function lossesOf(shape: number, odds: number, q = 1): readonly [PrivacyLoss, PrivacyLoss] {
  const p = odds / (1 + odds);
  return cellLosses(shape, p, q, spreadOfLoss(shape, p, q) / 16);
}

test("δ is never below the truth where the truth is known", () => {
  const chance = fc.integer({ min: 1, max: 9 });
  fc.assert(
    fc.property(fc.array(fc.tuple(chance, chance), { minLength: 2, maxLength: 5 }), fc.integer({ min: 0, max: 9 }), (pairs, tenths) => {
      const [wholeP, wholeQ] = [0, 1].map((i) => pairs.reduce((sum, pair) => sum + pair[i]!, 0));
      const masses = pairs.map(([p, q]) => [p / wholeP!, q / wholeQ!] as const);
      const losses = Float64Array.from(masses, ([p, q]) => Math.log(p / q));
      const loss = discretise(losses, Float64Array.from(masses, ([p]) => p), { infinite: 0, step: 0.01 });
      const epsilon = tenths / 10;
      const twice = masses.flatMap(([p, q]) => masses.map(([r, s]) => Math.max(0, p * r - Math.exp(epsilon) * q * s)));
      const exactly = twice.reduce((a, b) => a + b, 0);
      const [bound] = new Looks([[loss, 2]]).deltas([epsilon]);
      assert.ok(bound! >= exactly - 1e-12 && bound! <= exactly + 0.01, `${bound} ${exactly}`);
    }),
  );
});

test("a loss that is infinite stays, and more looks never tell less", () => {
  const [taken] = lossesOf(15, 3);
  const certain = discretise(Float64Array.of(0), Float64Array.of(0.75), { infinite: 0.25, step: taken.step });
  assert.ok(Math.abs(new Looks([[certain, 1]]).deltas([5])[0]! - 0.25) < 1e-8);
  const deltas = [1, 2, 10, 100].map((looks) => new Looks([[taken, looks]]).deltas([0.3])[0]!);
  assert.deepEqual(deltas, [...deltas].sort((a, b) => a - b));
});

test("several ε at once are those one by one, within little of the largest δ", () => {
  const looks = new Looks(lossesOf(15, 3).map((loss) => [loss, 4] as const));
  const together = looks.deltas([0.1, 0.5, 2]);
  for (const [i, epsilon] of [0.1, 0.5, 2].entries()) {
    const [alone] = looks.deltas([epsilon]);
    assert.ok(Math.abs(together[i]! - alone!) < 1e-5 * together[0]!, `${epsilon}`);
  }
});

test("the smallest ε keeps δ, and a little less does not", () => {
  const deltaOf = (epsilon: number): number => 0.5 * Math.exp(-3 * epsilon);
  const found = smallestEpsilon(deltaOf, 1e-6);
  assert.ok(deltaOf(found) <= 1e-6 && deltaOf(found * (1 - 2e-4)) > 1e-6);
  assert.deepEqual([smallestEpsilon(() => 0, 1e-6, 2), smallestEpsilon(() => 1, 1e-6)], [2, Infinity]);
});

test("noise that is as good as none is no guarantee", () => {
  const [, given] = lossesOf(99, 1e-30);
  assert.deepEqual(new Looks([[lossesOf(99, 3)[0], 3], [given, 2]]).deltas([0.5, 4]), [1, 1]);
});

test("noise that hides some counts alone, or more than anybody could pay, is refused before it fills the memory", () => {
  assert.throws(() => cellLosses(99, 1e-9, 1, 1e-9), BadInputError);
  assert.throws(() => lossesOf(65536, 16384), /more noise than any relay could add/);
});
