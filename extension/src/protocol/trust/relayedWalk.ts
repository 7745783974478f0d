/** One look at an experiment's rounds: document after document, from what is believed on (`relayedChain.ts`). */

import { equal, type Bytes } from "../../bytes.ts";
import { InconsistentManifestError, MalformedMessageError } from "../../errors.ts";
import type { ExperimentDocument } from "../documents/experiment.ts";
import { INCONSISTENCIES } from "../documents/faults.ts";
import { logEntry, modelNames, type Document, type ModelNames } from "../log/entries.ts";
import { boundBy, labelOfRound, MANIFEST, readManifest, type RelayedManifest } from "../relays/manifest.ts";
import {
  clientsOf,
  ENDING,
  followingFaults,
  isOpened,
  OPENING,
  type Opening,
  type RelayedEnding,
} from "../relays/opening.ts";
import type { Believing, Ended, Judging, Named, RelayedChain, Seen, Served } from "./relayedChain.ts";

/** One look. */
export class Walk<Model extends Named> {
  /** Of which the log must hold the lines. */
  readonly documents: Document[] = [];
  readonly #document: ExperimentDocument;
  readonly #judging: Judging<Model>;
  readonly #served: Served;
  #last: RelayedManifest | null;
  #opening: Opening | null;
  #envelope: Bytes | null;
  #openingEnvelope: Bytes | null;
  #model: Model;
  #state: Bytes;
  #ending: RelayedEnding | null = null;
  #steps = 0;
  readonly #manifests: RelayedManifest[] = [];
  readonly #ended: Ended[] = [];

  constructor(chain: RelayedChain<Model>, document: ExperimentDocument, judging: Judging<Model>, served: Served) {
    this.#document = document;
    this.#judging = judging;
    this.#served = served;
    this.#last = chain.last;
    this.#opening = chain.opening;
    this.#envelope = chain.trust.manifest;
    this.#openingEnvelope = chain.trust.opening;
    this.#model = chain.model();
    this.#state = chain.trust.state;
  }

  /** The next manifest. */
  async addManifest(envelope: Bytes, seen: Seen): Promise<void> {
    const before = this.#last;
    await this.addOpening({ required: before !== null });
    const manifest = await readManifest(envelope, this.#document, before);
    if (manifest.roundNumber !== (before === null ? 1 : before.roundNumber + 1)) {
      throw new MalformedMessageError(`the manifest before that of round ${manifest.roundNumber} is missing`);
    }
    const bound = boundBy(manifest);
    const known = (value: string): boolean =>
      seen.has(value) || this.#manifests.some((earlier) => boundBy(earlier).has(value));
    if ([...bound].some(known)) throw new InconsistentManifestError(INCONSISTENCIES.USED_BEFORE, [envelope]);
    if (before !== null && this.#opening !== null) {
      const [fault] = await followingFaults(manifest, before, this.#opening, this.#document);
      if (fault !== undefined) throw new InconsistentManifestError(INCONSISTENCIES[fault], [this.#envelope!, envelope]);
      await this.#step(before, this.#opening);
    }
    this.#compare(modelNames(manifest), `the manifest of round ${manifest.roundNumber}`, envelope);
    this.#last = manifest;
    this.#envelope = envelope;
    this.#state = this.#model.stateBytes;
    this.#opening = this.#openingEnvelope = null;
    this.#manifests.push(manifest);
    this.documents.push(manifestDocument(manifest, envelope));
  }

  /** The opening of the last manifest, unless it is believed already. */
  async addOpening({ required }: { required: boolean }): Promise<void> {
    const manifest = this.#last;
    const document = this.#document;
    if (this.#opening !== null || manifest === null) return;
    const envelope = this.#served.openings.get(manifest.roundNumber);
    if (envelope === undefined) {
      if (required) throw new MalformedMessageError(`the opening of round ${manifest.roundNumber} was not served`);
      return;
    }
    const opening = await document.read(OPENING, envelope);
    const named = opening.experiment === document.digest && opening.roundNumber === manifest.roundNumber;
    if (!named || !equal(opening.label, labelOfRound(manifest))) {
      throw new MalformedMessageError(`another opening was served than that of round ${manifest.roundNumber}`);
    }
    this.#opening = opening;
    this.#openingEnvelope = envelope;
    this.#ended.push({ manifest, opening, opened: await isOpened(opening, manifest, document) });
    this.documents.push(openingDocument(opening, envelope));
  }

  /** The last of all. */
  async addEnding(envelope: Bytes): Promise<void> {
    const ending = await this.#document.read(ENDING, envelope);
    const [last, opening] = [this.#last, this.#opening];
    const number = last === null ? 0 : last.roundNumber;
    if (ending.experiment !== this.#document.digest || ending.roundNumber !== number) {
      throw new MalformedMessageError(`the ending is of round ${ending.roundNumber}, and ${number} is the last known`);
    }
    const [manifestName, openingName] =
      last === null || opening === null ? [null, null] : [MANIFEST.digest(last), OPENING.digest(opening)];
    if (ending.manifest !== manifestName || ending.opening !== openingName) {
      throw new InconsistentManifestError(INCONSISTENCIES.OTHER_ROUND, [envelope]);
    }
    if (last !== null && opening !== null) await this.#step(last, opening);
    this.#compare(modelNames(ending), "the ending", envelope);
    this.#ending = ending;
    this.documents.push({ entry: logEntry("ending", ending, ENDING.digest(ending)), envelope });
  }

  /** The model after a round: §31, *the step*. */
  async #step(manifest: RelayedManifest, opening: Opening): Promise<void> {
    const document = this.#document;
    if (!(await isOpened(opening, manifest, document)) || opening.tally === null) return;
    const blob = this.#served.tallies.get(opening.tally);
    if (blob === undefined) {
      throw new MalformedMessageError(`the net tally of round ${manifest.roundNumber} was not served`);
    }
    const net = await this.#judging.tally(blob, { digest: opening.tally, document });
    const after = this.#judging.after(document, this.#model, net, { clients: clientsOf(opening) });
    this.#model = after.model;
    this.#steps += after.stayed === null ? 1 : 0;
  }

  #compare(named: ModelNames, where: string, envelope: Bytes): void {
    if (named.every((name, i) => name === this.#model.names[i])) return;
    const sentence = `the model does not follow: ${where} names another than its rounds come to`;
    throw new InconsistentManifestError(sentence, [envelope]);
  }

  /** All of it. */
  result(): Believing<Model> {
    return {
      trust: { manifest: this.#envelope, opening: this.#openingEnvelope, state: this.#state },
      manifest: this.#last,
      opening: this.#opening,
      model: this.#model,
      manifests: this.#manifests,
      ended: this.#ended,
      ending: this.#ending,
      documents: this.documents,
      steps: this.#steps,
    };
  }
}

/** A manifest with its line of the log. */
export function manifestDocument(manifest: RelayedManifest, envelope: Bytes): Document {
  return { entry: logEntry("manifest", manifest, MANIFEST.digest(manifest)), envelope };
}

/** The same of an opening. */
export function openingDocument(opening: Opening, envelope: Bytes): Document {
  return { entry: logEntry("opening", opening, OPENING.digest(opening)), envelope };
}
