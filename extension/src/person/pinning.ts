/**
 * What is fixed when a person joins an experiment: cohort, sample of features, bins, label. Drawn once, never again.
 *
 * The experiment says which source of features it looks at, how many of them, and how they become bins; all of that is
 * in the document whose digest the person agreed to, and no manifest can change it. The label is the person's own
 * answer.
 *
 * Where public randomness fixes the bins, the experiment's salt is fetched, verified and pinned with them. The
 * coordinator serves the first cosigned checkpoint and the beacons' records; `protocol/trust/salt.ts` believes neither
 * before it has checked them.
 */

import type { Bytes } from "../bytes.ts";
import { roundTime } from "../crypto/beacons/sources.ts";
import { BadInputError, BeaconUnavailableError, RemoteProtocolError } from "../errors.ts";
import { binFeatures, HashBinning, type BinnedVector, type Binning } from "../learning/individual/binning.ts";
import { drawCohort, sampleFeatures, type Dice } from "../learning/individual/dice.ts";
import { fixedTarget } from "../learning/individual/update.ts";
import type { ExperimentDocument } from "../protocol/documents/experiment.ts";
import type { LogPolicy } from "../protocol/log/policy.ts";
import { saltOf } from "../protocol/trust/salt.ts";
import { checkAgreed } from "../sources/agreement.ts";
import type { Pinned } from "../storage/kept.ts";
import type { Vault } from "../storage/vault.ts";

/** Fetches public files; null where one cannot be had. */
export interface Fetching {
  fetch(path: string, options?: { most?: number }): Promise<{ readonly content: Bytes } | null>;
}

/** What a device demands of the log that a salt was fixed under. */
export interface SaltPolicy {
  readonly unsafeBeacons: boolean;
  readonly logPolicy: LogPolicy | null;
}

const MOST_PROOF_BYTES = 2 ** 18;
/** A number as people write it; what else JavaScript takes for one, such as no text at all, is none. */
const NUMBER = /^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?$/i;

/**
 * The person as this experiment will see it, from the vault; `salt` is what its beacons fixed, where it names some.
 * `given`: the answer that they give with their yes, in place of the vault's.
 *
 * Throws a `BadInputError` where something is missing. The sentence names no feature and no label.
 */
export async function pinPerson(
  document: ExperimentDocument,
  vault: Vault,
  dice: Dice,
  options: { salt?: Bytes | null; given?: string | null } = {},
): Promise<Pinned> {
  const binning = binningOf(document, options.salt ?? null);
  const { source } = document.features;
  const features = await vault.features(source);
  if (!features.size) {
    throw new BadInputError(`the vault has no features of the source '${source}'`, {
      nextStep: "Let the extension read the history for this experiment.",
    });
  }
  checkAgreed(document.features, features, (await vault.readings()).get(source) ?? null, source);
  const answer = options.given ?? vault.label(document.digest);
  if (answer === null) {
    throw new BadInputError(`the vault has no label for this experiment${wanted(document)}`, ANSWER);
  }
  const sample = sampleFeatures(features, document.experiment.featuresPerPerson, dice);
  const [label, target] = labelOf(document, answer);
  const vector = binned(document, sample, binning);
  return { vector, label, target, cohort: drawCohort(document.trainShare, dice) };
}

const ANSWER = { nextStep: "Give your answer when you join." };

/** Features as the experiment counts them: with cover, one unit per bin and no more. */
export function binned(
  { experiment, features: asked }: ExperimentDocument,
  features: ReadonlyMap<string, number>,
  binning: Binning,
): BinnedVector {
  return binFeatures(features, binning, { presence: asked.presence, onePerBin: experiment.cover !== null });
}

/** How features become bins; a browser has no lists of words. */
export function binningOf({ binning }: ExperimentDocument, salt: Bytes | null): Binning {
  if (binning.kind === "vocabulary") throw new BadInputError("this experiment needs its list of words", WORDS);
  const fixed = binning.salt ?? salt;
  if (fixed === null) {
    throw new BadInputError("this experiment's salt comes from beacons, and this device does not have it");
  }
  return new HashBinning({ nBins: binning.bins, salt: fixed, nHashes: binning.hashes });
}

/** What helps where an experiment counts the words of a list. */
export const WORDS = { nextStep: "A browser has no such lists: take part with the program instead." };

/** The labels that there are, which everybody knows: whoever answers must know the words. */
function wanted({ experiment }: ExperimentDocument): string {
  if (experiment.loss.regression) return ", whose label is a number";
  return `, whose labels are: ${experiment.labels.join(", ")}`;
}

/** Index of the label, and the number in fixed point where the label is one. */
function labelOf(document: ExperimentDocument, answer: string): [label: number, target: number] {
  const { experiment } = document;
  if (!experiment.loss.regression) {
    const label = experiment.labels.indexOf(answer);
    if (label < 0) {
      throw new BadInputError(`the label in the vault is none of this experiment's${wanted(document)}`, ANSWER);
    }
    return [label, 0];
  }
  const number = NUMBER.test(answer.trim()) ? Number(answer) : Number.NaN;
  const { targetCentre: centre, targetSpread: spread } = experiment;
  return [0, Number(fixedTarget(number, { centre, spread, clamp: experiment.cover !== null }))];
}

/**
 * The salt that the experiment's beacons fixed; null where it names none.
 *
 * Throws a `BeaconUnavailableError` where nobody can know it yet, or nobody answers for it yet; a `BadInputError` where
 * what was served is not what public randomness fixed after the experiment was logged.
 */
export async function fetchSalt(
  document: ExperimentDocument,
  transport: Fetching,
  policy: SaltPolicy,
  now: number,
): Promise<Bytes | null> {
  const { binning } = document;
  if (binning.kind !== "hash" || binning.salt !== null) return null;
  try {
    const last = Math.max(0, ...binning.beacons.map(({ chain, roundNumber }) => roundTime(chain, roundNumber) ?? 0));
    if (last > now) {
      const when = new Date(last).toISOString().slice(0, 19).replace("T", " ");
      throw new BeaconUnavailableError(
        `this experiment's salt is not known before ${when} UTC: its beacons are to come`,
      );
    }
    const path = `/v1/experiment/${document.digest}`;
    const first = await transport.fetch(`${path}/first`, { most: MOST_PROOF_BYTES });
    const records: Bytes[] = [];
    for (const i of binning.beacons.keys()) {
      const record = await transport.fetch(`${path}/beacon/${i}`);
      if (record !== null) records.push(record.content);
    }
    if (first === null || records.length !== binning.beacons.length) {
      throw new BeaconUnavailableError(
        "this experiment's salt cannot be had yet: its coordinator does not have all beacons' records",
        { nextStep: "Join a little later." },
      );
    }
    const { unsafeBeacons: allowUnsafe, logPolicy } = policy;
    return await saltOf(document, { first: first.content, records, allowUnsafe, policy: logPolicy });
  } catch (fault) {
    if (!(fault instanceof RemoteProtocolError)) throw fault;
    throw new BadInputError(`this experiment's salt cannot be believed: ${fault.message}`);
  }
}
