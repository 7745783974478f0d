/** What one device computes in one round: its model, its person, its packages, their order, time and seals. */

import { hex, textOf, unhex, utf8 } from "../../src/bytes.ts";
import { safeDice, systemWords, unsafeSeededDice } from "../../src/device/dice.ts";
import { SecVMError } from "../../src/errors.ts";
import { evaluationWeights, start, step, trainingWeights } from "../../src/learning/aggregate/index.ts";
import type { State } from "../../src/learning/aggregate/descent/rule.ts";
import { explains, type Tally } from "../../src/learning/aggregate/tally.ts";
import type { Experiment } from "../../src/learning/experiment.ts";
import { binFeatures, HashBinning, VocabularyBinning } from "../../src/learning/individual/binning.ts";
import { contribute } from "../../src/learning/individual/contribution.ts";
import { drawCohort, sampleFeatures } from "../../src/learning/individual/dice.ts";
import { fixedTarget, score } from "../../src/learning/individual/update.ts";
import { digestOf } from "../../src/protocol/canonical.ts";
import { encode } from "../../src/protocol/codec.ts";
import { ExperimentDocument } from "../../src/protocol/documents/experiment.ts";
import { MANIFEST, manifestFaults } from "../../src/protocol/relays/manifest.ts";
import { CANARY, drawOrder, recounts, sealSubmission, SECRETS_BYTES } from "../../src/protocol/relays/submission.ts";
import { redraw, spread } from "../../src/protocol/schedule.ts";
import { tallyOf } from "../learning/told.ts";
import type { Vector } from "../vectors.ts";
import { repeating } from "./answers.ts";

export async function answerRound(asked: Vector): Promise<unknown> {
  const document = ExperimentDocument.fromBytes(utf8(asked.document));
  const { experiment } = document;
  const [state, models] = stepped(experiment, asked.tallies.map(tallyOf));
  const system = repeating(unhex(asked.stream));
  const diceFor = asked.seed === null ? safeDice(system) : unsafeSeededDice(unhex(asked.seed), asked.participant);
  const dice = diceFor(document);
  const sample = sampleFeatures(new Map(asked.features), experiment.featuresPerPerson, dice);
  const vector = binFeatures(sample, binningOf(document, asked.words), {
    presence: document.features.presence,
    onePerBin: experiment.cover !== null,
  });
  const { regression } = experiment.loss;
  const scale = { centre: experiment.targetCentre, spread: experiment.targetSpread, clamp: experiment.cover !== null };
  const person = {
    vector,
    label: regression ? 0 : asked.label,
    target: regression ? fixedTarget(asked.label, scale) : 0n,
    cohort: drawCohort(document.trainShare, dice),
  };
  const [training, evaluation] = [trainingWeights(experiment, state), evaluationWeights(experiment, state)];
  const round = asked.tallies.length + 1;
  const packages = contribute(person, { experiment, training, evaluation, dice, round });
  const scores = Array.from({ length: experiment.models.nModels }, (_, model) => score(evaluation, model, vector));
  const words = systemWords(system);
  const encoded = packages.map((content) =>
    encode({ experimentId: document.experimentId, roundNumber: round, package: content }),
  );
  const window = { opensAt: asked.window[0], closesAt: asked.window[1] };
  const times = spread(3, window, words);
  const order = drawOrder(packages.length, words);
  const manifest = MANIFEST.fromBytes(utf8(asked.manifest));
  const ephemerals = system(packages.length * SECRETS_BYTES);
  const sent = await sealSubmission(document, manifest, packages, { order, ephemerals, token: unhex(asked.token) });
  return {
    digest: document.digest,
    models,
    sample: [...sample],
    vector: [...vector.values],
    target: String(person.target),
    cohort: person.cohort,
    packages: encoded.map(hex),
    scores,
    predicted: regression ? null : experiment.models.predict(scores),
    order,
    times,
    redrawn: redraw(times, window, words, { now: asked.now, grace: asked.grace }),
    faults: await manifestFaults(manifest, document),
    request: hex(sent.body),
    canary: textOf(CANARY.toBytes(sent.canary)),
    recounts: recounts(sent.canary.ephemerals),
  };
}

/** The state after these tallies, and the names of its blobs after each; a step that cannot be taken says why. */
function stepped(experiment: Experiment, tallies: readonly Tally[]): [State, unknown[]] {
  let state = start(experiment);
  const models = tallies.map((tally) => {
    const explained = experiment.cover === null || explains(experiment.cover, tally, 10);
    try {
      state = step(experiment, state, tally);
    } catch (fault) {
      if (!(fault instanceof SecVMError)) throw fault;
      return { explained, error: [fault.name, fault.message] };
    }
    const weights = [trainingWeights(experiment, state), evaluationWeights(experiment, state)];
    return { explained, names: [state, ...weights].map((blob) => digestOf(blob.toBytes())) };
  });
  return [state, models];
}

function binningOf({ binning }: ExperimentDocument, vocabulary: readonly string[]): HashBinning | VocabularyBinning {
  if (binning.kind === "vocabulary") return new VocabularyBinning(vocabulary);
  return new HashBinning({ nBins: binning.bins, salt: binning.salt!, nHashes: binning.hashes });
}
