import assert from "node:assert/strict";
import { test } from "node:test";

import { remembered } from "../../../src/privacy/accounting/remembered.ts";

test("what was computed is not computed again, until it is among the oldest", () => {
  const asked: number[] = [];
  const square = remembered(2, String, (n: number) => asked.push(n) && n * n);
  assert.deepEqual([2, 2, 3, 2, 4, 2].map(square), [4, 4, 9, 4, 16, 4]);
  assert.deepEqual(asked, [2, 3, 4, 2]);
});
