import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { aucAtMost } from "../../../src/privacy/accounting/guarantee.ts";

test("the best attacker is known where a guarantee is one point", () => {
  assert.deepEqual([aucAtMost([]), aucAtMost([[0, 0.25]]), aucAtMost([[0, 0]])], [1, 0.71875, 0.5]);
  assert.equal(aucAtMost([[1, 0]]), 0.7310585786300049);
  assert.equal(aucAtMost([[900, 0.5]]), 1);
  assert.throws(() => aucAtMost([[-1, 0]]), /an ε that is not negative/);
  assert.throws(() => aucAtMost([[1, 1.5]]), /a δ from 0 to 1/);
});

test("one more point never makes an attacker better", () => {
  const point = fc.tuple(fc.double({ min: 0, max: 9, noNaN: true }), fc.double({ min: 0, max: 1, noNaN: true }));
  fc.assert(
    fc.property(fc.array(point, { maxLength: 6 }), point, (points, more) => {
      assert.ok(aucAtMost([...points, more]) <= aucAtMost(points) + 1e-12);
    }),
  );
});
