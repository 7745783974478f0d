import assert from "node:assert/strict";
import { test } from "node:test";

import { opensInHours, Polling, spreadMs } from "../../src/device/polling.ts";
import type { Windows } from "../../src/protocol/documents/experimentParts.ts";
import { systemWords } from "../../src/device/dice.ts";
import { unsafeSeeded } from "../crypto/dice.ts";
import { relayedDocument } from "../rigs/knownRound.ts";

function windows(changes: Partial<Windows>): Windows {
  return { ...relayedDocument().windows, ...changes };
}

test("askings have fresh times: within the spread at first, then within bounds that double", () => {
  const asked = windows({ lengthS: 6400, graceS: 100 });
  const polling = new Polling(asked, systemWords(unsafeSeeded("asking")));
  const firsts = Array.from({ length: 200 }, () => polling.first(1000) - 1000);
  assert.ok(firsts.every((wait) => 0 <= wait && wait < 100_000));
  assert.ok(new Set(firsts).size > 190);
  for (const bound of [100_000, 200_000, 400_000, 800_000, 1_600_000, 1_600_000]) {
    const wait = polling.again(0);
    assert.ok(bound / 2 <= wait && wait < 1.5 * bound, `${wait} of ${bound}`);
  }
});

test("where nobody answers it asks again sooner, and never rarer than the spread", () => {
  const polling = new Polling(windows({ lengthS: 6400, graceS: 16 }), systemWords(unsafeSeeded("nobody")));
  for (const [i, bound] of [1000, 2000, 4000, 8000, 16_000, 16_000].entries()) {
    assert.equal(polling.unanswered, i);
    const wait = polling.failed(0);
    assert.ok(0 <= wait && wait < bound, `${wait} of ${bound}`);
  }
  polling.again(0);
  assert.equal(polling.unanswered, 0);
});

test("an experiment that takes nothing late has a spread all the same", () => {
  assert.equal(spreadMs(windows({ graceS: 0 })), 1000);
});

test("a window opens within its hours, by the clock of its zone", () => {
  const berlin = windows({ hours: [[6, 8], [20, 24]], timeZone: "Europe/Berlin" });
  const at = (text: string): number => Date.parse(text);
  assert.ok(opensInHours(berlin, at("2026-07-01T04:00:00Z")));
  assert.ok(!opensInHours(berlin, at("2026-07-01T03:59:59Z")));
  assert.ok(!opensInHours(berlin, at("2026-07-01T06:00:00Z")));
  // In winter an hour later.
  assert.ok(!opensInHours(berlin, at("2026-01-01T04:59:59Z")));
  assert.ok(opensInHours(berlin, at("2026-01-01T22:59:59Z")));
  assert.ok(!opensInHours(windows({ hours: [[0, 23]], timeZone: "Europe/Nowhere" }), at("2026-07-01T04:00:00Z")));
  assert.ok(!opensInHours(berlin, 2 ** 53 - 1));
  assert.ok(opensInHours(windows({ hours: [[0, 24]], timeZone: "Europe/Nowhere" }), at("2026-07-01T04:00:00Z")));
});
