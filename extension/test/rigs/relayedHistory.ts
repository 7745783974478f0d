/** The public files of an experiment with two relays, round after round, from the requests that devices sent. */

import { hex, utf8, type Bytes } from "../../src/bytes.ts";
import { digestOf } from "../../src/protocol/canonical.ts";
import { capsuleDigest, capsuleRoot } from "../../src/protocol/relays/batches.ts";
import type { ExperimentDocument } from "../../src/protocol/documents/experiment.ts";
import { experimentEntry, logEntry, type Entry, type ModelNames } from "../../src/protocol/log/entries.ts";
import { labelOfRound, MANIFEST, type RelayedManifest } from "../../src/protocol/relays/manifest.ts";
import {
  clientsOf,
  ENDING,
  isOpened,
  OPENING,
  type Opening,
  type RelayedEnding,
} from "../../src/protocol/relays/opening.ts";
import { readRequest, RECEIPT, tokenBytes } from "../../src/protocol/relays/submission.ts";
import { entriesPath, TILE_WIDTH } from "../../src/protocol/log/tiles.ts";
import { LOG_ORIGIN } from "../../src/protocol/version.ts";
import { KnownLog } from "../protocol/log/knownLog.ts";
import { signed } from "../crypto/signers.ts";
import { COORDINATOR, ENTRY, KnownRound, type Concluded, type Played } from "./knownRound.ts";

/** 2026-01-01. */
export const START = 1_767_225_600_000;
/** From the end of a round to the next opening: several times what a device waits between two askings. */
const LEAD_MS = 1_200_000;

/** The rule by which this coordinator goes on from a round. */
export interface Stepping {
  /** Names of the model of so far. */
  names(): ModelNames;
  /** The bytes of a net tally as they are served, and their name. */
  net(roundNumber: number): { readonly digest: string; readonly data: Bytes };
  /** A round was opened with this net tally. */
  step(roundNumber: number, clients: number): void;
}

/** Nothing is learnt: models and tallies are names alone. */
export class Standing implements Stepping {
  names(): ModelNames {
    return ["state", "training", "evaluation"].map((name) => digestOf(utf8(name))) as unknown as ModelNames;
  }

  net(roundNumber: number): { digest: string; data: Bytes } {
    const data = utf8(`net tally ${roundNumber}`);
    return { digest: digestOf(data), data };
  }

  step(): void {}
}

export class RelayedHistory {
  readonly document: ExperimentDocument;
  /** By path. */
  readonly files = new Map<string, Bytes>();
  readonly rounds: KnownRound[] = [];
  readonly openings: Opening[] = [];
  /** Requests of the round that runs, by the root of their receipts. */
  requests = new Map<string, Bytes>();
  log = new KnownLog();
  /** When witnesses are asked, in seconds. */
  timeS = START / 1000 - 3600;
  readonly #stepping: Stepping;

  constructor(document: ExperimentDocument, stepping: Stepping = new Standing()) {
    this.document = document;
    this.#stepping = stepping;
    this.files.set(this.place, signed(document.data, { purpose: document.kind, keys: [COORDINATOR] }));
    this.enter(experimentEntry(document.digest));
  }

  /** Where the experiment's files are. */
  get place(): string {
    return `/v1/experiment/${this.document.digest}`;
  }

  get envelope(): Bytes {
    return this.files.get(this.place)!;
  }

  /** The newest round. */
  get running(): KnownRound {
    return this.rounds.at(-1)!;
  }

  /** The next round. */
  async announce(lie: (true_: RelayedManifest) => RelayedManifest = (it) => it): Promise<RelayedManifest> {
    const last = this.rounds.at(-1);
    const before = last === undefined ? null : { manifest: last.manifest, opening: this.openings.at(-1)! };
    const opensAt = last === undefined ? START : last.manifest.instants.openBy + LEAD_MS;
    const model = this.#stepping.names();
    const round = await KnownRound.announced({ document: this.document, before, model, opensAt });
    this.rounds.push(round);
    const manifest = lie(round.manifest);
    this.showManifest(manifest);
    return manifest;
  }

