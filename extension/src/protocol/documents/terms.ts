/**
 * What an experiment document says of learning, of its two relays and of their cover (docs/protocol.md §11, §26).
 *
 * `learning` has labels, loss, rule, thinning, budget and robustness. `privacy` is of kind `relays`: what was asked for
 * (ε, δ), into how many parts a relay's cover is cut, how many packages it has, and the noise of each kind of cells.
 * `windows` tells how long each step after a window may take. `relays` are two, the entry relay first.
 *
 * That ε and δ follow from the rest is *not* checked here: whoever wants to know computes it.
 */

import { BadInputError, LocalProtocolError, MalformedMessageError } from "../../errors.ts";
import { ruleByName } from "../../learning/aggregate/descent/rules.ts";
import { COHORTS, MAX_PACKAGES, MAX_PARTS, MIN_PARTS, Noise, RelayCover } from "../../learning/coverLaw.ts";
import { MAX_BINS, MAX_BUDGET, type Setting } from "../../learning/declared.ts";
import { Experiment, parameters, Robust } from "../../learning/experiment.ts";
import { MAX_MODELS } from "../../learning/labelModels.ts";
import { Loss } from "../../learning/losses.ts";
import { Ratio } from "../../learning/ratio.ts";
import { Thinning } from "../../learning/thinning.ts";
import { PrivacyTarget } from "../../privacy/target.ts";
import { asRatio, Fields, ratioText, type Content, type Json } from "../canonical.ts";
import { record, whole, type ValueOf } from "../records.ts";

/** The fields of what is learnt. */
export function writeLearning(experiment: Experiment, bins: number): Content {
  if (experiment.budget === null) throw new LocalProtocolError("an experiment over devices needs a budget");
  if (experiment.nBins !== bins) {
    throw new LocalProtocolError("the experiment and its binning have different numbers of bins");
  }
  const { loss, rule, robust, thinning } = experiment;
  return {
    budget: experiment.budget,
    class_weights: experiment.classWeights.map(ratioText),
    features_per_participant: experiment.featuresPerPerson,
    labels: experiment.labels,
    loss: { name: loss.name, parameter: loss.parameter === null ? null : ratioText(loss.parameter) },
    multiclass: experiment.multiclass,
    robust: robust === null ? null : robust.content(),
    rule: { constants: parameters(rule), name: rule.name },
    target: { centre: ratioText(experiment.targetCentre), spread: ratioText(experiment.targetSpread) },
    thinning: thinning.content(),
  };
}

/** The learning core's experiment, still without cover; anything that it refuses is refused here. */
export function readLearning(fields: Fields, bins: number): Experiment {
  const [loss, rule, target] = [fields.inner("loss"), fields.inner("rule"), fields.inner("target")];
  const constants = rule.inner("constants").restAsText({ longest: 200 });
  const everyPerson = fields.isNull("features_per_participant");
  const experiment = asMalformed(() => new Experiment({
    nBins: bins,
    labels: fields.items("labels", { shortest: 1, longest: MAX_MODELS }).map(labelOf),
    rule: ruleByName(rule.text("name", { longest: 64 }), constants),
    loss: new Loss(loss.text("name", { longest: 64 }), loss.isNull("parameter") ? null : loss.ratio("parameter")),
    thinning: Thinning.read(told(fields.inner("thinning"), Thinning)),
    classWeights: fields.items("class_weights", { longest: MAX_MODELS }).map(weightOf),
    multiclass: fields.text("multiclass", { longest: 3 }),
    featuresPerPerson: everyPerson ? null : fields.integer("features_per_participant", 1, MAX_BINS),
    budget: fields.integer("budget", 2, MAX_BUDGET),
    targetCentre: target.ratio("centre"),
    targetSpread: target.ratio("spread"),
    robust: fields.isNull("robust") ? null : Robust.read(told(fields.inner("robust"), Robust)),
  }));
  for (const part of [fields, loss, rule, target]) part.done();
  return experiment;
}

function labelOf(name: Json, i: number): string {
  return new Fields({ name }, `label ${i + 1} of the experiment`).text("name", { shortest: 1, longest: 200 });
}

function weightOf(item: Json): Ratio {
  const weight = asRatio(item);
  if (weight === null) throw new MalformedMessageError("a constant of the experiment is no number");
  return weight;
}

/** What the learning core refuses is no document. */
function asMalformed<T>(make: () => T): T {
  try {
    return make();
  } catch (fault) {
    if (!(fault instanceof BadInputError)) throw fault;
    throw new MalformedMessageError(fault.message);
  }
}

type Told = Record<string, Ratio | number | null>;

/** A part of the experiment, all its settings told. */
function told(fields: Fields, kind: { readonly settings: ReadonlyMap<string, Setting<unknown>> }): Told {
  const values: Told = {};
  for (const [name, setting] of kind.settings) {
    if (setting.optional && fields.isNull(name)) values[name] = null;
    else values[name] = setting.isWhole ? fields.integer(name, 0) : fields.ratio(name);
  }
  fields.done();
  return values;
}

/** What a relay does in a round (docs/protocol.md §25). */
export type RelayRole = (typeof ROLES)[number];
/** In the order in which a document names them. */
export const ROLES = ["entry", "mix"] as const;

/** Seconds that a step may take: who waits longer than a week has another problem. */
const STEP = whole(1, 7 * 86_400);

/** How long each step of a round takes at most, one after the other, from the end of its grace on. */
export const RELAY_TIMES = record({
  /** Until the entry relay hands on. */
  batchS: STEP,
  /** Until the mixing relay hands on. */
  mixS: STEP,
  /** Until both relays have opened a part. */
  revealS: STEP,
  /** Until the opening is in the log. */
  openS: STEP,
});
export type RelayTimes = ValueOf<typeof RELAY_TIMES>;

/** The field `privacy` of a document. */
export function writeRelayCover(target: PrivacyTarget, cover: RelayCover): Content {
  return {
    delta: ratioText(target.delta),
    epsilon: ratioText(target.epsilon),
    kind: "relays",
    packages: cover.packages,
    participation: writeNoise(cover.participation),
    parts: cover.parts,
    test: cover.test === null ? null : writeNoise(cover.test),
    train: writeNoise(cover.train),
  };
}

/** What the field says, and the experiment with its cover. */
export function readRelayCover(
  fields: Fields,
  experiment: Experiment,
  trainShare: Ratio,
): readonly [PrivacyTarget, Experiment] {
  fields.constant("kind", "relays");
  const labels = experiment.labels.length;
  const untested = fields.isNull("test");
  const covered = asMalformed(() => {
    const cover = new RelayCover({
      train: readNoise(fields.inner("train"), 2 * experiment.models.nModels * (experiment.nBins + 1)),
      participation: readNoise(fields.inner("participation"), COHORTS * labels),
      test: untested ? null : readNoise(fields.inner("test"), labels ** 2),
      parts: fields.integer("parts", MIN_PARTS, MAX_PARTS),
      packages: fields.integer("packages", 1, MAX_PACKAGES - 1),
      trainShare,
    });
    const whole = new Experiment({ ...experiment, cover });
    return [new PrivacyTarget({ epsilon: fields.ratio("epsilon"), delta: fields.ratio("delta") }), whole] as const;
  });
  fields.done();
  return covered;
}

function writeNoise(noise: Noise): Content {
  return { odds: ratioText(noise.odds), shape: ratioText(noise.shape) };
}

function readNoise(fields: Fields, cells: number): Noise {
  const noise = new Noise({ cells, shape: fields.ratio("shape"), odds: fields.ratio("odds") });
  fields.done();
  return noise;
}
