/**
 * Risk: one number for what a whole experiment tells of a person's answer, one rounding, and the words for it.
 *
 * **The number** is the largest AUC of anybody who asks which of two answers a person gave: whatever they know of the
 * person and of all others, whatever weights were sent, over all rounds. An experiment without a guarantee has 1:
 * whoever chooses the weights can tell every answer. **The words** are true because no bet is better than the AUC.
 */

import type { Experiment } from "../learning/experiment.ts";
import { Ratio } from "../learning/ratio.ts";
import { aucAtMost, type Guarantee } from "./accounting/guarantee.ts";
import { sumOnce } from "./accounting/reals.ts";
import { say, type Sentence } from "./sentences.ts";

/** The risk where nothing bounds it. */
export const CERTAIN = 1;
/** The risk of whoever has told nothing: a coin toss. */
const COIN = 0.5;

/** From 0.5, a coin toss, to 1; null: there is no guarantee. */
export function riskOf(guarantee: Guarantee | null): number {
  return guarantee === null ? CERTAIN : guarantee.auc;
}

/**
 * Of several experiments, each with its risk and its total variation: a bound on the risk of all of them.
 *
 * Total variations add up, also where somebody writes the next experiment after a look at the last one's tallies.
 */
export function together(experiments: readonly { readonly risk: number; readonly variation: number }[]): number {
  if (experiments.length < 2) return experiments[0]?.risk ?? COIN;
  return aucAtMost([[0, Math.min(1, sumOnce(experiments.map(({ variation }) => variation)))]]);
}

/** How often in ten bets, with one digit. */
export function timesInTen(risk: number): number {
  return roundedUp(Ratio.ofNumber(risk).times(new Ratio(10)), 10);
}

/** What the risk is, for the person who is to decide. */
export function inWords(risk: number, { loss, labels }: Experiment): Sentence {
  const times = timesInTen(risk);
  if (times >= 10) return say("risk.unbounded");
  return say(loss.regression ? "risk.number" : labels.length === 2 ? "risk.two" : "risk.several", { times });
}

/** A number in so many parts of one, never below the truth: the rounding of every figure of risk, ε or AUC. */
export function up(number: number, parts: number): number {
  return Number.isFinite(number) ? roundedUp(Ratio.ofNumber(number), parts) : number;
}

function roundedUp(number: Ratio, parts: number): number {
  return new Ratio(number.times(new Ratio(parts)).ceil(), parts).toNumber();
}
