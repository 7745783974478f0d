/**
 * What cover is worth: δ(ε) of everything that one person tells over an experiment, never too little.
 *
 * Compared are two worlds that differ in one person: **zero-out**, where the device sends as many packages and none of
 * its own, and **label flip**, the same features with the other label. In each round a person of the train cohort
 * touches at most n train cells of each model, one unit each, and one participation cell; one of the test cohort a test
 * cell and a participation cell. Each touched cell is a *look* (`coverLoss.ts`), whatever the weights and whatever was
 * published before. Which n is worst is not proved but looked up, over all of them.
 *
 * Whoever adds the cover says which negative binomial is added to a cell, and with which chances reality departs from
 * that in a round; these come to δ times (1 + e^ε).
 */

import { BadExperimentError } from "../../errors.ts";
import { Ratio } from "../../learning/ratio.ts";
import type { Thinning } from "../../learning/thinning.ts";
import { cellLosses, spreadOfLoss } from "./coverLoss.ts";
import { keepPatience } from "./patience.ts";
import { Looks, smallestEpsilon, type Part, type PrivacyLoss } from "./pld.ts";
import { exp } from "./reals.ts";
import { remembered } from "./remembered.ts";

/** The sampler's distance from its law, for each draw of one kind of cells. */
export const SAMPLER_ERROR = 2 ** -60;
/** A grid's step, in standard deviations of the smallest look. */
const STEP = 1 / 16;
/** Neighbouring n are looked at together while they differ by less than this share: the larger n with the larger q. */
const TOGETHER = 0.01;
/** More than what a few roundings take from a chance. */
const ROUNDED_UP = 1 + 1e-12;
const KEPT_LOSSES = 512;

/** Which two worlds are compared. */
export type Adjacency = "zero-out" | "label flip";
export const ADJACENCIES: readonly Adjacency[] = ["zero-out", "label flip"];

/** The cover of one kind of cells that is counted on: NB(shape, p) in each of them, in every round. */
export interface CellCover {
  readonly shape: number;
  readonly p: number;
}

/** So many looks at cells with this cover, each with a unit that is sent with chance q. */
interface Sight extends CellCover {
  readonly q: number;
  readonly looks: number;
}

/** Chances that one round is not as the accountant has it: cover was more than there is room for; the sampler erred. */
interface Departures {
  readonly overflow: number;
  readonly sampler: number;
}

interface Told {
  /** Rounds that are opened, the abandoned ones too. */
  readonly rounds: number;
  /** Models that a person can violate in a round. */
  readonly models: number;
  /** Train cells of one model that a person touches in a round: hashes x (features + 1), one unit each. */
  readonly cells: number;
  readonly thinning: Thinning;
}

/** The fields stand on it. */
export interface Contribution extends Told {}

/** The most that one person tells over an experiment. */
export class Contribution {
  constructor(told: Told) {
    Object.assign(this, told);
    if (Math.min(this.rounds, this.models, this.cells) < 1) {
      throw new BadExperimentError("a contribution has a round, a model and a cell at least");
    }
  }

  /** The chance that a unit is sent and how many looks at train cells, of every person there may be. */
  *looks(): Generator<readonly [q: number, looks: number]> {
    const { rho, q } = this.thinning;
    const each = this.rounds * this.models;
    if (rho === null) {
      yield [q === null ? 1 : q.toNumber(), each * this.cells];
      return;
    }
    const [most, bound] = [rho.toNumber(), rho.times(rho).floor()];
    // Below ρ² nothing is thinned: fewer cells with the same q tell less.
    let low = Math.max(1, bound < this.cells ? Number(bound) : this.cells);
    while (low <= this.cells) {
      const high = Math.min(this.cells, Math.floor(low * (1 + TOGETHER)));
      yield [Math.min(1, (most / Math.sqrt(low)) * ROUNDED_UP), each * high];
      low = high + 1;
    }
  }

