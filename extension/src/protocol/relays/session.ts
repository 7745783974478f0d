/**
 * RelayedSession: a device's part in an experiment with two relays. Events in, actions out; it does nothing itself.
 *
 * Its owner hands in every event with the time and dice, **stores** what has changed (`takeChanges`), and only then
 * carries out the actions. The rules (docs/protocol.md §28):
 *
 *  1. It joins a round only with a manifest that its owner believes, received before the window opens, by a clock that
 *     seems right. Else it abstains, and says why.
 *  2. A round has one request, sealed once; the session never holds another one for this round.
 *  3. The request has one random time in the window. Overdue after a restart, a pause or sleep, it gets a new one in
 *     what is left of the window: sent at once it would tell when the person came back.
 *  4. What was not taken is sent again, the same bytes, after a random time that doubles with each attempt, until
 *     accept_until. What was under way during a crash is sent again too: the entry relay knows it by its root.
 *  5. Nothing is sent for the first time from `closesAt` on, nor anything while paused. With the receipt, or at
 *     `acceptUntil`, the request is forgotten. The canary stays only where there is a receipt.
 *
 * What is stored is a header, which is small, and the request with its canary while it is on its way. A canary with its
 * receipt is handed over once.
 */

import { equal, type Bytes } from "../../bytes.ts";
import { BadProofError, BadSignatureError, LocalProtocolError, MalformedMessageError } from "../../errors.ts";
import type { ExperimentDocument } from "../documents/experiment.ts";
import { below, makeWindow, spread, type Window } from "../schedule.ts";
import { MANIFEST, readAccepted, windowOf, labelOfRound, type RelayedManifest } from "./manifest.ts";
import type { RelayedAction, RelayedEvent } from "./sessionEvents.ts";
import {
  CLOCK_TOLERANCE_MS,
  FIRST_BACKOFF_MS,
  GRACE_MS,
  LAST_BACKOFF_MS,
  LONGEST_BACKOFF_MS,
  REASONS,
  SESSION_HEADER,
  type Phase,
  type Reason,
} from "./sessionEvents.ts";
import { readStatement } from "./statements.ts";
import { CANARY, checkReceipt, readRequest, RECEIPT, tokenBytes, type Canary } from "./submission.ts";

/** A request on its way, as it is stored beside the header. */
interface Stored {
  readonly body: Bytes;
  readonly canary: Bytes;
}

/** A sealed request on its way, and its canary as bytes. */
interface PendingRequest extends Stored {
  /** When it is to be sent. */
  readonly at: number;
  readonly attempts: number;
  readonly underWay: boolean;
}

/** What has changed since the owner last asked. */
export interface SessionChanges {
  /** Null: as before. */
  readonly header: Bytes | null;
  /** A request that is new; it is never another one of the same round. */
  readonly sealed: Stored | null;
  /** The request is done with. */
  readonly forget: boolean;
  /** A canary whose receipt has come. */
  readonly taken: { readonly roundNumber: number; readonly canary: Bytes } | null;
}

/** One device in one experiment. */
export class RelayedSession {
  /** Of the round that was announced last. */
  manifest: RelayedManifest | null = null;
  phase: Phase = "idle";
  paused = false;
  readonly #document: ExperimentDocument;
  /** Envelope of that manifest. */
  #accepted: Bytes | null = null;
  /** The latest instant seen, to notice a clock that falls back. */
  #latest = 0;
  #request: PendingRequest | null = null;
  #receipted: Canary | null = null;
  #isSealed = false;
  #forgets = false;
  /** The header that the owner was told last. */
  #told: Bytes | null = null;

  constructor(document: ExperimentDocument) {
    this.#document = document;
  }

