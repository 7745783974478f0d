/**
 * The desk behind the page: looks things up and carries out what the person clicks.
 *
 * Nobody waits for the network who does not ask for something of it: who wants to pause or to leave can do so meanwhile.
 * What a stranger's document asks to be reckoned is given up after a while.
 */

import type { Consent, Statement } from "../consent/policies.ts";
import { BadInputError, SecVMError } from "../errors.ts";
import * as decisions from "../person/decisions.ts";
import type { Way } from "../person/decisions.ts";
import { figures, inShort, whatLeaves } from "../person/disclosure.ts";
import { fetchSalt } from "../person/pinning.ts";
import { predictFor, type Prediction } from "../person/prediction.ts";
import { until, withPatience } from "../privacy/accounting/patience.ts";
import { contents, say } from "../privacy/sentences.ts";
import { readPublished, type ExperimentDocument } from "../protocol/documents/experiment.ts";
import type { BrowserHistory } from "../sources/history.ts";
import { asExcluded } from "../sources/pages.ts";
import { findSource, importFrom } from "../sources/registry.ts";
import type { Accepted } from "../storage/books.ts";
import type { ExperimentRecord, Status } from "../storage/kept.ts";
import type { DeviceState } from "../storage/state.ts";
import type { Vault } from "../storage/vault.ts";
import { chooseOne, evidenceOf, type Held } from "../trust/evidence.ts";
import type { ModelShelf } from "../trust/modelFiles.ts";
import type { TrustPolicy } from "../trust/trustPolicy.ts";
import { isDigest, Offers, offersView, UnreckonedError, type Meaning } from "./offers.ts";
import { faultOf } from "./troubles.ts";
import { view, type Json, type VaultLook } from "./view.ts";

const DAY_MS = 86_400_000;
/** Of a person's features so many are shown as examples. */
const MOST_EXAMPLES = 200;
/** Nobody means an experiment whose guarantee takes longer. */
const PATIENCE_S = 20;
const HOST = "host:";
const TAKES_PART: readonly Status[] = ["joined", "paused"];

type Known = readonly [ExperimentRecord, ExperimentDocument];

/** The device, as its desk sees it. */
export interface Behind {
  readonly state: DeviceState;
  readonly vault: Vault;
  readonly shelf: ModelShelf;
  readonly consent: Consent;
  readonly policy: TrustPolicy;
  readonly dailyBytes: number;
  now(): number;
  /** Milliseconds of a clock that nobody sets. */
  steady(): number;
  /** Null: nobody has invited this device yet. */
  way(): Way | null;
  /** The browser's history; null: its person does not allow it. */
  history(): BrowserHistory | null;
  /** Whether the browser still allows to read the history, and to reach these relays. */
  allows(urls: readonly string[]): Promise<boolean>;
  /** Take an invite up. Throws a `BadInputError`. */
  takeUp(line: string): Promise<void>;
  /** How many askings in a row nobody answered. */
  unanswered(digest: string): number;
  /** What the device's work ended with last; null: well. */
  fault(): unknown;
  /** The person has decided something. */
  decided(): void;
}

/** One device, for its person. */
export class Desk {
  readonly #behind: Behind;
  readonly #offers = new Offers((document) => this.#reckon(document));
  readonly #documents = new Map<string, ExperimentDocument>();
  readonly #statements = new Map<string, Statement>();
  #taken: Promise<void> | null = null;
  #vaultLook: Omit<VaultLook, "answered"> | null = null;
  #held: { of: string; pieces: readonly Held[] } = { of: "", pieces: [] };

  constructor(behind: Behind) {
    this.#behind = behind;
  }

