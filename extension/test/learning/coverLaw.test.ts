import assert from "node:assert/strict";
import { test } from "node:test";

import { BadExperimentError } from "../../src/errors.ts";
import { checkRelayBudget, Noise, RelayCover } from "../../src/learning/coverLaw.ts";
import { Ratio } from "../../src/learning/ratio.ts";
import { vectors } from "../vectors.ts";

const noise = (cells: number, shape: string, odds: string): Noise =>
  new Noise({ cells, shape: Ratio.of(shape), odds: Ratio.of(odds) });

test("what is taken off, and what is not explained, is that of the vectors", () => {
  for (const { shape, odds, taken, quantile } of vectors("cover").laws) {
    const law = noise(1, shape, odds);
    assert.equal(law.knownMean, BigInt(taken));
    assert.equal(law.quantile, quantile, `${shape} ${odds}`);
  }
});

test("a law that nobody can pay or draw is refused", () => {
  const train = noise(22, "15", "21/2");
  const made = { train, participation: noise(4, "15", "1/4"), test: null, parts: 4, packages: 8000 };
  assert.deepEqual(new RelayCover(made).mostInACell(20), [20 + 2 * 652, 20 + 2 * 31]);
  const refused: [() => unknown, RegExp][] = [
    [() => noise(0, "1", "1"), /noise for 0 cells: there must be at least 1/],
    [() => noise(1, "65537", "1"), /a shape of 65537 lies outside of 0 … 65536/],
    [() => noise(1, "1", "0"), /odds of 0 lie outside of 0 … 16384/],
    [() => noise(1, "65536", "17"), /would add 1114112 packages to a cell on average, and 1048576 are the limit/],
    [() => noise(1, `${10n ** 40n}`, "1"), /a shape of about 1e\+40 lies/],
    [() => new RelayCover({ ...made, parts: 3 }), /3 parts of a relay's cover: there are 4 to 64/],
    [() => new RelayCover({ ...made, packages: 8001 }), /8001 cover packages of a relay are no positive multiple of/],
    [() => new RelayCover({ ...made, trainShare: new Ratio(0) }), /must lie above 0 and at most at 1/],
    [() => new RelayCover({ ...made, packages: 400 }), /a part holds 100 packages, and its cells alone ask for 1160 on/],
    [() => checkRelayBudget(7, { violable: 1, features: 5 }), /it is 8 with one hash, and 5 more with each further one/],
  ];
  for (const [make, fault] of refused) {
    assert.throws(make, (error: Error) => error instanceof BadExperimentError && fault.test(error.message), `${fault}`);
  }
  checkRelayBudget(13, { violable: 1, features: 5 });
});