  showManifest(manifest: RelayedManifest): void {
    const envelope = signed(MANIFEST.toBytes(manifest), { purpose: MANIFEST.purpose, keys: [COORDINATOR] });
    for (const name of [manifest.roundNumber, "latest"]) this.files.set(`${this.place}/manifest/${name}`, envelope);
    this.enter(logEntry("manifest", manifest, MANIFEST.digest(manifest)));
  }

  /** The entry relay's answer to a request; null: it is for another round. */
  take(label: Bytes, body: Bytes): Bytes | null {
    if (hex(label) !== hex(this.running.label)) return null;
    const token = tokenBytes(this.document);
    const digests = readRequest(body, { budget: this.document.budget, token }).map(capsuleDigest);
    const receipt = { label, root: capsuleRoot(digests), capsules: digests.length };
    this.requests.set(hex(receipt.root), body);
    return signed(RECEIPT.toBytes(receipt), { purpose: RECEIPT.purpose, keys: [ENTRY] });
  }

  /** The round that runs is over. */
  async conclude(how: Omit<Concluded, "tally" | "bodies"> & { publishShards?: boolean } = {}): Promise<Played> {
    const { running } = this;
    const { roundNumber } = running.manifest;
    const net = this.#stepping.net(roundNumber);
    const played = await running.concluded({ ...how, bodies: [...this.requests.values()], tally: net.digest });
    this.requests = new Map();
    this.showOpening(played.opening);
    this.files.set(`/v1/blob/${net.digest}`, net.data);
    if (how.publishShards ?? true) {
      for (const [path, data] of played.files) this.files.set(`${this.place}/${path}`, data);
    }
    if (await isOpened(played.opening, running.manifest, this.document)) {
      this.#stepping.step(roundNumber, clientsOf(played.opening));
    }
    return played;
  }

  showOpening(opening: Opening): void {
    this.openings.push(opening);
    const envelope = signed(OPENING.toBytes(opening), { purpose: OPENING.purpose, keys: [COORDINATOR] });
    this.files.set(`${this.place}/opening/${opening.roundNumber}`, envelope);
    this.enter(logEntry("opening", opening, OPENING.digest(opening)));
  }

  /** The experiment is over. */
  end(changes: Partial<RelayedEnding> = {}): RelayedEnding {
    const last = this.rounds.at(-1);
    const [state, trainingWeights, evaluationWeights] = this.#stepping.names();
    const ending: RelayedEnding = {
      experiment: this.document.digest,
      roundNumber: last === undefined ? 0 : last.manifest.roundNumber,
      manifest: last === undefined ? null : MANIFEST.digest(last.manifest),
      opening: last === undefined ? null : OPENING.digest(this.openings.at(-1)!),
      ...{ state, trainingWeights, evaluationWeights, why: "finished" },
      ...changes,
    };
    const envelope = signed(ENDING.toBytes(ending), { purpose: ENDING.purpose, keys: [COORDINATOR] });
    this.files.set(`${this.place}/ending`, envelope);
    this.enter(logEntry("ending", ending, ENDING.digest(ending)));
    return ending;
  }

  /** One more line of the log, where there is one. */
  enter(...entries: readonly Entry[]): void {
    this.log.append(...entries);
    if (this.document.log !== null) this.showLog();
  }

  /** Put the log as it is among the files, cosigned by so many. */
  showLog({ witnesses = 2 }: { witnesses?: number } = {}): void {
    const { lines } = this.log;
    this.files.set(`${this.place}/checkpoint`, this.log.checkpoint({ witnesses, timeS: this.timeS }));
    for (let at = 0; at < lines.length; at += TILE_WIDTH) {
      const some = lines.slice(at, at + TILE_WIDTH);
      this.files.set(`/${LOG_ORIGIN}/${entriesPath(at / TILE_WIDTH, some.length)}`, bundle(some));
    }
  }
}

/** The label under which a request is sent. */
export function labelText(manifest: RelayedManifest): string {
  return hex(labelOfRound(manifest));
}

/** Lines as a tile has them. */
export function bundle(lines: readonly Bytes[]): Bytes {
  return Uint8Array.from(lines.flatMap((line) => [line.length >> 8, line.length & 255, ...line]));
}
