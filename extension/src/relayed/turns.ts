/**
 * The session of one experiment, which decides: told, stored, then acted upon.
 *
 * A turn has one order: tell the session, store what changed, then do what it says. So whatever has left the device, or
 * is about to, is on the disk before. What became of the round and why it is not joined is stored with it.
 */

import type { Bytes } from "../bytes.ts";
import type { RoundCounts } from "../device/polling.ts";
import type { ExperimentDocument } from "../protocol/documents/experiment.ts";
import { MANIFEST, windowOf, type RelayedManifest } from "../protocol/relays/manifest.ts";
import { RelayedSession } from "../protocol/relays/session.ts";
import {
  NEVER,
  type Abstention,
  type RelayedAction,
  type RelayedEvent,
  type SendRequest,
} from "../protocol/relays/sessionEvents.ts";
import type { RoundHistory } from "../storage/kept.ts";
import type { FreshLooks } from "../trust/freshLooks.ts";
import type { Surroundings } from "../trust/surroundings.ts";

/**
 * A timer is never exact, and nothing may leave after the window: what is due within its last moment, which is a tenth
 * of a second, or a two-hundredth of a short window, is sent when that begins.
 */
const [LAST_MOMENT_MS, LAST_PART] = [100, 200];

/** The session of one experiment, and what it wants done. */
export abstract class Turns {
  readonly document: ExperimentDocument;
  readonly session: RelayedSession;
  /** What became of every round that was joined. */
  readonly rounds: Map<number, RoundHistory>;
  /** The person has forgotten the experiment while something of it was under way. */
  left = false;
  /** What is due. */
  readonly outbox: SendRequest[] = [];
  protected readonly around: Surroundings;
  /** Null: there is no log. */
  protected abstract readonly looking: FreshLooks | null;
  #pending: ((RoundHistory & { kind: "finished" }) | (Abstention & { kind: "abstained"; round: number }))[] = [];
  /** What was last noted about a server that could not be believed: once is enough. */
  #noted = "";
  #tickAt = NEVER;
  /** The round whose last moment has come. */
  #hurried = 0;

  constructor(around: Surroundings, document: ExperimentDocument) {
    this.around = around;
    this.document = document;
    const { state } = around;
    this.rounds = new Map(state.history(document.digest).map((row) => [row.roundNumber, row]));
    const kept = state.relayedSession(document.digest);
    this.session =
      kept === null ? new RelayedSession(document) : RelayedSession.fromParts(kept.header, kept.request, document);
  }

  /** The session wants the packages of its round. */
  protected abstract plan(now: number): void;

  /** Of the newest round that the session knows. */
  get manifest(): RelayedManifest | null {
    return this.session.manifest;
  }

  /** The newest round that the session knows; 0: none. */
  get roundNumber(): number {
    return this.manifest?.roundNumber ?? 0;
  }

  /** Whether no round is joined now. */
  protected get isIdle(): boolean {
    return this.session.phase === "idle";
  }

  /** Whether the session's round is joined and not over. */
  protected get isSending(): boolean {
    return this.session.phase === "sending";
  }

  /** What became of every round it joined, the running one included. */
  counts(): RoundCounts[] {
    return [...this.rounds.values()].map(({ roundNumber, acknowledged, lost }) => {
      const runs = this.isSending && roundNumber === this.roundNumber;
      return { roundNumber, waiting: runs ? this.document.budget : 0, acknowledged, lost, done: !runs };
    });
  }

  // ── the time ───────────────────────────────────────────────────────────────────────────────────────────────────────

  /** When the session wants to see the time next. */
  get tickAt(): number {
    return Math.min(this.#tickAt, this.#lastMoment);
  }

  /** When the last moment of the window begins, if a request waits for it and it has not begun yet. */
  get #lastMoment(): number {
    const { manifest } = this;
    const isOver = manifest === null || this.#hurried === manifest.roundNumber;
    if (isOver || !this.isSending || this.session.paused) return NEVER;
    const { opensAt, closesAt } = windowOf(manifest);
    return closesAt - Math.min(LAST_MOMENT_MS, Math.floor((closesAt - opensAt) / LAST_PART));
  }

  /** Let the session see the time. */
  async tick(now: number): Promise<void> {
    const { manifest } = this;
    if (manifest !== null && this.#lastMoment <= now) {
      this.#hurried = manifest.roundNumber;
      await this.tell({ kind: "tick" }, Math.max(now, manifest.instants.closesAt - 1));
    } else if (this.#tickAt <= now) {
      await this.tell({ kind: "tick" }, now);
    }
  }

  // ── storing, acting ────────────────────────────────────────────────────────────────────────────────────────────────

  /** One turn. What must not be lost is stored before anything is done about it. */
  async tell(event: RelayedEvent, now: number): Promise<void> {
    if (this.left) return;
    const actions = await this.session.receive(event, { now, words: this.around.words });
    this.#tickAt = NEVER;
    for (const action of actions) this.#note(action);
    // That a request leaves is noted first: whoever is killed then sends it again also after the window. That time has
    // passed may be stored with the rest.
    const isLater = (event.kind === "tick" || event.kind === "restarted") && !actions.some(isWorthStoring);
    if (!isLater) await this.around.state.writing(() => this.write());
    for (const action of actions) {
      if (action.kind === "sendRequest" && !this.left) this.outbox.push(action);
      if (action.kind === "prepare") this.plan(now);
    }
  }

  #note(action: RelayedAction): void {
    if (action.kind === "wait") this.#tickAt = action.until;
    else if (action.kind === "abstain") this.#pending.push({ ...action, kind: "abstained", round: this.roundNumber });
    else if (action.kind === "roundDone") {
      const { budget: packages } = this.document;
      const [acknowledged, lost] = action.receipt ? [packages, 0] : [0, packages];
      const row = { roundNumber: action.roundNumber, packages, acknowledged, lost };
      this.rounds.set(row.roundNumber, row);
      this.#pending.push({ ...row, kind: "finished" });
    }
  }

  /** Keep why a round is not joined, once. */
  note(abstention: Abstention): void {
    const noted = `${this.roundNumber} ${abstention.reason} ${abstention.sentence}`;
    if (this.#noted === noted || this.left) return;
    this.#noted = noted;
    this.#pending.push({ ...abstention, kind: "abstained", round: this.roundNumber });
  }

  /** Write what has changed, inside a transaction of the state. */
  write(): void {
    const [{ digest, budget }, { state }] = [this.document, this.around];
    const changes = this.session.takeChanges();
    const manifest: Bytes = this.manifest === null ? new Uint8Array() : MANIFEST.toBytes(this.manifest);
    state.putRelayedSession(digest, changes, manifest);
    // The token travels in the request.
    if (changes.sealed !== null) state.relayed.dropTokenSeed(digest);
    if (this.isSending && !this.rounds.has(this.roundNumber)) {
      state.putJoined(digest, this.roundNumber, budget);
      this.rounds.set(this.roundNumber, {
        ...{ roundNumber: this.roundNumber, packages: budget, acknowledged: 0, lost: 0 },
      });
    }
    this.looking?.write();
    for (const pending of this.#pending) {
      if (pending.kind === "finished") state.putFinished(digest, pending);
      else state.putAbstention(digest, pending.round, { ...pending, evidence: [] });
    }
    this.#pending = [];
  }

  /** The person has left: nothing more is sent or written here. */
  leave(): void {
    this.left = true;
    this.outbox.length = 0;
    this.#tickAt = NEVER;
  }
}

function isWorthStoring({ kind }: RelayedAction): boolean {
  return kind === "roundDone" || kind === "sendRequest";
}
