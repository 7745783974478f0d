import assert from "node:assert/strict";
import { test } from "node:test";

import { BadExperimentError, type BadInputError } from "../../../src/errors.ts";
import { Thinning } from "../../../src/learning/thinning.ts";
import { Contribution, Mechanism } from "../../../src/privacy/accounting/accountant.ts";
import { until, withPatience } from "../../../src/privacy/accounting/patience.ts";

/** Python's example, with participation. */
function mechanism({ rounds = 10, thinning = new Thinning(), overflow = 0, shape = 15 } = {}): Mechanism {
  const contribution = new Contribution({ rounds, models: 1, cells: 20, thinning });
  const cover = { shape, p: 0.99 };
  const departures = { overflow, sampler: 0 };
  return new Mechanism({ contribution, train: cover, participation: cover, test: null, departures });
}

test("guarantees are the doubles that Python computes", () => {
  assert.equal(mechanism().epsilon(1e-6, "zero-out"), 0.159454345703125);
  assert.equal(mechanism().epsilon(1e-6, "label flip"), 0.2191619873046875);
  const deltas = [0.016114576441909636, 5.366412669268111e-8, 4.275829156306439e-8];
  assert.deepEqual(mechanism().deltas([0, 0.5, 2.4], "zero-out"), deltas);
});

test("more rounds tell more, and less is told by whoever sends less", () => {
  const whole = mechanism().epsilon(1e-6, "zero-out");
  assert.ok(mechanism().after(3).epsilon(1e-6, "zero-out") < whole);
  assert.ok(mechanism({ thinning: new Thinning({ q: "1/2" }) }).epsilon(1e-6, "zero-out") < whole);
  assert.ok(mechanism({ thinning: new Thinning({ rho: 2 }) }).epsilon(1e-6, "zero-out") < whole);
});

test("no noise worth the name, and noise that is often not there, are no guarantee", () => {
  assert.equal(mechanism({ shape: 0.5 }).epsilon(1e-6, "zero-out"), Infinity);
  assert.equal(mechanism({ overflow: 1e-3 }).epsilon(1e-6, "zero-out"), Infinity);
});

test("every person is looked at whose units are thinned by their number", () => {
  const looks = [...mechanism({ thinning: new Thinning({ rho: "5/2" }) }).contribution.looks()];
  assert.deepEqual(looks.map(([, n]) => n), Array.from({ length: 15 }, (_, i) => 10 * (i + 6)));
  assert.ok(looks.every(([q], i) => q === 1 || (q >= 2.5 / Math.sqrt(i + 6) && q < 2.501 / Math.sqrt(i + 6))));
  assert.deepEqual([...mechanism().contribution.looks()], [[1, 200]]);
  assert.throws(() => mechanism({ rounds: 0 }), BadExperimentError);
});

test("a person who waits no longer is told so, and nobody else is", () => {
  let time = 0;
  const patience = until(() => (time += 100), 0.2);
  assert.throws(
    () => withPatience(patience, () => mechanism({ rounds: 7 }).epsilon(1e-6, "zero-out")),
    (fault: BadInputError) => fault.name === "BadInputError" && /longer to calculate/.test(fault.message),
  );
  assert.ok(mechanism({ rounds: 7 }).epsilon(1e-6, "zero-out") > 0);
});
