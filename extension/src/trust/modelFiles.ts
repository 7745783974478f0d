/**
 * Weights by digest: computed here, and the last ones believed kept as files, so that a person can predict offline.
 *
 * The files are public, and as large as models are: they stay out of what the device holds in memory.
 */

import type { Bytes } from "../bytes.ts";
import { BadInputError } from "../errors.ts";
import type { Weights } from "../learning/weights.ts";
import { decodeWeights } from "../protocol/documents/blobs.ts";
import type { ExperimentDocument } from "../protocol/documents/experiment.ts";
import type { Tables } from "../storage/tables.ts";

const FILES = "models/";
/** Of a few experiments. */
const IN_MEMORY = 4;

/** Weights in memory and in files. */
export class ModelShelf {
  readonly #tables: Tables;
  readonly #known = new Map<string, Bytes>();
  /** Which model is believed of each experiment; a file without anybody goes. */
  readonly #held = new Map<string, string>();

  constructor(tables: Tables) {
    this.#tables = tables;
  }

  /** Weights that were computed on this device, under their digest. */
  put(digest: string, weights: Weights): void {
    if (this.#known.has(digest)) return;
    if (this.#known.size >= IN_MEMORY) this.#known.delete(this.#known.keys().next().value!);
    this.#known.set(digest, weights.toBytes());
  }

  /** Keep this model's file for the experiment, in place of the one before. */
  async hold(experiment: string, digest: string): Promise<void> {
    const [data, before] = [this.#known.get(digest), this.#held.get(experiment)];
    this.#held.set(experiment, digest);
    if (data !== undefined) await this.#tables.putFile(FILES + digest, data);
    if (before !== undefined) await this.#dropUnheld(before);
  }

  /** The experiment is forgotten. */
  async release(experiment: string): Promise<void> {
    const before = this.#held.get(experiment);
    this.#held.delete(experiment);
    if (before !== undefined) await this.#dropUnheld(before);
  }

  /** A model out of its file. */
  async kept(digest: string, { experiment }: ExperimentDocument): Promise<Weights> {
    const data = (await this.#tables.file(FILES + digest)) as Bytes | undefined;
    if (data === undefined) {
      throw new BadInputError("the model's file is not there", { nextStep: "Let the device run until a round." });
    }
    return decodeWeights(data, { digest, experiment });
  }

  async #dropUnheld(digest: string): Promise<void> {
    if (![...this.#held.values()].includes(digest)) await this.#tables.deleteFile(FILES + digest);
  }
}
