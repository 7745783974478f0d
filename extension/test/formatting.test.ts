import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { formatFixed, formatGeneral, formatPower, grouped } from "../src/formatting.ts";

test("numbers are written as Python writes them", () => {
  assert.deepEqual([0.125, 2.675, -0.5, 1e6, 0.004].map((n) => formatFixed(n, 2)), ["0.12", "2.67", "-0.50", "1000000.00", "0.00"]);
  assert.deepEqual([0.5, 1.5, 999.5].map((n) => formatFixed(n, 0)), ["0", "2", "1000"]);
  assert.equal(formatFixed(1234567.25, 1, { grouped: true }), "1,234,567.2");
  assert.equal(formatFixed(Infinity, 2), "inf");
  assert.deepEqual([1e-6, 1 / 3000, 0.95, 1, 9.5e-8, 25e9].map(formatPower), ["1e-06", "3e-04", "9e-01", "1e+00", "1e-07", "2e+10"]);
  assert.equal(grouped(1234567), "1,234,567");
  const general = [0.1, 1e-5, 123456.5, 999999.5, 1234567, 0, -2.5, 0.00012345678, 1e22].map((n) => formatGeneral(n));
  assert.deepEqual(general, ["0.1", "1e-05", "123456", "1e+06", "1.23457e+06", "0", "-2.5", "0.000123457", "1e+22"]);
});

test("what is written is near what was meant", () => {
  fc.assert(
    fc.property(fc.double({ min: 1e-300, max: 1e300, noNaN: true }), (value) => {
      assert.ok(Math.abs(Number(formatGeneral(value)) / value - 1) <= 0.5000001e-5);
      if (value < 1e15) assert.ok(Math.abs(Number(formatFixed(value, 3)) - value) <= Math.max(5.0001e-4, value * 1e-15));
    }),
  );
});
