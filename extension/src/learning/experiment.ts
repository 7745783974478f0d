/**
 * Experiment: the question asked, and everything that decides how it is answered.
 *
 * One value, public, the same for everyone. All that learns takes its rule, loss, thinning and normalisers from here.
 */

import { BadExperimentError } from "../errors.ts";
import { checkRelayBudget, COHORTS, type RelayCover } from "./coverLaw.ts";
import { declared, number, whole, type GivenOf, type PartContent } from "./declared.ts";
import { LabelModels } from "./labelModels.ts";
import { Loss } from "./losses.ts";
import { Ratio } from "./ratio.ts";
import { Thinning } from "./thinning.ts";

/** A delay of more than four rounds is no learning any more. */
export const MAX_TRIM = 9;

/**
 * The name, constants and habits of a descent rule, as an experiment publishes them.
 *
 * How it goes from counts to weights is the other side's (`aggregate/descent/rule.ts`).
 */
export interface PublishedRule {
  readonly name: string;
  /** Whether rows count as x / ‖x‖. */
  readonly normalised: boolean;
  content(): PartContent;
}

/** The rule's constants as text, as an experiment publishes them. */
export function parameters(rule: PublishedRule): Record<string, string> {
  const told = Object.entries(rule.content()).filter(([, value]) => value !== null);
  return Object.fromEntries(told.map(([name, value]) => [name, String(value)]));
}

const ROBUST = { clip: number(null, { atLeast: "1/1000", atMost: 1000 }), trim: whole(1, { atLeast: 1, atMost: MAX_TRIM }) };

/** What an experiment does against devices that lie (`aggregate/robust.ts` says how). */
export class Robust extends declared(ROBUST) {
  constructor(given: GivenOf<typeof ROBUST> = {}) {
    super(given);
    if (this.trim % 2 === 0) {
      throw new BadExperimentError(
        `rounds are trimmed by an odd number, at most ${MAX_TRIM}; 1 takes each by itself`,
      );
    }
    if (this.clip === null && this.trim === 1) {
      throw new BadExperimentError("a robust experiment clips bins, or trims rounds, or both");
    }
  }

  /** The vectors that a state has besides the rule's: directions of the rounds before, the newest first. */
  get names(): readonly string[] {
    return Array.from({ length: this.trim - 1 }, (_, i) => `recent_${i + 1}`);
  }
}

export interface ExperimentFields {
  /** Bins without the bias. */
  readonly nBins: number;
  /** The labels' names in the order of their indices; a single name when the label is a number. */
  readonly labels: readonly string[];
  readonly rule: PublishedRule;
  readonly loss?: Loss;
  readonly thinning?: Thinning;
  /** One weight per label; empty: all one. */
  readonly classWeights?: readonly Ratio[];
  /** "ovr" or "ovo". */
  readonly multiclass?: string;
  /** At most so many of a person's features take part, drawn once; null: all. */
  readonly featuresPerPerson?: number | null;
  /** Packages a participant sends in every round; null offline, where nothing is sent. */
  readonly budget?: number | null;
  /** A number as the label is centred and scaled before it is compared. */
  readonly targetCentre?: Ratio;
  readonly targetSpread?: Ratio;
  /** The cover that each of two relays adds, and with it a guarantee; null: plain. */
  readonly cover?: RelayCover | null;
  /** What is done against devices that lie; null: every count is taken as it is. */
  readonly robust?: Robust | null;
}

/** One question put to many devices: data alone, and what follows from it. */
export class Experiment implements Required<ExperimentFields> {
  readonly nBins: number;
  readonly labels: readonly string[];
  readonly rule: PublishedRule;
  readonly loss: Loss;
  readonly thinning: Thinning;
  readonly classWeights: readonly Ratio[];
  readonly multiclass: string;
  readonly featuresPerPerson: number | null;
  readonly budget: number | null;
  readonly targetCentre: Ratio;
  readonly targetSpread: Ratio;
  readonly cover: RelayCover | null;
  readonly robust: Robust | null;
  /** The binary models of this experiment. */
  readonly models: LabelModels;

