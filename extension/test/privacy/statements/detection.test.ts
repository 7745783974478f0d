import assert from "node:assert/strict";
import { test } from "node:test";

import { Ratio } from "../../../src/learning/ratio.ts";
import { blindlyFor, droppedInCell, inCellFor } from "../../../src/privacy/statements/detection.ts";

const CELL = { people: 5, cover: 20, shape: new Ratio(2), parts: 9 };

test("chances of being seen are those of Python", () => {
  assert.deepEqual([1, 5, 25].map((dropped) => droppedInCell(dropped, CELL)), [
    ...[0.0888888888888889, 0.34919127550409323, 0.7957957957957957],
  ]);
  // A cell has now and then no package in the opened part at all.
  assert.deepEqual([0.5, 0.9].map((chance) => inCellFor(chance, CELL)), [9, null]);
});

test("so many capsules are not dropped blindly without being seen", () => {
  const sure = new Ratio(99, 100);
  assert.equal(blindlyFor(sure, { part: 100, batch: 2000n }), 90);
  assert.ok(0.95 ** 89 > 0.01 && 0.95 ** 90 <= 0.01);
  assert.equal(blindlyFor(sure, { part: 1, batch: 2_000_000n }), 9_210_339);
});
