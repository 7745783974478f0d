/**
 * How surely a relay that does not hand on what it should is seen: chances, for one round.
 *
 * After a round one of the S parts of each relay's cover is opened, drawn by nobody. A relay that falsifies its own cover
 * is seen with 1/S at least. Who drops m of n₁ capsules blindly hits none of the D/S in the opened part with at most
 * (1 - t)^m, t = D / (S n₁). Who drops m packages of one cell by content hits the opened part's with a chance that
 * varies with the number of them: of s cover packages j all lie in other parts with
 *
 *     f(j) = Π_i<j ((S-1) a + i) / (S a + i),      a the shape of one part,
 *
 * and of m packages out of s and so many people's j are cover by a hypergeometric law. An entry relay that drops k of a
 * device's B capsules drops its canary with k / B, and that device sees it.
 */

import { ceilRatio } from "../../learning/arithmetic.ts";
import type { Noise } from "../../learning/coverLaw.ts";
import { Ratio } from "../../learning/ratio.ts";
import { least } from "../accounting/coverLoss.ts";
import { keepPatience } from "../accounting/patience.ts";
import { dot, exp, log, log1p, total } from "../accounting/reals.ts";

/** So many capsules are reckoned with as fractions. */
const EXACT = 4096;

/** What the mixing relay is handed of one cell: people's packages, and the entry relay's cover. */
export interface CellCount {
  readonly people: number;
  readonly cover: number;
}

/** A cell with so many people's packages, and the mean of one relay's S parts. */
export function typicalCell(noise: Noise, parts: number, people: number): CellCount {
  const cover = noise.mean.times(new Ratio(parts, parts - 1)).round();
  return { people: Math.ceil(people), cover: Number(cover) };
}

/**
 * The fewest capsules that are not dropped blindly without being seen with this chance.
 *
 * Exactly so up to `EXACT`; beyond, at most a billionth of them too many.
 */
export function blindlyFor(chance: Ratio, { part, batch }: { part: number; batch: bigint }): number {
  const share = new Ratio(part, batch);
  const needed = log1p(-chance.toNumber()) / log1p(-share.toNumber());
  if (needed > EXACT) return Math.ceil(needed * (1 + 1e-9));
  const left = new Ratio(1).minus(share);
  const unseen = new Ratio(1).minus(chance);
  let number = Math.max(0, Math.floor(needed) - 1);
  // left ** number > unseen
  while (left.p ** BigInt(number) * unseen.q > unseen.p * left.q ** BigInt(number)) number += 1;
  return number;
}

/** The law of packages in a cell, with what one part adds to its shape. */
interface CoveredCell extends CellCount {
  readonly shape: Ratio;
  readonly parts: number;
}

/** The chance that of so many packages of one cell, or all of them, one is of the opened part. */
export function droppedInCell(asked: number, { people, cover, shape, parts }: CoveredCell): number {
  keepPatience();
  const dropped = Math.min(asked, people + cover);
  const [fewest, most] = [Math.max(0, dropped - people), Math.min(dropped, cover)];
  // Chances of so many cover packages among the dropped, but for a common factor of their law.
  const weights = new Float64Array(most - fewest + 1);
  for (let [j, sum] = [fewest, 0]; j < most; j++) {
    sum += log(cover - j) - log(j + 1) + log(dropped - j) - log(people - dropped + j + 1);
    weights[j - fewest + 1] = sum;
  }
  const top = weights.reduce((a, b) => Math.max(a, b));
  const a = shape.toNumber();
  const missed = new Float64Array(weights.length);
  for (let [i, sum] = [0, 0]; i <= most; i++) {
    if (i >= fewest) missed[i - fewest] = exp(sum);
    sum += log1p(-a / (parts * a + i));
  }
  const chances = weights.map((weight) => exp(weight - top));
  return Math.min(1, Math.max(0, 1 - dot(chances, missed) / total(chances)));
}

/** The fewest packages of one cell that are dropped and seen with this chance; null: not even all of them. */
export function inCellFor(chance: number, cell: CoveredCell): number | null {
  const packages = cell.people + cell.cover;
  if (droppedInCell(packages, cell) < chance) return null;
  return least((dropped) => droppedInCell(dropped, cell) >= chance, packages);
}

/** ⌈people · share⌉ and their like, of numbers whose product may be large. */
export function ceilOver(count: number, share: Ratio): bigint {
  return ceilRatio(BigInt(count) * share.q, share.p);
}