  constructor(fields: ExperimentFields) {
    this.nBins = fields.nBins;
    this.labels = fields.labels;
    this.rule = fields.rule;
    this.loss = fields.loss ?? new Loss("hinge");
    this.thinning = fields.thinning ?? new Thinning();
    this.classWeights = fields.classWeights ?? [];
    this.multiclass = fields.multiclass ?? "ovr";
    this.featuresPerPerson = fields.featuresPerPerson ?? null;
    this.budget = fields.budget ?? null;
    this.targetCentre = fields.targetCentre ?? new Ratio(0);
    this.targetSpread = fields.targetSpread ?? new Ratio(1);
    this.cover = fields.cover ?? null;
    this.robust = fields.robust ?? null;
    this.models = this.#checkedQuestion();
    this.#checkSending();
    if (this.cover !== null) this.#checkCover(this.cover);
  }

  /** Refuse what is no question; its models where it is one. */
  #checkedQuestion(): LabelModels {
    const { labels, loss, classWeights } = this;
    refuseIf(this.nBins < 1, "an experiment needs at least one bin");
    refuseIf(
      loss.regression && labels.length !== 1,
      `the loss ${loss.name} has a number as the label: labels names that one, and not ${labels.length}`,
    );
    refuseIf(
      !loss.regression && labels.length < 2,
      `labels has ${labels.length} of them, and a classifier tells two apart at least; where the label is a number,` +
        " take a loss for numbers",
    );
    refuseIf(new Set(labels).size !== labels.length, "a label has the same name as another");
    const models = new LabelModels(labels.length, this.multiclass);
    refuseIf(
      classWeights.length > 0 && classWeights.length !== labels.length,
      "there must be as many class weights as labels",
    );
    refuseIf(
      classWeights.some(({ p }) => p < 0n) || (classWeights.length > 0 && classWeights.every(({ p }) => p === 0n)),
      "class weights must not be negative, and not all zero",
    );
    refuseIf(loss.regression && classWeights.length > 0, "class weights need classes, not numbers");
    refuseIf(this.targetSpread.p <= 0n, "the spread of the target must be above zero");
    return models;
  }

  #checkSending(): void {
    const { rule, thinning, budget, featuresPerPerson } = this;
    refuseIf(
      thinning.rho !== null && !rule.normalised,
      "thinning by rho belongs to normalised rows (swift); this rule takes q=Q or none",
    );
    refuseIf(
      thinning.q !== null && rule.normalised,
      "swift counts x/|x|: it is thinned by rho (or not at all), not by a constant q",
    );
    refuseIf(
      rule.normalised && !thinning.active,
      "rows are in fixed point exactly when normalised rows are not thinned",
    );
    refuseIf(
      featuresPerPerson !== null && featuresPerPerson < 1,
      "the number of features per person must be at least 1",
    );
    refuseIf(
      budget !== null && budget < 2,
      "the budget must be at least 2: one participation package and one other",
    );
  }

  #checkCover(cover: RelayCover): void {
    const labels = this.labels.length;
    const fits =
      cover.train.cells === 2 * this.models.nModels * (this.nBins + 1) &&
      cover.participation.cells === COHORTS * labels &&
      (cover.test === null) === this.loss.regression &&
      (cover.test === null || cover.test.cells === labels ** 2);
    refuseIf(!fits, "the cover is made for other bins, models or labels");
    if (this.featuresPerPerson === null) {
      throw new BadExperimentError("cover needs a bound on the features per person");
    }
    if (this.budget !== null) {
      checkRelayBudget(this.budget, { violable: this.models.mostPerPerson, features: this.featuresPerPerson });
    }
  }

  /**
   * Packages left for an update once participation is told; null: nothing is ever cut.
   *
   * With relays' cover the budget holds every unit.
   */
  get trainBudget(): number | null {
    return this.budget === null || this.cover !== null ? null : this.budget - 1;
  }
}

function refuseIf(wrong: boolean, message: string): void {
  if (wrong) throw new BadExperimentError(message);
}
