/**
 * One experiment with two relays on one device: its session, its requests and its askings, put together.
 *
 * It asks for a newer manifest, looks at the log again while a window is open, and looks for its canaries. What it hears
 * goes to the session; what cannot be makes it stop (`distrust.ts`). A round is prepared in this order, each step
 * durably: its one label and its place in the ledger; the sealed request with its canary, before its first byte leaves.
 *
 * It starts nothing by itself: the device asks when it is to be woken, and lets it do what is due.
 */

import { equal, hex } from "../bytes.ts";
import { opensInHours, Polling, spreadMs, type RoundNews } from "../device/polling.ts";
import {
  CheatingError,
  ConsentRefusedError,
  InconsistentManifestError,
  LocalProtocolError,
  OverLimitError,
  RemoteProtocolError,
  SecVMError,
  StoreError,
  UnreachableError,
} from "../errors.ts";
import { BinnedVector } from "../learning/individual/binning.ts";
import { contribute, type Individual } from "../learning/individual/contribution.ts";
import type { Dice } from "../learning/individual/dice.ts";
import type { Package } from "../learning/package.ts";
import { hostOf, type ExperimentDocument, type Relay } from "../protocol/documents/experiment.ts";
import type { Model } from "../protocol/documents/recomputation.ts";
import { labelOfRound, windowOf, type RelayedManifest } from "../protocol/relays/manifest.ts";
import { NEVER, type SendRequest } from "../protocol/relays/sessionEvents.ts";
import type { RelayTerms } from "../protocol/relays/statements.ts";
import { drawOrder, sealSubmission, SECRETS_BYTES } from "../protocol/relays/submission.ts";
import { below } from "../protocol/schedule.ts";
import { bytesOfARound } from "../sending/sealing.ts";
import { NotNowError, OVERHEAD_BYTES } from "../sending/transport.ts";
import type { ExperimentRecord, Status } from "../storage/kept.ts";
import { FreshLooks } from "../trust/freshLooks.ts";
import type { Now, Surroundings } from "../trust/surroundings.ts";
import { Canaries } from "./canaries.ts";
import { RelayedDistrust } from "./distrust.ts";
import { agree, bind, RoundToken } from "./preparation.ts";
import { Refusals } from "./refusals.ts";
import { RelayedRounds } from "./rounds.ts";
import { Turns } from "./turns.ts";

/** A device's part in one experiment with two relays. */
export class RelayedMembership extends Turns {
  /** Whether the experiment is over. */
  ended: boolean;
  protected readonly looking: FreshLooks | null;
  readonly #person: Individual;
  readonly #dice: Dice;
  readonly #rounds: RelayedRounds;
  readonly #distrust: RelayedDistrust;
  readonly #polling: Polling;
  readonly #refusals: Refusals;
  readonly #token: RoundToken;
  readonly #canaries: Canaries;
  #pollAt = NEVER;
  /** When a round's packages are to be computed. */
  #prepareAt = NEVER;
  #busy = false;
  /** Askings that were answered. */
  #answered = 0;
  /** What relays signed for the round that is prepared; each is asked once for a round. */
  readonly #terms = new Map<string, RelayTerms | null>();

  private constructor(rounds: RelayedRounds, record: ExperimentRecord, document: ExperimentDocument, dice: Dice) {
    super(rounds.around, document);
    if (record.person === null) throw new LocalProtocolError("nobody has joined this experiment on this device");
    const { vector, label, target, cohort } = record.person;
    const bins = new BinnedVector(vector.values, vector.nBins);
    this.#person = { vector: bins, label, target: BigInt(target), cohort };
    this.#dice = dice;
    this.#rounds = rounds;
    this.#distrust = new RelayedDistrust(this.around.state, document.digest);
    rounds.settle = (ended) => this.#distrust.settle(ended);
    this.ended = record.ending !== null;
    this.#polling = new Polling(document.windows, this.around.words);
    const { log } = rounds;
    this.looking = log === null ? null : new FreshLooks(this.around, document.digest, log.trusted);
    this.#refusals = new Refusals(this.around, document.digest);
    this.#token = new RoundToken(this.around, document, this.#refusals);
    this.#canaries = new Canaries(this.around, document, record.envelope);
  }

