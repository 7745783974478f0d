import assert from "node:assert/strict";
import { test } from "node:test";

import { Loss, logisticTable } from "../../src/learning/losses.ts";
import { Ratio } from "../../src/learning/ratio.ts";
import { vectors } from "../vectors.ts";

const VECTORS = vectors("losses");

test("thresholds and factors are those of the vectors", () => {
  for (const { loss, parameter, factors, tosses_coins, coins, thresholds } of VECTORS.cases) {
    const made = new Loss(loss, parameter);
    assert.deepEqual(made.factors, factors.map(Ratio.of), loss);
    assert.equal(made.tossesCoins, tosses_coins);
    assert.deepEqual(coins.map((coin: string) => made.threshold(BigInt(coin))), thresholds.map(BigInt), loss);
  }
});

test("the knots of the logistic quantile are correctly rounded", () => {
  assert.deepEqual(logisticTable(), VECTORS.logistic_table.map(BigInt));
});