  /** The largest mean number of units that a person sends in a round. */
  get meanUnits(): number {
    const { rho, q } = this.thinning;
    if (rho !== null) return this.models * Math.min(this.cells, rho.toNumber() * Math.sqrt(this.cells));
    const units = new Ratio(BigInt(this.models) * BigInt(this.cells));
    return (q === null ? units : units.times(q)).toNumber();
  }
}

interface Counted {
  readonly contribution: Contribution;
  readonly train: CellCover;
  readonly participation: CellCover;
  /** Null where nobody is tested. */
  readonly test: CellCover | null;
  readonly departures: Departures;
}

/** The fields stand on it. */
export interface Mechanism extends Counted {}

/** All cover of an experiment that is counted on, with what a person tells: what an accountant needs to know. */
export class Mechanism {
  constructor(counted: Counted) {
    Object.assign(this, counted);
  }

  /** Two mechanisms with the same text are the same. */
  get key(): string {
    const { contribution, train, participation, test, departures } = this;
    const { rounds, models, cells, thinning } = contribution;
    return JSON.stringify([rounds, models, cells, thinning.content(), train, participation, test, departures]);
  }

  /** The same for a person who has taken part in so many rounds. */
  after(rounds: number): Mechanism {
    return new Mechanism({ ...this, contribution: new Contribution({ ...this.contribution, rounds }) });
  }

  /** ε at δ; +∞: no guarantee. */
  epsilon(delta: number, adjacency: Adjacency): number {
    let worst = 0;
    for (const person of this.#persons) {
      const whole = (epsilon: number): number =>
        deltasOf(person, [epsilon], adjacency)[0]! + (1 + exp(epsilon)) * this.#departs;
      worst = smallestEpsilon(whole, delta, worst);
      if (worst === Infinity) break;
    }
    return worst;
  }

  /** δ at each ε, of whoever is worst off there. */
  deltas(epsilons: readonly number[], adjacency: Adjacency): number[] {
    const each = this.#persons.map((person) => deltasOf(person, epsilons, adjacency));
    return epsilons.map((epsilon, i) => {
      const worst = Math.max(...each.map((deltas) => deltas[i]!));
      return Math.min(1, worst + (1 + exp(epsilon)) * this.#departs);
    });
  }

  /** What each person who may be there shows. */
  get #persons(): readonly (readonly Sight[])[] {
    const { contribution, train, participation, test } = this;
    const { rounds } = contribution;
    const here = { ...participation, q: 1, looks: rounds };
    const persons = [...contribution.looks()].map(([q, looks]) => [{ ...train, q, looks }, here]);
    return test === null ? persons : [...persons, [{ ...test, q: 1, looks: rounds }, here]];
  }

  /** The chance that reality departs from the model in some round. */
  get #departs(): number {
    const { overflow, sampler } = this.departures;
    return this.contribution.rounds * (overflow + sampler);
  }
}

/** δ at several ε of one person's sights, noise alone. */
function deltasOf(person: readonly Sight[], epsilons: readonly number[], adjacency: Adjacency): number[] {
  keepPatience();
  const step = STEP * Math.min(...person.map(({ shape, p, q }) => spread(shape, p, q)));
  const pairs = person.map(({ shape, p, q, looks }) => [losses(shape, p, q, step), looks] as const);
  const taken = pairs.map(([[loss], looks]): Part => [loss, looks]);
  const given = pairs.map(([[, loss], looks]): Part => [loss, looks]);
  if (adjacency === "label flip") return new Looks([...taken, ...given]).deltas(epsilons);
  const others = new Looks(given).deltas(epsilons);
  return new Looks(taken).deltas(epsilons).map((delta, i) => Math.max(delta, others[i]!));
}

const spread = remembered(KEPT_LOSSES, (...law: readonly [number, number, number]) => law.join(), spreadOfLoss);
const losses: (shape: number, p: number, q: number, step: number) => readonly [PrivacyLoss, PrivacyLoss] = remembered(
  KEPT_LOSSES,
  (...law: readonly [number, number, number, number]) => law.join(),
  cellLosses,
);
