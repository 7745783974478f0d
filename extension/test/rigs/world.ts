/** One device, two relays and a coordinator in memory, with a clock that jumps; and a device that can be killed. */

import { deflateSync } from "node:zlib";

import { IDBFactory } from "fake-indexeddb";

import { concat, hex, littleEndian, type Bytes } from "../../src/bytes.ts";
import { roundConsent } from "../../src/consent/ledger.ts";
import { Consent } from "../../src/consent/policies.ts";
import { ParticipantDevice } from "../../src/device/device.ts";
import { safeDice, systemWords } from "../../src/device/dice.ts";
import { knownMeans, emptyTally } from "../../src/learning/aggregate/index.ts";
import type { Counts, Tally } from "../../src/learning/aggregate/tally.ts";
import { tallyDigest } from "../../src/protocol/documents/blobs.ts";
import { afterOpened, firstModel } from "../../src/protocol/documents/recomputation.ts";
import type { ExperimentDocument, Relay } from "../../src/protocol/documents/experiment.ts";
import type { ModelNames } from "../../src/protocol/log/entries.ts";
import { MANIFEST, type RelayedManifest } from "../../src/protocol/relays/manifest.ts";
import { RELAY_TERMS, type RelayTerms } from "../../src/protocol/relays/statements.ts";
import type { RelayedMembership } from "../../src/relayed/membership.ts";
import { UNANSWERED, type SendReply } from "../../src/sending/reply.ts";
import type { Fetched } from "../../src/sending/transport.ts";
import type { Pinned } from "../../src/storage/kept.ts";
import { DeviceState } from "../../src/storage/state.ts";
import { Tables } from "../../src/storage/tables.ts";
import { ModelShelf } from "../../src/trust/modelFiles.ts";
import { Surroundings, Traffic, type Transport } from "../../src/trust/surroundings.ts";
import { TrustPolicy } from "../../src/trust/trustPolicy.ts";
import { unsafeSeeded } from "../crypto/dice.ts";
import { signed } from "../crypto/signers.ts";
import { TERMS } from "../protocol/log/knownLog.ts";
import { ENTRY, MIX, relayedDocument } from "./knownRound.ts";
import { RelayedHistory, START, type Stepping } from "./relayedHistory.ts";

/** What the small experiment of the vectors is with a log. */
export const DOCUMENT = relayedDocument({ log: TERMS });
const PERSON: Pinned = {
  ...{ vector: { values: new Map([[1, 1], [4, 1], [7, 1]]), nBins: 10 }, label: 1, target: 0, cohort: "train" },
};

/** Nobody is counted; the model goes on from that by the one rule. */
class Nobody implements Stepping {
  readonly #document: ExperimentDocument;
  readonly #net: Tally;
  #model;

  constructor(document: ExperimentDocument) {
    this.#document = document;
    this.#net = emptyTally(document.experiment);
    this.#model = firstModel(document);
  }

  names(): ModelNames {
    return this.#model.names;
  }

