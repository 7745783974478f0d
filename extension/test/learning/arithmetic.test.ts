import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { unhex } from "../../src/bytes.ts";
import { ArithmeticRangeError, BadInputError } from "../../src/errors.ts";
import { commonIntegers, exact, integerRoot, mantissas, toFixed } from "../../src/learning/arithmetic.ts";
import { Ratio } from "../../src/learning/ratio.ts";
import { vectors } from "../vectors.ts";

const VECTORS = vectors("arithmetic");

test("numerators become fixed point", () => {
  for (const { numerators, scale, fixed } of VECTORS.to_fixed) {
    assert.deepEqual([...toFixed(numerators.map(BigInt), Ratio.of(scale))], fixed.map(BigInt));
  }
  assert.throws(() => toFixed([2n ** 29n], new Ratio(1)), ArithmeticRangeError);
});

test("integers and floats become mantissas", () => {
  const float = (text: string): number => new DataView(unhex(text).buffer).getFloat64(0);
  const told = ({ mantissas: rows, exponent }: ReturnType<typeof mantissas>): unknown => [[...rows[0]!], exponent];
  for (const { values, mantissas: rows, exponent } of VECTORS.integer_mantissas) {
    assert.deepEqual(told(mantissas([BigInt64Array.from(values, BigInt)])), [rows, exponent]);
  }
  for (const { values, mantissas: rows, exponent } of VECTORS.float_mantissas) {
    assert.deepEqual(told(mantissas([Float64Array.from(values, float)])), [rows, exponent]);
  }
  assert.throws(() => mantissas([Float64Array.of(NaN)]), /a weight is not a finite number/);
  assert.throws(() => mantissas([Float64Array.of(1e-300)]), /too large or too small to be published/);
});

test("a number is the rational that its decimal says", () => {
  const told = (given: number | string): string => exact(given).toString();
  assert.deepEqual(["0.1", "-1e-4", "+5.", ".5", "2/6", "1e3"].map(told), ["1/10", "-1/10000", "5", "1/2", "1/3", "1000"]);
  assert.deepEqual([0.1, 1e-7, 1e21].map(told), ["1/10", "1/10000000", `1${"0".repeat(21)}`]);
  for (const none of ["", ".", "-", "1/0", "1/", ".e5", "nan", "1_0", "1e-999999999", " 1", "0x1"]) {
    assert.throws(() => exact(none), BadInputError, none);
  }
});

test("roots are the largest integers whose square is not above", () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 2n ** 200n }), fc.nat(200), (value, shift) => {
      const shorter = value >> BigInt(shift);
      for (const n of [shorter, shorter ** 2n, shorter ** 2n + 2n * shorter]) {
        const root = integerRoot(n);
        assert.ok(root * root <= n && (root + 1n) * (root + 1n) > n);
      }
    }),
  );
});

test("rationals in proportion are the smallest integers", () => {
  assert.deepEqual(commonIntegers([new Ratio(1, 2), new Ratio(3, 4)]), [2n, 3n]);
  assert.deepEqual(commonIntegers([new Ratio(0), new Ratio(0)]), [0n, 0n]);
});