  // ── looking ────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** All that the page shows. */
  async look(): Promise<Json> {
    const behind = this.#behind;
    const { state, consent, policy, dailyBytes } = behind;
    await this.#takeUpKept();
    const [known, vault, held] = [await this.#known(), await this.#lookAtVault(), await this.#evidence()];
    const shown = await view({
      ...{ state, vault, held, known, consent, policy, dailyBytes },
      now: behind.now(),
      unanswered: (digest) => behind.unanswered(digest),
      statementOf: (document) => this.#statement(document),
    });
    const setUp = state.settings.setUp()?.urls ?? [];
    return {
      ...shown,
      offers: offersView(this.#offers, { state, vault, way: behind.way() }),
      troubles: await this.#troubles(known),
      // To which its person has to let it go: to ask for experiments, and to take part.
      relays: [...new Set([...setUp, ...relaysOf(known.filter(([{ status }]) => TAKES_PART.includes(status)))])],
    };
  }

  /** What is wrong with the device as a whole. */
  async #troubles(known: readonly Known[]): Promise<readonly unknown[]> {
    const fault = this.#behind.fault();
    const going = known.filter(([{ status, ending }]) => status === "joined" && ending === null);
    const withdrawn = going.length > 0 && !(await this.#behind.allows(relaysOf(going)));
    return [...(fault === null ? [] : [faultOf(fault)]), ...(withdrawn ? [say("trouble.permission").content()] : [])];
  }

  /** Some of the person's own features of a source, those that weigh most. Only ever on their own screen. */
  async examples(source: string): Promise<Json> {
    const features = [...(await this.#behind.vault.features(source))];
    features.sort(([a, x], [b, y]) => Math.abs(y) - Math.abs(x) || (a < b ? -1 : 1));
    return { examples: features.slice(0, MOST_EXAMPLES).map(([feature, value]) => ({ feature, value })) };
  }

  /** Forget this word or host, and read it no more. */
  async exclude(feature: string): Promise<void> {
    this.#vaultLook = null;
    await this.#behind.vault.exclude([feature.startsWith(HOST) ? asExcluded(feature.slice(HOST.length)) : feature]);
  }

  /** Forget all that a source gave. */
  async remove(source: string): Promise<void> {
    this.#vaultLook = null;
    await this.#behind.vault.forget(source);
  }

  /** The label by the last model that the device believes. */
  async predict(digest: string): Promise<Prediction> {
    const { state, vault, shelf } = this.#behind;
    return predictFor(digest, state, vault, (model, document) => shelf.kept(model, document));
  }

  /** One piece as a file, by its number. */
  async evidence(number: number): Promise<Held["data"]> {
    return chooseOne(await this.#evidence(), number).data;
  }

  // ── deciding ───────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Take an invite up, and show its experiment. */
  async invite(line: string): Promise<void> {
    await this.#behind.takeUp(line);
    this.#taken = null;
    await this.#takeUpKept();
  }

  /** Ask the coordinator, through a relay, for experiments; or for one. */
  async find(digest: string | null): Promise<void> {
    const { state } = this.#behind;
    const [way, now] = [this.#neededWay(), this.#behind.now()];
    if (digest !== null && !isDigest(digest)) {
      throw new BadInputError("an experiment is named by its digest, 64 hexadecimal digits");
    }
    await this.#takeUpKept();
    const went = await this.#offers.look(way, { now, digest });
    const found = [...this.#offers.known].map(([name, { envelope }]) => [name, envelope] as const);
    await state.writing(() => {
      state.putTraffic(Math.floor(now / DAY_MS), went);
      state.settings.putFound(found, now);
    });
  }

  /** Read of the browser's history what an experiment asks for, and no more; how many features it gave. */
  async bringIn(digest: string): Promise<number> {
    await this.#takeUpKept();
    const { features } = this.#offers.offer(digest).document;
    const [source, history] = [findSource(features.source), this.#behind.history()];
    if (history === null) throw new BadInputError("this browser does not allow the extension to read the history");
    this.#vaultLook = null;
    return importFrom(source, { history, now: this.#behind.now(), days: features.days }, this.#behind.vault);
  }

  /** Show an experiment again that was declined. */
  async reconsider(digest: string): Promise<void> {
    const record = this.#record(digest);
    if (record.status === "declined") await this.#offers.putAgain(digest, record.envelope);
  }

  /** Take part: the person has read what it means, and said yes. `answer`: their label, if they gave it here. */
  async join(digest: string, { answer, accepted }: { answer: string | null; accepted: Accepted }): Promise<void> {
    await this.#takeUpKept();
    const [way, { document, envelope }] = [this.#neededWay(), this.#offers.offer(digest)];
    // What cannot be joined fetches nothing.
    decisions.checkExperiment(document, way);
    way.consent.check(document, accepted);
    const salt = await fetchSalt(document, way.transport, way.policy, this.#behind.now());
    await decisions.join(this.#behind, envelope, way, { digest, salt, accepted, answer });
    this.#offers.drop(digest);
    this.#behind.decided();
  }

  /** No; and it is remembered, so that nobody asks again. */
  async decline(digest: string): Promise<void> {
    await this.#takeUpKept();
    await this.#behind.state.decline(digest, this.#offers.offer(digest).envelope);
    this.#offers.drop(digest);
  }

  /** Send and fetch nothing more, until resumed. */
  async pause(digest: string): Promise<void> {
    this.#record(digest);
    await decisions.pause(this.#behind.state, digest);
    this.#behind.decided();
  }

  /** Go on; whether it does. */
  async resume(digest: string): Promise<boolean> {
    this.#record(digest);
    const goesOn = await decisions.resume(this.#behind.state, digest);
    this.#behind.decided();
    return goesOn;
  }

  /** Leave for good. */
  async forget(digest: string): Promise<void> {
    this.#record(digest);
    await decisions.forget(this.#behind.state, this.#behind.vault, digest);
    this.#behind.decided();
  }

  /** The browser allows again what it once allowed. */
  async allowed(): Promise<void> {
    this.#behind.decided();
  }

  // ── what it stands on ──────────────────────────────────────────────────────────────────────────────────────────────

  #neededWay(): Way {
    const way = this.#behind.way();
    if (way === null) {
      throw new BadInputError("this device knows no relay, so nobody can be asked", { nextStep: "It needs an invite." });
    }
    return way;
  }

  #record(digest: string): ExperimentRecord {
    const record = this.#behind.state.record(digest);
    if (record === null) throw new BadInputError("this device does not know that experiment");
    return record;
  }

  /** Show again what is kept: the experiments that the person was invited to, and those that were found. Nobody is asked. */
  #takeUpKept(): Promise<void> {
    this.#taken ??= this.#takeUpOnce().catch((fault: unknown) => {
      this.#taken = null;
      throw fault;
    });
    return this.#taken;
  }

  async #takeUpOnce(): Promise<void> {
    const { state } = this.#behind;
    this.#offers.askedAt ??= state.settings.askedAt();
    const undecided = ([digest]: [string, unknown]): boolean => state.record(digest) === null && !this.#offers.known.has(digest);
    for (const [digest, envelope] of [...state.settings.found()].filter(undecided)) {
      // It was believed when it was found; what cannot be told of it was told then.
      await this.#offers.put(digest, envelope).catch(ofStrangers);
    }
    for (const digest of state.settings.invitations().keys()) this.#offers.invited.add(digest);
    for (const [digest, envelope] of [...state.settings.invitations()].filter(undecided)) {
      await this.#offers.putInvited(digest, envelope);
    }
  }

  /** What it means to take part; or say that nobody can know. */
  #reckon(document: ExperimentDocument): Meaning {
    try {
      const statement = this.#statement(document);
      return {
        short: contents(inShort(document, statement)),
        leaves: contents(whatLeaves(document, statement, this.#behind.policy)),
        figures: contents(figures(document, statement)),
      };
    } catch (fault) {
      // Numbers out of any range, or more than there is patience for.
      if (!(fault instanceof SecVMError || fault instanceof RangeError)) throw fault;
      throw new UnreckonedError("what it would mean to take part cannot be calculated");
    }
  }

  #statement(document: ExperimentDocument): Statement {
    let statement = this.#statements.get(document.digest);
    if (statement === undefined) {
      const enough = until(() => this.#behind.steady(), PATIENCE_S);
      statement = withPatience(enough, () => this.#behind.consent.statement(document));
      this.#statements.set(document.digest, statement);
    }
    return statement;
  }

  async #known(): Promise<Known[]> {
    const known: Known[] = [];
    for (const record of this.#behind.state.records()) {
      const { digest, envelope } = record;
      const document = this.#documents.get(digest) ?? (await readPublished(envelope, { digest }));
      this.#documents.set(digest, document);
      known.push([record, document]);
    }
    return known;
  }

  /** Read when it has changed: only this desk changes it. */
  async #lookAtVault(): Promise<VaultLook> {
    const { vault } = this.#behind;
    this.#vaultLook ??= await vault.look();
    return { ...this.#vaultLook, answered: new Set(vault.answered()) };
  }

  /** Verified once, and again when there is more: each piece may hold a whole model. */
  async #evidence(): Promise<readonly Held[]> {
    const { state } = this.#behind;
    const of = state.records().map(({ digest }) => `${digest} ${state.evidence(digest).length}`).join();
    if (of !== this.#held.of) this.#held = { of, pieces: await evidenceOf(state) };
    return this.#held.pieces;
  }
}

function relaysOf(known: readonly Known[]): string[] {
  return known.flatMap(([, { relays }]) => relays.map(({ url }) => url));
}

function ofStrangers(fault: unknown): void {
  if (!(fault instanceof SecVMError)) throw fault;
}