  /**
   * The session whose changes were stored as they came. Tell it "restarted" first of all.
   *
   * Throws a `MalformedMessageError` where the parts are none that a session has written, or do not fit together.
   */
  static fromParts(header: Bytes, row: Stored | null, document: ExperimentDocument): RelayedSession {
    const { experiment, accepted, phase, paused, latest, at, attempts } = SESSION_HEADER.fromBytes(header);
    if (experiment !== document.digest) throw new MalformedMessageError("the session is of another experiment");
    const session = new RelayedSession(document);
    [session.phase, session.paused, session.#latest, session.#told] = [phase, paused, latest, header];
    if (accepted !== null) {
      session.#accepted = accepted;
      session.manifest = readAccepted(accepted, document);
    }
    if (at !== null && attempts !== null && row !== null) {
      session.#request = { at, attempts, underWay: false, body: row.body, canary: row.canary };
    }
    session.#checkParts(row);
    return session;
  }

  #checkParts(row: Stored | null): void {
    const { manifest } = this;
    const [request, isSending] = [this.#request, this.phase === "sending"];
    const fits = isSending === (request !== null) && (row === null) === (request === null);
    if (!fits || (this.phase !== "idle" && manifest === null)) {
      throw new MalformedMessageError("the session's parts do not fit together");
    }
    if (request === null || manifest === null) return;
    readRequest(request.body, { budget: this.#document.budget, token: tokenBytes(this.#document) });
    if (!equal(CANARY.fromBytes(request.canary).label, labelOfRound(manifest))) {
      throw new MalformedMessageError("the session's request is of another round than its manifest");
    }
  }

  /** What is to be stored, in one transaction, before any action is carried out. */
  takeChanges(): SessionChanges {
    const [request, receipted] = [this.#request, this.#receipted];
    const header = SESSION_HEADER.toBytes({
      experiment: this.#document.digest,
      ...{ accepted: this.#accepted, phase: this.phase, paused: this.paused, latest: this.#latest },
      ...{ at: request?.at ?? null, attempts: request?.attempts ?? null },
    });
    const changes = {
      header: this.#told !== null && equal(header, this.#told) ? null : header,
      sealed: request !== null && this.#isSealed ? { body: request.body, canary: request.canary } : null,
      forget: this.#forgets,
      taken: receipted && { roundNumber: receipted.roundNumber, canary: CANARY.toBytes(receipted) },
    };
    [this.#told, this.#isSealed, this.#forgets, this.#receipted] = [header, false, false, null];
    return changes;
  }

  /**
   * What to do about an event. `now` in milliseconds; `words` are fresh dice.
   *
   * Throws a `LocalProtocolError` where the owner told something that cannot be, such as a request nobody asked for.
   * Nothing has changed then.
   */
  async receive(event: RelayedEvent, { now, words }: { now: number; words: Iterator<bigint> }): Promise<RelayedAction[]> {
    // A signature is looked at before anything changes: nothing comes in between then.
    const receipt = event.kind === "taken" ? await this.#receiptOf(event.receipt) : null;
    const actions = this.#handle(event, receipt, now, words);
    this.#latest = Math.max(this.#latest, now);
    // The owner was away, or is late by itself: what is overdue now is no timer's fault.
    const cameBack = ["restarted", "resumed", "requestReady"].includes(event.kind);
    return [...actions, ...this.#goOn(now, words, cameBack ? 0 : GRACE_MS)];
  }

  #handle(event: RelayedEvent, receipt: Canary | null, now: number, words: Iterator<bigint>): RelayedAction[] {
    switch (event.kind) {
      case "roundAnnounced":
        return this.#announced(event.envelope, event.ahead, now);
      case "requestReady":
        return this.#ready(event.submission.body, event.submission.canary, now, words);
      case "taken":
        return this.#taken(receipt, now, words);
      case "notTaken":
        return this.#notTaken(event, now, words);
      case "stopped":
        return [...this.#close({ receipt: false }), abstain("DISTRUST", event.sentence)];
      case "declined":
        if (this.phase !== "computing") throw new LocalProtocolError("there is nothing to decline");
        this.phase = "idle";
        return [abstain("DECLINED", event.why)];
      case "restarted":
        return this.#restarted(now);
      case "paused":
      case "resumed":
        this.paused = event.kind === "paused";
        return [];
      case "tick":
        return [];
    }
  }

  // ── joining ────────────────────────────────────────────────────────────────────────────────────────────────────────

  #announced(envelope: Bytes, ahead: number | null, now: number): RelayedAction[] {
    const [manifest, before] = [readAccepted(envelope, this.#document), this.manifest];
    if (before !== null && manifest.roundNumber <= before.roundNumber) {
      if (MANIFEST.digest(manifest) === MANIFEST.digest(before)) return [];
      // The owner believes one chain of manifests: this is no round of it.
      throw new LocalProtocolError(
        `round ${manifest.roundNumber} was announced with other bytes, or after round ${before.roundNumber}`,
      );
    }
    const actions = this.#close({ receipt: false });
    [this.#accepted, this.manifest] = [envelope, manifest];
    const reason = this.#reasonAgainst(windowOf(manifest), before?.instants.closesAt ?? null, { ahead, now });
    if (reason !== null) return [...actions, abstain(reason)];
    this.phase = "computing";
    return [...actions, { kind: "prepare" }];
  }

  /** Why the device should not join a round with this window; null: it may. `closed`: when the window before did. */
  #reasonAgainst(
    window: Window,
    closed: number | null,
    { ahead, now }: { ahead: number | null; now: number },
  ): Reason | null {
    if (this.paused) return "PAUSED";
    // Without the server's word, a clock that falls back is noticed; and the next manifest is signed after the round
    // before has ended, so who has it earlier has a slow clock.
    const isWrong = ahead === null ? now < this.#latest - CLOCK_TOLERANCE_MS : Math.abs(ahead) > CLOCK_TOLERANCE_MS;
    if (isWrong || (closed !== null && now < closed - CLOCK_TOLERANCE_MS)) return "CLOCK";
    return now >= window.opensAt ? "LATE" : null;
  }

  #ready(body: Bytes, canary: Canary, now: number, words: Iterator<bigint>): RelayedAction[] {
    const { manifest } = this;
    if (this.phase !== "computing" || manifest === null) {
      throw new LocalProtocolError("nobody asked for a request, or it is already on its way");
    }
    if (now >= manifest.instants.closesAt) {
      this.phase = "idle";
      return [abstain("OVER")];
    }
    const { opensAt, closesAt } = manifest.instants;
    const [at] = spread(1, makeWindow(Math.max(now, opensAt), closesAt), words);
    this.#request = { at: at!, attempts: 0, underWay: false, body, canary: CANARY.toBytes(canary) };
    this.#isSealed = true;
    this.phase = "sending";
    return [];
  }

  #restarted(now: number): RelayedAction[] {
    this.#change({ underWay: false });
    const isOpen = this.manifest !== null && now < this.manifest.instants.closesAt;
    return this.phase === "computing" && isOpen ? [{ kind: "prepare" }] : [];
  }

  // ── sending ────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** The canary with this receipt, where it is one for the request that is on its way. */
  async #receiptOf(envelope: Bytes): Promise<Canary | null> {
    if (this.#request === null) return null;
    const canary = CANARY.fromBytes(this.#request.canary);
    try {
      checkReceipt(canary, await readStatement(RECEIPT, envelope, this.#document.entryRelay.key));
    } catch (fault) {
      const isNone = [MalformedMessageError, BadSignatureError, BadProofError].some((kind) => fault instanceof kind);
      // Anybody on the way may have answered; the relay itself gives the same receipt again.
      if (isNone) return null;
      throw fault;
    }
    return { ...canary, receipt: envelope };
  }

  #taken(receipted: Canary | null, now: number, words: Iterator<bigint>): RelayedAction[] {
    // After the window, or a second answer: no harm.
    if (this.#request === null) return [];
    const isOfRequest = receipted !== null && equal(CANARY.toBytes({ ...receipted, receipt: null }), this.#request.canary);
    if (!isOfRequest) return this.#notTaken({ retryAfterMs: 0, final: false }, now, words);
    this.#receipted = receipted;
    return this.#close({ receipt: true });
  }

  #notTaken(
    { retryAfterMs, final }: { retryAfterMs: number; final: boolean },
    now: number,
    words: Iterator<bigint>,
  ): RelayedAction[] {
    const [request, { manifest }] = [this.#request, this];
    if (request === null || manifest === null) return [];
    const [until, earliest] = [manifest.instants.acceptUntil, now + Math.max(0, retryAfterMs)];
    // Each retry takes half of the last seconds, in the mean: the entry relay takes these bytes until acceptUntil.
    if (final || earliest + LAST_BACKOFF_MS > until) return this.#close({ receipt: false });
    const doubled = FIRST_BACKOFF_MS * 2 ** Math.min(Math.max(request.attempts - 1, 0), 20);
    const patience = Math.min(LONGEST_BACKOFF_MS, doubled);
    this.#change({ at: earliest + below(Math.min(patience, until - earliest), words), underWay: false });
    return [];
  }

  /** What time alone brings about: the end of the window, a new time, a request that is due. */
  #goOn(now: number, words: Iterator<bigint>, grace: number): RelayedAction[] {
    const { manifest, phase, paused } = this;
    if (manifest === null || phase === "idle") return [];
    const { closesAt, acceptUntil } = manifest.instants;
    if (this.#request === null) {
      if (now < closesAt) return [{ kind: "wait", until: closesAt }];
      this.phase = "idle";
      return [abstain("OVER")];
    }
    const ends = this.#request.attempts ? acceptUntil : closesAt;
    if (now >= ends) return this.#close({ receipt: false });
    if (this.#request.underWay || paused) return [{ kind: "wait", until: ends }];
    if (this.#request.at + grace < now) {
      // Late by more than a timer's fault: drawn anew, in the window while it lasts.
      const left = now < closesAt ? closesAt : acceptUntil;
      this.#change({ at: now + below(left - now, words) });
    }
    const { at, attempts, body } = this.#request;
    if (at > now) return [{ kind: "wait", until: Math.min(ends, at) }];
    this.#change({ attempts: attempts + 1, underWay: true });
    return [
      { kind: "sendRequest", label: labelOfRound(manifest), body },
      { kind: "wait", until: acceptUntil },
    ];
  }

  #change(changed: Partial<Omit<PendingRequest, keyof Stored>>): void {
    if (this.#request !== null) this.#request = { ...this.#request, ...changed };
  }

  /** The end of a round: the request is forgotten, and without a receipt the canary too. */
  #close({ receipt }: { receipt: boolean }): RelayedAction[] {
    const [{ manifest }, isSending] = [this, this.phase === "sending"];
    this.#forgets ||= this.#request !== null;
    this.#request = null;
    this.phase = "idle";
    return isSending && manifest !== null ? [{ kind: "roundDone", roundNumber: manifest.roundNumber, receipt }] : [];
  }
}

function abstain(reason: Reason, sentence: string = REASONS[reason]): RelayedAction {
  return { kind: "abstain", reason, sentence };
}
