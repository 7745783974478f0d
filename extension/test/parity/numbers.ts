/** The one arithmetic: numbers read and written, roundings, thresholds, odds, targets. */

import { formatFixed, formatGeneral } from "../../src/formatting.ts";
import { divideFixed, exact, mantissas, shiftRightHalfEven, toFixed, type Mantissas } from "../../src/learning/arithmetic.ts";
import { fixedTarget } from "../../src/learning/individual/update.ts";
import { Loss } from "../../src/learning/losses.ts";
import { Thinning } from "../../src/learning/thinning.ts";
import type { Vector } from "../vectors.ts";
import { orErrorAtOnce } from "./answers.ts";

export function answerNumbers(asked: Vector): unknown {
  const integers = BigInt64Array.from(asked.integers as string[], BigInt);
  const [centre, spread] = [exact(asked.centre), exact(asked.spread)];
  return {
    texts: asked.texts.map((text: string) => orErrorAtOnce(() => String(exact(text)))),
    loss: orErrorAtOnce(() => toldLoss(asked.loss, asked.coins)),
    thinning: orErrorAtOnce(() => odds(asked.thinning, asked.norms)),
    targets: [false, true].map((clamp) =>
      orErrorAtOnce(() => String(fixedTarget(asked.target, { centre, spread, clamp }))),
    ),
    written: asked.doubles.map((x: number) => [formatGeneral(x), formatFixed(x, 2), formatFixed(x, 1, { grouped: true })]),
    fixed: orErrorAtOnce(() => texts(toFixed(integers, exact(asked.scale)))),
    divided: orErrorAtOnce(() => texts(divideFixed(integers, BigInt(asked.divisor), 8n))),
    shifted: texts(shiftRightHalfEven(integers, BigInt(asked.bits))),
    whole: toldMantissas(mantissas([integers])),
    broken: orErrorAtOnce(() => toldMantissas(mantissas([Float64Array.from(asked.doubles as number[])]))),
  };
}

function texts(numbers: BigInt64Array): string[] {
  return Array.from(numbers, String);
}

function toldMantissas({ mantissas: [row], exponent }: Mantissas): unknown {
  return [[...row!], exponent];
}

function toldLoss([name, parameter]: [string, string | null], coins: readonly string[]): unknown {
  const loss = new Loss(name, parameter === null ? null : exact(parameter));
  return {
    parameter: loss.parameter && String(loss.parameter),
    factors: loss.factors.map(String),
    flags: [loss.regression, loss.tossesCoins],
    thresholds: loss.regression ? null : coins.map((coin) => String(loss.threshold(BigInt(coin)))),
  };
}

function odds(told: { readonly [name: string]: string }, norms: readonly string[]): string[] {
  const given = Object.fromEntries(Object.entries(told).map(([name, text]) => [name, exact(text)]));
  const thinning = new Thinning(given);
  return norms.map((norm) => String(thinning.keep53(BigInt(norm))));
}
