/** One person's browser in memory, with the whole device in it, and a relay on this machine that serves experiments. */

import { IDBFactory } from "fake-indexeddb";

import { utf8, type Bytes } from "../../src/bytes.ts";
import { Consent } from "../../src/consent/policies.ts";
import { openDevice, type Browser, type Opened } from "../../src/device/open.ts";
import type { ExperimentDocument } from "../../src/protocol/documents/experiment.ts";
import { inviteText } from "../../src/protocol/invite.ts";
import { LOG_TERMS } from "../../src/protocol/log/policy.ts";
import type { BrowserHistory } from "../../src/sources/history.ts";
import { DeviceState } from "../../src/storage/state.ts";
import { Tables } from "../../src/storage/tables.ts";
import { Vault } from "../../src/storage/vault.ts";
import { unsafeSeeded } from "../crypto/dice.ts";
import { published } from "../person/world.ts";
import { TERMS } from "../protocol/log/knownLog.ts";
import { TinyRelay } from "../sending/tinyRelay.ts";
import { vectors } from "../vectors.ts";

const DAY = 86_400_000;
/** 2026-01-01, as the tiny relay's clock. */
export const NOW = 1_767_225_601_000;
/** Where the experiments' entry relay is, by its name. */
const ENTRY = "https://entry.example";
const LOG = LOG_TERMS.toContent(TERMS);
const WANTED = { source: "history-titles", description: "Words of titles.", presence: true, days: 30 };
/** The vectors' experiment, of which a document's labels and relays are. */
export const LABELS: readonly string[] = JSON.parse(vectors("experiment_document").cases[0].text).learning.labels;

/** An experiment about the titles of pages, with two relays and a log; and its envelope. */
export function asked(changes: object = {}): [ExperimentDocument, Bytes] {
  return published({ log: LOG, features: WANTED, operator: "Uni", contact: "uni@uni.example", ...changes });
}

/** A plain experiment: single packages, and no guarantee. */
export const PLAIN = published({ log: LOG, features: WANTED }, "plain_experiment_document");

/** What a page is told, as far as tests look at it. */
/* Pages are checked by what they show, not by types. */
export type Page = any;

export class Person {
  readonly relay = new TinyRelay();
  now = NOW;
  /** What the browser's person allows: URLs and the history. */
  allowed = true;
  pages = [{ url: "https://www.example.org/a", title: "Quokka photos", visitCount: 1, lastVisitTime: NOW - DAY }];
  consent = Consent.unsafeAcceptAnything();
  fault: unknown = null;
  /** So long it waits for an answer. */
  answerMs = 20_000;
  device!: Opened;
  state!: DeviceState;
  vault!: Vault;
  readonly #factory = new IDBFactory();
  #tables: Tables | null = null;

  static async start(...experiments: readonly (readonly [ExperimentDocument, Bytes])[]): Promise<Person> {
    const person = new Person();
    await person.relay.start();
    person.serve(...experiments);
    return person.wake();
  }

  serve(...experiments: readonly (readonly [ExperimentDocument, Bytes])[]): void {
    for (const [{ digest }, envelope] of experiments) this.relay.files.set(`/v1/experiment/${digest}`, envelope);
    const listed = experiments.map(([{ digest }]) => ({ digest, standing: "running" }));
    this.relay.files.set("/v1/experiments", utf8(JSON.stringify({ experiments: listed })));
  }

  /** The worker has died, and something has woken it. */
  async wake(): Promise<this> {
    this.#tables?.close();
    const tables = (this.#tables = await Tables.open(this.#factory));
    [this.state, this.vault] = [new DeviceState(tables), new Vault(tables)];
    this.device = openDevice(tables, this.#browser(), { consent: this.consent, answerMs: this.answerMs });
    return this;
  }

  #browser(): Browser {
    const history: BrowserHistory = { search: async () => this.pages };
    return {
      clock: { now: () => this.now, callAt: () => () => undefined },
      steady: () => 0,
      randomBytes: unsafeSeeded("person"),
      fetch: (url, options) => fetch(url.replace(ENTRY, new URL(this.relay.url).origin).replace("//r", "/r"), options),
      history: () => (this.allowed ? history : null),
      allows: async () => this.allowed,
      fault: () => this.fault,
    };
  }

  invite({ digest }: { digest: string }): Promise<unknown> {
    return this.act("invite", { line: inviteText({ relayUrl: `${ENTRY}/r`, digest }) });
  }

  async act(action: string, said: object = {}): Promise<Page> {
    const done = await this.device.act(action, said as { [name: string]: unknown });
    return "json" in done ? done.json : done.file;
  }

  async page(): Promise<Page> {
    return JSON.parse(JSON.stringify(await this.device.state()));
  }

  /** Whoever was invited, has let it read, and has said yes. */
  async join({ digest }: ExperimentDocument): Promise<void> {
    await this.invite({ digest });
    await this.act("import", { digest, profile: "history" });
    await this.act("join", { digest, answer: LABELS[0], accept: null });
  }

  async stop(): Promise<void> {
    this.#tables?.close();
    await this.relay.stop();
  }
}
