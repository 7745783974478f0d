/**
 * The experiment as it is published: canonical bytes, signed once, and from then on a digest that nobody can bend.
 *
 * Everything that decides what a device computes and sends is in here or in a manifest, and every manifest names the
 * digest of this document. What the learning core needs is an `Experiment`; around it stand the question in words, who
 * asks it and what for, binning, windows, floor, cohorts, the number of rounds, privacy, and whose signatures count.
 *
 * `log` says in whose log its rounds stand and whose cosignatures count; without one (null) nobody can be held to
 * having told everybody the same. `privacy` is two relays' cover with all its numbers (`terms.ts`), or null: no
 * guarantee, and an experiment that this device shows and refuses.
 */

import { equal, unhex, type Bytes } from "../../bytes.ts";
import { Envelope, verify } from "../../crypto/signing.ts";
import { LocalProtocolError, MalformedMessageError } from "../../errors.ts";
import { ruleOf } from "../../learning/aggregate/index.ts";
import type { RelayCover } from "../../learning/coverLaw.ts";
import type { Experiment } from "../../learning/experiment.ts";
import type { PrivacyTarget } from "../../privacy/target.ts";
import { decodeDocument, digestOf, encodeDocument, Fields, type Content } from "../canonical.ts";
import { EXPERIMENT_ID_BYTES } from "../codec.ts";
import type { DocumentReader } from "../records.ts";
import { EXPERIMENT_TYPE, PLAIN_EXPERIMENT_TYPE } from "../version.ts";
import { checkParties, checkRelayed } from "./experimentChecks.ts";
import { STATED, type Relay, type Stated } from "./experimentParts.ts";
import { readLearning, readRelayCover, writeLearning, writeRelayCover, type RelayTimes } from "./terms.ts";

export * from "./experimentParts.ts";

export const MAX_DOCUMENT_BYTES = 2 ** 18;

export interface ExperimentDocumentFields extends Stated {
  readonly experiment: Experiment;
  /** What two relays' cover was asked for; null: there is none, and no guarantee. */
  readonly privacy: PrivacyTarget | null;
}

/* The fields stand on it. */
export interface ExperimentDocument extends ExperimentDocumentFields {}

/** One experiment, published. */
export class ExperimentDocument {
  readonly #fields: ExperimentDocumentFields;
  #data: Bytes | null = null;
  #digest: string | null = null;

  constructor(fields: ExperimentDocumentFields) {
    Object.assign(this, fields);
    this.#fields = fields;
  }

