import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { riskOf, timesInTen, together, up } from "../../src/privacy/risk.ts";

test("rounding never says less than the number", () => {
  fc.assert(
    fc.property(fc.double({ min: 0.5, max: 1, noNaN: true }), (risk) => {
      assert.ok(risk * 10 <= timesInTen(risk) + 1e-12 && timesInTen(risk) < risk * 10 + 0.1 + 1e-12);
      assert.ok(risk <= up(risk, 1000) && up(risk, 1000) <= risk + 0.001);
    }),
  );
  assert.deepEqual([0.5, 0.5863, 0.9901, 1].map(timesInTen), [5, 5.9, 10, 10]);
  assert.deepEqual([up(0.1 + 0.2, 100), up(4, 100), up(Infinity, 100)], [0.31, 4, Infinity]);
});

test("nothing told is a coin, no guarantee is certainty, and experiments add up", () => {
  assert.deepEqual([together([]), riskOf(null)], [0.5, 1]);
  const one = { risk: 0.6, variation: 0.25 };
  assert.equal(together([one]), 0.6);
  assert.equal(together([one, one]), 0.875);
  assert.equal(together([one, one, one, one]), 1);
});
