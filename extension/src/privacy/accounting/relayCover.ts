/**
 * Cover that two relays add: what the accountant has to know, where one of the two is honest.
 *
 * The honest relay adds S parts, of which one is opened: S - 1 stay, and in each cell these are NB(shape, odds) of the
 * document. Nothing else hides anybody. Two departures remain in a round: a part of the honest relay overflows and is
 * drawn again, and the sampler errs, for each part and kind.
 */

import { BadExperimentError } from "../../errors.ts";
import type { Noise, RelayCover } from "../../learning/coverLaw.ts";
import type { Experiment } from "../../learning/experiment.ts";
import { Ratio } from "../../learning/ratio.ts";
import { Contribution, Mechanism, SAMPLER_ERROR, type CellCover } from "./accountant.ts";
import { logMass, sumRoundedUp } from "./coverLoss.ts";
import { exp, expm1, log, log1p, sumOnce } from "./reals.ts";

/** Halvings of the interval in which the best tilt lies: any tilt gives a bound. */
const HALVINGS = 80;

/** The accountant's mechanism with the cover of one honest relay. */
export function relayMechanism(contribution: Contribution, cover: RelayCover): Mechanism {
  const { kinds, parts } = cover;
  return new Mechanism({
    contribution,
    train: countedOn(cover.train),
    participation: countedOn(cover.participation),
    test: cover.test === null ? null : countedOn(cover.test),
    departures: {
      overflow: parts * exp(logOverflow(kinds, parts, cover.partPackages)),
      sampler: parts * kinds.length * SAMPLER_ERROR,
    },
  });
}

/** The most that one person tells in so many rounds: H · F cells and the bias of each model they can violate. */
export function contributionOf(
  experiment: Experiment,
  { rounds, hashes }: { rounds: number; hashes: number },
): Contribution {
  const { featuresPerPerson: features, models, nBins, thinning } = experiment;
  if (features === null) {
    throw new BadExperimentError(
      "a guarantee needs a limit on features per person: set features.per_participant",
    );
  }
  return new Contribution({ rounds, models: models.mostPerPerson, cells: Math.min(hashes * features, nBins) + 1, thinning });
}

/** One kind of a part's packages: the negative binomial of all its cells together. */
type Law = readonly [shape: number, p: number];

/**
 * An upper bound on ln P(one part's packages Z > room): Chernoff's, times a geometric series of the largest chance that
 * one value has under the tilted law.
 */
export function logOverflow(kinds: readonly Noise[], parts: number, room: number): number {
  const laws = kinds.map((noise): Law => {
    return [new Ratio(noise.cells).times(noise.part(parts)).toNumber(), noise.p.toNumber()];
  });
  const tilt = tiltOf(laws, room + 1);
  if (tilt <= 0) return 0;
  const terms = laws.map(([shape, p]) => shape * (log1p(-p) - log(-expm1(log(p) + tilt))));
  const chernoff = sumRoundedUp([...terms, -tilt * (room + 1)]);
  const largest = Math.min(...laws.map(([shape, p]) => logMode(shape, p * exp(tilt))));
  return Math.min(0, chernoff + Math.min(0, largest - log(-expm1(-tilt))));
}

/** About the tilt under which the sum has this mean; 0 where it has more without. */
function tiltOf(laws: readonly Law[], mean: number): number {
  let [low, high] = [0, Math.min(...laws.map(([, p]) => -log(p)))];
  for (let i = 0; i < HALVINGS; i++) {
    const tilt = (low + high) / 2;
    const left = laws.map(([, p]) => -expm1(log(p) + tilt));
    const isSmall =
      Math.min(...left) > 0 && sumOnce(laws.map(([shape], j) => (shape * (1 - left[j]!)) / left[j]!)) < mean;
    [low, high] = isSmall ? [tilt, high] : [low, tilt];
  }
  return low;
}

/** The logarithm of the largest mass of NB(shape, p), rounded up; 0 where p is as good as 1. */
function logMode(shape: number, p: number): number {
  return p < 1 ? logMass(shape, p, Math.floor(Math.max(0, ((shape - 1) * p) / (1 - p)))) : 0;
}

function countedOn(noise: Noise): CellCover {
  return { shape: noise.shape.toNumber(), p: noise.p.toNumber() };
}