  /** The part of whoever has joined, as it was when the worker died. Throws a `BadInputError`: see `HeldLog`. */
  static async takenUp(
    around: Surroundings,
    record: ExperimentRecord,
    document: ExperimentDocument,
    { dice, now }: { dice: Dice; now: number },
  ): Promise<RelayedMembership> {
    const { digest, envelope, status } = record;
    const made = new RelayedMembership(new RelayedRounds(around, document, envelope), record, document, dice);
    const model = around.state.model(digest);
    if (model !== null) await around.shelf.hold(digest, model.weights);
    made.#askAfterRound(now);
    if (around.state.relayedSession(digest) !== null) {
      await made.tell({ kind: "restarted" }, now);
      if (made.rounds.has(made.roundNumber)) made.#lookAgain(now);
    }
    await made.#distrust.countUnopened();
    made.#canaries.plan(now);
    await made.setStatus(status, now);
    await made.#checkLooks(now);
    const { why } = made.#distrust;
    // It was killed after it had stored why, and before it had given the round up.
    if (why !== null && !made.isIdle) await made.tell({ kind: "stopped", sentence: why }, now);
    return made;
  }

  // ── what is known ──────────────────────────────────────────────────────────────────────────────────────────────────

  /** Why no round is joined for now; null: it takes part. */
  get distrust(): string | null {
    return this.#distrust.why;
  }

  /** How many canaries are still to be looked for. */
  get canaries(): number {
    return this.around.state.relayed.countCanaries(this.document.digest);
  }

  /** How many askings for a manifest in a row nobody answered. */
  get unanswered(): number {
    return this.ended || this.#standsStill ? 0 : this.#polling.unanswered;
  }