  /** The canonical bytes. What a reader would refuse cannot be written either. */
  get data(): Bytes {
    return (this.#data ??= this.#written());
  }

  #written(): Bytes {
    const data = encodeDocument(contentOf(this.#fields));
    try {
      ExperimentDocument.fromBytes(data);
    } catch (fault) {
      if (!(fault instanceof MalformedMessageError)) throw fault;
      throw new LocalProtocolError(`this experiment cannot be published: ${fault.message}`);
    }
    return data;
  }

  /** The experiment's name everywhere. */
  get digest(): string {
    return (this.#digest ??= digestOf(this.data));
  }

  /** The document's type, and the purpose of its signatures. */
  get kind(): string {
    return kindOf(this.privacy);
  }

  /** The cover of each of the two relays. Throws a `LocalProtocolError` where there are none. */
  get relayCover(): RelayCover {
    return relayed(this.experiment.cover);
  }

  /** How long the relays' steps take. Throws a `LocalProtocolError` where there are not two. */
  get relayTimes(): RelayTimes {
    return relayed(this.windows.relays);
  }

  /** The relay that knows who sends. Throws a `LocalProtocolError` where there are not two. */
  get entryRelay(): Relay {
    return relayed(this.relays.find(({ role }) => role === "entry") ?? null);
  }

  /** The relay that opens the outer layer. Throws a `LocalProtocolError` where there are not two. */
  get mixRelay(): Relay {
    return relayed(this.relays.find(({ role }) => role === "mix") ?? null);
  }

  /** The half of the digest that packages carry. */
  get experimentId(): Bytes {
    return unhex(this.digest).slice(0, EXPERIMENT_ID_BYTES);
  }

  /** Packages of a participant in every round, never more, never less. */
  get budget(): number {
    const { budget } = this.experiment;
    if (budget === null) throw new LocalProtocolError("an experiment over devices needs a budget");
    return budget;
  }

  /** How many bytes the numbers of a descent state have. Known before any of that size is made. */
  get stateBytes(): number {
    const { models, nBins, robust } = this.experiment;
    const own = Object.keys(ruleOf(this.experiment).start(1, 1).vectors).length;
    return 8 * (own + (robust?.names.length ?? 0)) * models.nModels * (nBins + 1);
  }

  /** How many bytes the counts of a tally have. Known before any of that size is made. */
  get tallyBytes(): number {
    const labels = this.experiment.labels.length;
    return 8 * (2 * this.experiment.models.nModels * (this.experiment.nBins + 1) + labels + labels * labels);
  }

  /** How many bytes a tally has at most as it is served: those of its planes, and what deflating can add. */
  get mostTallyBytes(): number {
    return this.tallyBytes + 64;
  }

  /** Seeded dice may be thrown here, or this throws: who knows the seed knows every throw. */
  checkSeededDice(): void {
    if (!this.test) throw new LocalProtocolError("seeded dice are for experiments that are marked as a test");
  }

  /**
   * The document of this kind in an envelope that enough of the coordinator's keys signed.
   *
   * Throws a `MalformedMessageError` or a `BadSignatureError`.
   */
  async read<T>(kind: DocumentReader<T>, envelope: Uint8Array): Promise<T> {
    const { coordinatorKeys: keys, threshold } = this;
    return kind.fromBytes(await verify(envelope, { purpose: kind.purpose, keys, threshold }));
  }

  /** A document of this experiment, of one of these kinds, and which one it is. Throws as `read`. */
  async readAny<T extends { readonly experiment: string }, K extends DocumentReader<T>>(
    kinds: readonly K[],
    envelope: Uint8Array,
  ): Promise<readonly [kind: K, document: ReturnType<K["fromBytes"]>]> {
    const payload = latin1(Envelope.fromBytes(envelope).payload);
    const kind = kinds.find(({ purpose }) => payload.includes(`"type":"${purpose}"`));
    if (kind === undefined) {
      throw new MalformedMessageError(`this is neither ${kinds.map(({ title }) => title).join(" nor ")}`);
    }
    const document = await this.read(kind, envelope);
    if (document.experiment !== this.digest) throw new MalformedMessageError("the document is of another experiment");
    return [kind, document as ReturnType<K["fromBytes"]>];
  }

  /** The document of canonical bytes; anything else is refused. */
  static fromBytes(data: Uint8Array): ExperimentDocument {
    const fields = new Fields(decodeDocument(data, { maxBytes: MAX_DOCUMENT_BYTES }), "the experiment");
    const isRelayed = fields.oneOf("type", [PLAIN_EXPERIMENT_TYPE, EXPERIMENT_TYPE]) === EXPERIMENT_TYPE;
    const stated = STATED.take(fields);
    let experiment = readLearning(fields.inner("learning"), stated.binning.bins);
    let privacy: PrivacyTarget | null = null;
    if (fields.isNull("privacy") === isRelayed) {
      throw fields.refuse("privacy", "null without relays' cover, and only then");
    }
    if (isRelayed) [privacy, experiment] = readRelayCover(fields.inner("privacy"), experiment, stated.trainShare);
    const told = { ...stated, experiment, privacy };
    fields.done();
    checkParties(told, isRelayed);
    if (isRelayed) checkRelayed(told, experiment);
    // What defaults and other spellings would hide: only one way to write an experiment is taken.
    if (!equal(encodeDocument(contentOf(told)), data)) {
      throw new MalformedMessageError("the experiment is not written in its one way");
    }
    const document = new ExperimentDocument(told);
    document.#data = Uint8Array.from(data);
    return document;
  }
}

function latin1(data: Uint8Array): string {
  return Array.from(data, (byte) => String.fromCharCode(byte)).join("");
}

function kindOf(privacy: PrivacyTarget | null): string {
  return privacy === null ? PLAIN_EXPERIMENT_TYPE : EXPERIMENT_TYPE;
}

function relayed<T>(part: T | null): T {
  if (part === null) {
    throw new LocalProtocolError("this experiment has not the cover of two relays: its privacy is null");
  }
  return part;
}

function contentOf(told: ExperimentDocumentFields): Content {
  return {
    ...STATED.toContent(told),
    learning: writeLearning(told.experiment, told.binning.bins),
    privacy: privacyOf(told),
    type: kindOf(told.privacy),
  };
}

function privacyOf({ privacy, experiment: { cover }, trainShare }: ExperimentDocumentFields): Content | null {
  if ((privacy === null) !== (cover === null)) {
    throw new LocalProtocolError("an experiment with cover tells what it was asked for, and one without does not");
  }
  if (privacy === null || cover === null) return null;
  if (!cover.trainShare.equals(trainShare)) {
    throw new LocalProtocolError("the cover was made for another share of devices that train");
  }
  return writeRelayCover(privacy, cover);
}

/**
 * The experiment of this digest, out of its envelope.
 *
 * The digest is what the person agreed to, and it fixes the keys; the signature says that their owners stand by it.
 * Without a digest it is whichever experiment the envelope holds: for evidence, which brings its own along.
 */
export async function readPublished(data: Uint8Array, options: { digest?: string } = {}): Promise<ExperimentDocument> {
  const document = ExperimentDocument.fromBytes(Envelope.fromBytes(data).payload);
  if (options.digest !== undefined && options.digest !== document.digest) {
    throw new MalformedMessageError("this is another experiment");
  }
  await verify(data, { purpose: document.kind, keys: document.coordinatorKeys, threshold: document.threshold });
  return document;
}