  net(): { digest: string; data: Bytes } {
    return { digest: tallyDigest(this.#net), data: packed(this.#net, knownMeans(this.#document.experiment)) };
  }

  step(_round: number, clients: number): void {
    this.#model = afterOpened(this.#document, this.#model.state, this.#net, { clients }).model;
  }
}

/** A tally as it is served. */
export function packed(tally: Tally, means: Tally): Bytes {
  const entries = ({ plus, minus, participants, cells }: Tally): bigint[] =>
    [...plus, ...minus, participants, ...cells].flatMap((row: Counts) => [...row]);
  const known = entries(means);
  const folded = entries(tally).map((count, i) => BigInt.asUintN(64, ((count - known[i]!) << 1n) ^ ((count - known[i]!) >> 63n)));
  const planes = Math.max(1, ...folded.map((number) => Math.ceil(number.toString(2).length / 8)));
  const bytes = folded.map((number) => littleEndian(number, 8));
  const data = Array.from({ length: planes }, (_, plane) => Uint8Array.from(bytes, (number) => number[plane]!));
  return Uint8Array.from(deflateSync(concat(...data)));
}

/** The device dies where its fuse has burnt down, and nothing of it does anything from then on. */
export class Killed extends Error {}

export class World {
  readonly history: RelayedHistory;
  now: number;
  /** Everything that was sent to the entry relay: label and body. */
  readonly sent: { readonly label: string; readonly body: Bytes }[] = [];
  /** Every path that was fetched. */
  readonly fetched: string[] = [];
  /** What the entry relay does with a request in place of taking it. */
  entry: ((label: Uint8Array, body: Bytes) => SendReply) | null = null;
  /** What a relay does that is asked for its terms, in place of showing them. */
  terms: (() => RelayTerms | null) | null = null;
  /** What is served at a path in place of what there is; undefined: that. */
  lie: (path: string) => Bytes | null | undefined = () => undefined;
  policy: Partial<TrustPolicy> = {};
  state!: DeviceState;
  device!: ParticipantDevice;
  /** So many moments at which it may die this life of the device outlives. */
  fuse = Infinity;
  readonly #factory = new IDBFactory();
  #tables: Tables | null = null;
  #lives = 0;

  constructor(document: ExperimentDocument = DOCUMENT) {
    this.history = new RelayedHistory(document, new Nobody(document));
    this.now = START - 1_000_000;
  }

  get document(): ExperimentDocument {
    return this.history.document;
  }

  /** A device whose person has joined. */
  static async joined(document?: ExperimentDocument): Promise<World> {
    const world = new World(document);
    const tables = await Tables.open(world.#factory);
    await new DeviceState(tables).join(world.document.digest, world.history.envelope, PERSON);
    tables.close();
    await world.start();
    return world;
  }

  /** The device is opened from its disk; whatever lived before is dropped as it is. */
  async start({ fuse = Infinity }: { fuse?: number } = {}): Promise<void> {
    this.#tables?.close();
    const life = (this.#lives += 1);
    this.fuse = fuse;
    const tables = (this.#tables = await Tables.open(this.#factory));
    const burn = (): void => {
      if (this.#lives !== life || (this.fuse -= 1) < 0) throw new Killed();
    };
    const commit = tables.commit.bind(tables);
    tables.commit = async () => {
      burn();
      await commit();
      burn();
    };
    const state = (this.state = new DeviceState(tables));
    const randomBytes = unsafeSeeded(`life ${life}`);
    const relays = this.document.relays.map(({ url, key, operator }) => ({ url, key, operator: operator! }));
    const around = new Surroundings({
      ...{ state, transport: this.#transport(burn), shelf: new ModelShelf(tables), traffic: new Traffic(state) },
      policy: new TrustPolicy({ relays: () => relays, ...this.policy }),
      consent: roundConsent(state, Consent.unsafeAcceptAnything()),
      ...{ words: systemWords(randomBytes), randomBytes },
    });
    const clock = { now: () => this.now, callAt: () => () => undefined };
    this.device = new ParticipantDevice(around, { clock, diceFor: safeDice(randomBytes), onlyTests: false });
  }

  get member(): RelayedMembership {
    return this.device.memberships.get(this.document.digest)!;
  }

  #transport(burn: () => void): Transport {
    const through = async <T>(answer: () => T): Promise<T> => {
      burn();
      const answered = answer();
      burn();
      return answered;
    };
    return {
      check: () => undefined,
      fetch: (path) => through(() => this.#fetch(path)),
      submit: (body, label) => through(() => this.#submit(body, label)),
      askToken: () => through(() => UNANSWERED),
      relayedTerms: (relay) => through(() => (this.terms === null ? termsOf(relay) : this.terms())),
    };
  }

  #fetch(path: string): Fetched | null {
    this.fetched.push(path);
    this.history.timeS = Math.floor(this.now / 1000);
    if (this.document.log !== null) this.history.showLog();
    const lied = this.lie(path);
    const content = lied === undefined ? this.#served(path) : lied;
    return content && { content, serverTime: this.now, ahead: null };
  }

  #served(path: string): Bytes | null {
    if (!/\/news\/[0-9]+$/.test(path)) return this.history.files.get(path) ?? null;
    const manifest = this.history.files.get(`${this.history.place}/manifest/latest`);
    return manifest === undefined ? null : newsOf(manifest);
  }

  #submit(body: Bytes, label: Uint8Array): SendReply {
    this.sent.push({ label: hex(label), body });
    if (this.entry !== null) return this.entry(label, body);
    return { ...UNANSWERED, answered: true, content: this.history.take(Uint8Array.from(label), body) };
  }

  /** Let the device live until then. */
  async drive(until: number): Promise<void> {
    for (;;) {
      const due = await this.device.work();
      if (due === null || due > until) break;
      this.now = Math.max(this.now, due);
    }
    this.now = until;
  }

  /** A round from its announcement until its opening is there and the device had time to look. */
  async playRound(how: Parameters<RelayedHistory["conclude"]>[0] = {}): Promise<RelayedManifest> {
    const manifest = await this.history.announce();
    await this.drive(manifest.instants.mixBy);
    await this.history.conclude(how);
    await this.drive(manifest.instants.openBy - 10_000);
    return manifest;
  }
}

/** News that have the manifest alone: the rest is fetched one by one. */
function newsOf(manifest: Bytes): Bytes {
  const parts = [manifest, ...Array.from({ length: 4 }, () => new Uint8Array())];
  return concat(...parts.flatMap((part) => [littleEndian(part.length, 4), part]));
}

/** Terms that are enough, signed by the relay. */
export function termsOf({ url, role, operator }: Relay, changes: Partial<RelayTerms> = {}): RelayTerms | null {
  const most = { quota: 10, cells: 10 ** 6, packages: 10 ** 9, capsules: 10 ** 9, secondsPerMillion: 1 };
  const data = RELAY_TERMS.toBytes({ url, role: role!, operator: operator!, ...most, ...changes });
  signed(data, { purpose: RELAY_TERMS.purpose, keys: [role === "entry" ? ENTRY : MIX] });
  return RELAY_TERMS.fromBytes(data);
}

/** The label of a round, as `sent` has it. */
export function labelOf(manifest: RelayedManifest): string {
  return MANIFEST.digest(manifest);
}