  /** Whether nothing at all is fetched or computed. */
  get #standsStill(): boolean {
    return this.left || this.session.paused;
  }

  // ── what the device asks ───────────────────────────────────────────────────────────────────────────────────────────

  /** When there is something to do next, if nothing happens before. */
  get wakeAt(): number {
    return Math.min(this.tickAt, this.#busy ? NEVER : this.#workAt);
  }

  /** When something is to be fetched or computed next. */
  get #workAt(): number {
    if (this.#standsStill) return NEVER;
    return Math.min(this.ended ? NEVER : this.#prepareAt, this.#askAt);
  }

  /** Whether `work` has something to fetch or compute; then it is not wanted again until that is done. */
  takesWork(now: number): boolean {
    const isWanted = !this.#busy && this.#workAt <= now;
    this.#busy ||= isWanted;
    return isWanted;
  }

  /** Prepare the round's packages if they are wanted, or ask for what is due. */
  async work(now: Now): Promise<void> {
    try {
      const moment = now();
      if (this.#workAt > moment) return;
      if (this.ended || this.#prepareAt > moment) await this.#ask(now);
      else if (await this.#prepare(now)) this.#lookAgain(now());
    } finally {
      this.#busy = false;
    }
  }

  /** A round is joined, or was before a restart: the log is looked at again in its window. */
  #lookAgain(now: number): void {
    if (this.manifest !== null) this.looking?.joined(this.roundNumber, windowOf(this.manifest), now);
  }

  /** What the person has decided. */
  async setStatus(status: Status, now: number): Promise<void> {
    const { paused } = this.session;
    if (status === "paused" && !paused) await this.tell({ kind: "paused" }, now);
    else if (status === "joined" && paused) {
      await this.tell({ kind: "resumed" }, now);
      // A round that runs is left to its end; else there may be something new.
      if (this.isIdle) this.#pollAt = this.#polling.first(now);
      else this.#askAfterRound(now);
    }
  }

  // ── preparing ──────────────────────────────────────────────────────────────────────────────────────────────────────

  protected plan(now: number): void {
    this.#prepareAt = this.manifest === null ? NEVER : this.#token.when(this.manifest, now);
  }

  /** Whether the session still wants it: it may be over, or another, since something was asked. */
  #isWanted(manifest: RelayedManifest): boolean {
    return this.manifest === manifest && this.session.phase === "computing";
  }

  /** Compute and seal the packages of the round that the session is in; whether they are there now. */
  async #prepare(now: Now): Promise<boolean> {
    const { manifest, document } = this;
    this.#prepareAt = NEVER;
    if (manifest === null || !this.#isWanted(manifest)) return false;
    const { why } = this.#distrust;
    if (why !== null) {
      await this.tell({ kind: "declined", why }, now());
      return false;
    }
    // Where each package goes, the canary too, before anything of the person is looked at.
    const order = drawOrder(document.budget, this.around.words);
    try {
      return await this.#seal(manifest, order, now);
    } catch (fault) {
      if (fault instanceof UnreachableError) await this.#prepareLater(manifest, fault.message, now());
      // Of what the disk refuses nothing is known here any more.
      else if (!(fault instanceof SecVMError) || fault instanceof StoreError) throw fault;
      // Terms that do not do, a budget that is spent: nothing of the person is in these sentences.
      else if (this.session.phase === "computing") await this.tell({ kind: "declined", why: fault.message }, now());
    }
    return false;
  }

  async #seal(manifest: RelayedManifest, order: readonly number[], now: Now): Promise<boolean> {
    const { around, document } = this;
    const askTerms = (relay: Relay): Promise<RelayTerms | null> => this.#askTerms(relay, manifest);
    await agree(around, document, { untimely: this.#untimely(manifest.instants.opensAt, now()), askTerms });
    const token = await this.#token.ask(manifest, now);
    const model = this.#rounds.model();
    const { caps } = around.policy;
    const why = caps.refuses(model.training) ?? caps.refuses(model.evaluation);
    if (this.left || !this.#isWanted(manifest)) return false;
    if (why !== null) throw new ConsentRefusedError(why);
    if (token === null) {
      // Asked again, with the same bytes, until the window closes.
      const again = this.#token.again(manifest, now());
      if (again === null) throw new ConsentRefusedError(silence(document.entryRelay));
      this.#prepareAt = again;
      return false;
    }
    await bind(around.state, document, manifest);
    // From here on it counts: nothing of the round exists before.
    await around.consent.enter(document, manifest.roundNumber);
    const ephemerals = around.randomBytes(SECRETS_BYTES * document.budget);
    const packages = this.#contribute(model, manifest.roundNumber);
    const submission = await sealSubmission(document, manifest, packages, { order, ephemerals, token });
    await this.#keepModel(manifest);
    if (this.left || !this.#isWanted(manifest)) return false;
    await this.tell({ kind: "requestReady", submission }, now());
    return true;
  }

  #contribute({ training, evaluation }: Model, round: number): Package[] {
    const { experiment } = this.document;
    return contribute(this.#person, { experiment, training, evaluation, dice: this.#dice, round });
  }

  async #askTerms(relay: Relay, manifest: RelayedManifest): Promise<RelayTerms | null> {
    const name = `${relay.url} ${hex(labelOfRound(manifest))}`;
    const known = this.#terms.get(name) ?? (await this.#fetchTerms(relay, manifest));
    for (const other of this.#terms.keys()) if (!other.endsWith(hex(labelOfRound(manifest)))) this.#terms.delete(other);
    if (known !== null) this.#terms.set(name, known);
    return known;
  }

  async #fetchTerms(relay: Relay, manifest: RelayedManifest): Promise<RelayTerms | null> {
    if (this.#refusals.isSilent(relay, manifest)) throw new ConsentRefusedError(silence(relay));
    try {
      const terms = await this.around.transport.relayedTerms(relay);
      await this.#refusals.heard(relay, manifest, true);
      return terms;
    } catch (fault) {
      if (fault instanceof UnreachableError) await this.#refusals.heard(relay, manifest, fault instanceof NotNowError);
      if (this.#refusals.isSilent(relay, manifest)) throw new ConsentRefusedError(silence(relay));
      throw fault;
    }
  }

  /** Why a round whose window opens then is not for this device, in one sentence; null: it is. */
  #untimely(opensAt: number, now: number): string | null {
    if (!opensInHours(this.document.windows, opensAt)) {
      return "the window opens outside the experiment's hours of the day";
    }
    if (!this.around.traffic.allows(bytesOfARound(this.document), now)) {
      return "this round would go beyond the device's limit of traffic for a day";
    }
    return null;
  }

  /** The model of this round is the last one that the device believes, with its file. */
  async #keepModel(manifest: RelayedManifest): Promise<void> {
    const [{ state, shelf }, { digest }] = [this.around, this.document];
    await shelf.hold(digest, manifest.evaluationWeights);
    await state.writing(() => state.putModel(digest, manifest));
  }

  /**
   * A relay that is away for a moment costs nobody a round: it is asked again as long as the window is not over, each
   * time after a random while.
   */
  async #prepareLater(manifest: RelayedManifest, why: string, now: number): Promise<void> {
    if (!this.#isWanted(manifest)) return;
    const { entryRelay, mixRelay, windows } = this.document;
    const isRefused = [entryRelay, mixRelay].some((relay) => this.#refusals.isRefused(relay, manifest));
    const at = now + (isRefused ? this.#refusals.wait(manifest, now) : below(spreadMs(windows), this.around.words));
    if (at < manifest.instants.closesAt) this.#prepareAt = at;
    else await this.tell({ kind: "declined", why }, now);
  }

  // ── sending ────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Send this, if it may still leave, and tell the session what became of it. */
  async send({ label, body }: SendRequest, now: Now): Promise<void> {
    const { manifest, around } = this;
    if (this.left || manifest === null || !this.isSending || !equal(labelOfRound(manifest), label)) return;
    if (this.session.paused || now() >= manifest.instants.acceptUntil) {
      await this.tell({ kind: "notTaken", retryAfterMs: 0, final: false }, now());
      return;
    }
    const { entryRelay, tokens: anonymous } = this.document;
    if (this.#refusals.isSilent(entryRelay, manifest)) return this.#giveUp(now());
    around.traffic.add(body.length + OVERHEAD_BYTES, now());
    const reply = await around.transport.submit(body, label, entryRelay, { anonymous });
    const { content, answered, retryAfterMs, final } = reply;
    await this.#refusals.heard(entryRelay, manifest, answered);
    if (this.#refusals.isSilent(entryRelay, manifest)) await this.#giveUp(now());
    else if (!answered) await this.tell({ kind: "notTaken", retryAfterMs: this.#refusals.wait(manifest, now()), final }, now());
    else if (content === null) await this.tell({ kind: "notTaken", retryAfterMs, final }, now());
    else await this.tell({ kind: "taken", receipt: content }, now());
  }

  /** Nobody answers: nothing more of the round leaves. */
  async #giveUp(now: number): Promise<void> {
    this.note({ reason: "DECLINED", sentence: silence(this.document.entryRelay) });
    await this.tell({ kind: "notTaken", retryAfterMs: 0, final: true }, now);
  }

  // ── asking ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** When something is to be asked next. */
  get #askAt(): number {
    return Math.min(this.ended ? NEVER : this.#pollAt, this.#lookAt, this.#canaryAt);
  }

  get #lookAt(): number {
    return this.ended || this.looking === null || this.distrust !== null ? NEVER : this.looking.at;
  }

  get #canaryAt(): number {
    return this.distrust !== null ? NEVER : this.#canaries.at;
  }

  /** Ask at a time after now; of a round that is known, after its mixing relay has handed on. */
  #askAfterRound(now: number): void {
    this.#pollAt = this.#polling.first(Math.max(now, this.manifest?.instants.mixBy ?? 0));
  }

  /** Ask whatever is due. */
  async #ask(now: Now): Promise<void> {
    if (this.#canaryAt <= now() && now() < this.#lookAt) return this.#lookForCanary(now);
    if (this.looking === null || this.#lookAt > now()) return this.#poll(now);
    const finding = await this.looking.look(now);
    if (this.left) return;
    if (finding !== null && "distrusted" in finding) await this.#convict(finding.distrusted, finding.evidence, now());
    else if (finding !== null) this.note(finding);
    await this.#checkLooks(now());
  }

  /** Ask for a newer manifest, and for what came of the rounds since. */
  async #poll(now: Now): Promise<void> {
    let news: RoundNews | null;
    try {
      news = await this.#rounds.ask(now);
    } catch (fault) {
      if (!(fault instanceof RemoteProtocolError || fault instanceof OverLimitError)) throw fault;
      await this.#disbelieve(fault, now());
      this.#pollAt = this.#polling.again(now());
      return;
    }
    if (this.left) return;
    if (news === null) this.#pollAt = this.#polling.failed(now());
    else await this.#hear(news, now);
  }

  /** Tell the session what an asking has brought, and say when the next is. */
  async #hear(news: RoundNews, now: Now): Promise<void> {
    this.#answered += 1;
    if (news.unopened !== null) await this.#distrust.withoutOpening(news.unopened);
    await this.#distrust.countUnopened();
    await this.#checkLooks(now());
    const before = this.manifest;
    if (news.ending !== null) {
      this.ended = true;
      await this.around.shelf.hold(this.document.digest, news.ending.evaluationWeights);
    } else if (news.manifest !== null && !this.session.paused) {
      await this.tell({ kind: "roundAnnounced", envelope: news.manifest, ahead: news.ahead }, now());
    }
    if (this.manifest === before) this.#pollAt = this.#polling.again(now());
    else this.#askAfterRound(now());
    this.#canaries.plan(now());
  }

  async #lookForCanary(now: Now): Promise<void> {
    try {
      const loss = await this.#canaries.look(now, { answered: this.#answered, ended: this.ended });
      if (loss === null || this.left) return;
      await this.#distrust.lose(loss);
      await this.tell({ kind: "stopped", sentence: loss.sentence }, now());
    } catch (fault) {
      if (!(fault instanceof CheatingError)) throw fault;
      await this.#convict(fault.message, fault.evidence, now());
    }
  }

  // ── stopping ───────────────────────────────────────────────────────────────────────────────────────────────────────

  /** What an asking brought cannot be believed. Nothing has changed: it is asked again, and no round is joined meanwhile. */
  async #disbelieve(fault: RemoteProtocolError | OverLimitError, now: number): Promise<void> {
    if (fault instanceof CheatingError) await this.#convict(fault.message, fault.evidence, now);
    else if (!(fault instanceof InconsistentManifestError)) {
      const reason = fault instanceof OverLimitError ? "DECLINED" : "BAD_MANIFEST";
      this.note({ reason, sentence: fault.message });
    } else if (this.distrust === null) {
      // The coordinator signed what cannot be.
      await this.#distrust.put(fault.message);
      await this.tell({ kind: "stopped", sentence: fault.message }, now);
    }
  }

  /** Take no part from now on, where too many rounds in a row were without an answered look. */
  async #checkLooks(now: number): Promise<void> {
    const why = this.looking?.tooManyUnseen() ?? null;
    if (why !== null) await this.#convict(why, null, now);
  }

  /** The log is not what it was, or the server contradicts itself; with what shows it, where something does. */
  async #convict(sentence: string, evidence: Uint8Array | null, now: number): Promise<void> {
    if (this.left) return;
    const isFirst = this.distrust === null;
    // Evidence is kept whatever has stopped the device before; one piece is enough.
    if (isFirst || (evidence !== null && !this.#distrust.convicted)) {
      await this.#distrust.convict(this.roundNumber, sentence, evidence);
    }
    if (isFirst) await this.tell({ kind: "stopped", sentence }, now);
  }
}

function silence(relay: Relay): string {
  return `the ${relay.role} relay ${hostOf(relay)} has not answered three times, so it is left alone until the next round`;
}
