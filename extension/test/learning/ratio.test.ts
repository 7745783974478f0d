import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { divideHalfEven, floorDivide, Ratio } from "../../src/learning/ratio.ts";

const big = fc.bigInt({ min: -(2n ** 80n), max: 2n ** 80n });
const positive = fc.bigInt({ min: 1n, max: 2n ** 80n });

test("ratios are in lowest terms, and calculate", () => {
  assert.equal(new Ratio(6, -4).toString(), "-3/2");
  assert.equal(Ratio.of("6/4").plus(new Ratio(1, 2)).toString(), "2");
  fc.assert(
    fc.property(big, positive, big, positive, (a, b, c, d) => {
      const [x, y] = [new Ratio(a, b), new Ratio(c, d)];
      assert.ok(x.plus(y).minus(y).equals(x));
      if (c !== 0n) assert.ok(x.times(y).over(y).equals(x));
      assert.equal(Math.sign(x.compare(y)), -Math.sign(y.compare(x)) || 0);
    }),
  );
});

test("divisions round down, and half to even", () => {
  assert.deepEqual([-3n, -1n, 1n, 3n, 5n].map((n) => divideHalfEven(n, 2n)), [-2n, 0n, 0n, 2n, 2n]);
  fc.assert(
    fc.property(big, positive, (a, b) => {
      const floor = floorDivide(a, b);
      assert.ok(floor * b <= a && a < (floor + 1n) * b);
      const apart = 2n * (divideHalfEven(a, b) * b - a);
      assert.ok(apart <= b && -apart <= b);
    }),
  );
});

test("the nearest double of a double is itself", () => {
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
      const exact = Ratio.ofNumber(value);
      assert.ok(exact.toNumber() === value, `${value}`);
      const little = exact.times(new Ratio(2n ** 60n + 1n, 2n ** 60n));
      if (Math.abs(value) > 1e-290) assert.equal(little.toNumber(), value);
    }),
  );
  assert.equal(new Ratio(2n ** 53n + 1n).toNumber(), 2 ** 53);
  assert.equal(new Ratio(2n ** 53n + 3n).toNumber(), 2 ** 53 + 4);
  assert.equal(new Ratio(2n ** 55n + 3n, 2n ** 55n).toNumber(), 1);
  assert.equal(new Ratio(2n ** 55n + 5n, 2n ** 55n).toNumber(), 1 + 2 ** -52);
});
