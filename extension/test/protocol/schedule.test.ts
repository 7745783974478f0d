import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { LocalProtocolError } from "../../src/errors.ts";
import { below, makeWindow, redraw, shuffle, spread } from "../../src/protocol/schedule.ts";
import { vectors } from "../vectors.ts";

const dice = (...words: (string | number | bigint)[]) => words.map(BigInt).values();
const word = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });

test("times and orders are those of the vectors", () => {
  const { cases, shuffles } = vectors("schedule");
  for (const each of cases) {
    const window = makeWindow(each.opens_at, each.closes_at);
    assert.deepEqual(spread(5, window, dice(...each.words)), each.times);
    assert.deepEqual(redraw(each.times, window, dice(...each.redraw_words), { now: each.now }), each.redrawn);
  }
  for (const each of shuffles) {
    const items = Array.from({ length: each.count }, (_, i) => i);
    assert.deepEqual(shuffle(items, dice(...each.words)), each.order);
  }
});

test("a number is below its bound, and words of the incomplete run are thrown away", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }), word, (n, drawn) => {
      const number = below(n, dice(drawn, 0));
      assert.ok(number === 0 || (number < n && BigInt(number) === drawn % BigInt(n)));
    }),
  );
  assert.equal(below(3, dice(2n ** 64n - 1n, 5)), 2);
});

test("dice that are none, and bounds they cannot draw from, are refused", () => {
  for (const words of [dice(), dice(2n ** 64n), dice(-1)]) assert.throws(() => below(3, words), LocalProtocolError);
  for (const n of [0, -1, 2 ** 53, 1.5]) assert.throws(() => below(n, dice(1)), LocalProtocolError);
});

test("only what is overdue beyond the grace is drawn again, over what is left", () => {
  const window = makeWindow(1000, 2000);
  assert.deepEqual(redraw([1000, 1999], window, dice(), { now: 0 }), [1000, 1999]);
  assert.deepEqual(redraw([1400, 1500], window, dice(7), { now: 1500, grace: 50 }), [1507, 1500]);
  assert.throws(() => redraw([1500], window, dice(1), { now: 2000 }), /nothing is left of the window/);
  for (const [opens, closes] of [[5, 5], [6, 5], [-1, 5]] as const) {
    assert.throws(() => makeWindow(opens, closes), /a window opens before it closes/);
  }
});
