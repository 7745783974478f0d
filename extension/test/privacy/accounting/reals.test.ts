import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import fc from "fast-check";

import { Ratio } from "../../../src/learning/ratio.ts";
import { dot, erf, exp, expm1, hartley, log, log1p, logGamma, sumOnce, total } from "../../../src/privacy/accounting/reals.ts";

const SPREAD = Float64Array.from({ length: 8001 }, (_, i) => i - 4000);
const finite = fc.double({ noNaN: true, noDefaultInfinity: true });

test("the bits are those of Python on every machine", () => {
  const x = SPREAD.map((one) => one / 64);
  const above = x.slice(4001, 4400);
  const found = [
    ...[x.map(exp), x.map((one) => expm1(one / 40)), x.map((one) => log(Math.abs(one) + 1e-3))],
    ...[x.map((one) => log1p(one / 70)), hartley(x.slice(0, 1024)), above.map(logGamma), above.map(erf)],
    Float64Array.of(total(x.map((one) => one / 3))),
  ];
  const bits = createHash("sha256");
  for (const values of found) bits.update(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
  assert.equal(bits.digest("hex"), "66819b15fe35fa1062294c9b6879eea6813878d1dcad0757f88884eeab20625b");
});

test("the ends of the range", () => {
  assert.deepEqual([exp(-1e9), exp(-746), exp(0), expm1(0), log(1), erf(7), total(new Float64Array())], [0, 0, 1, 0, 0, 1, 0]);
  assert.equal(exp(-745), 5e-324);
  assert.ok(Math.abs(log(5e-324) / Math.log(5e-324) - 1) < 1e-15);
  for (const x of [0, -1, NaN]) assert.throws(() => log(x), /only numbers above 0/);
  assert.throws(() => log1p(-1), /only numbers above 0/);
});

test("a sum that is rounded once is the nearest double, whatever the order", () => {
  fc.assert(
    fc.property(fc.array(finite.filter((x) => Math.abs(x) < 1e300), { maxLength: 12 }), (values) => {
      const exactly = values.map(Ratio.ofNumber).reduce((a, b) => a.plus(b), new Ratio(0));
      assert.equal(sumOnce(values) + 0, exactly.toNumber());
      assert.equal(sumOnce([...values].reverse()), sumOnce(values));
    }),
  );
  // Half way between two doubles what is smallest decides.
  assert.deepEqual([sumOnce([1e16, 1, 1e-16]), sumOnce([1e16, 1]), sumOnce([1e308, 1, -1e308])], [1e16 + 2, 1e16, 1]);
  assert.deepEqual([sumOnce([]), sumOnce([Infinity, 1]), sumOnce([0.1, -0.1])], [0, Infinity, 0]);
});

test("sums of products go the way of sums", () => {
  const values = Float64Array.from(SPREAD, (x) => Math.sin(x));
  assert.equal(dot(values, values), total(values.map((x) => x * x)));
});

test("a transform and its like give back what went in", () => {
  for (const size of [1, 2, 4, 8, 32, 2048]) {
    const values = Float64Array.from({ length: size }, (_, i) => Math.sin(i * i));
    const back = hartley(hartley(values));
    assert.ok(back.every((value, i) => Math.abs(value / size - values[i]!) < 1e-13), `${size}`);
  }
});
