/** What passes between a session and its owner: events are what the owner tells, actions what the session asks for. */

import type { Bytes } from "../../bytes.ts";
import { DIGEST, documentType, FLAG, longBytes, nullable, whole, words } from "../records.ts";
import { SESSION_TYPE } from "../version.ts";
import type { Submission } from "./submission.ts";

/** When nothing is later than this, what is due is sent: an owner's timer is never exact. Else it is drawn anew. */
export const GRACE_MS = 10_000;
/** So far may this device's clock be from the server's, or fall back, before it joins nothing. */
export const CLOCK_TOLERANCE_MS = 60_000;
/** The first retry comes within this time; the bound doubles up to the second number. */
export const FIRST_BACKOFF_MS = 4_000;
export const LONGEST_BACKOFF_MS = 15 * 60_000;
/** With less than this left, a request is not sent again: retries would come closer and closer together. */
export const LAST_BACKOFF_MS = 250;
/** Later than every instant. */
export const NEVER = Infinity;
/** A manifest of any kind with its signatures. */
const MAX_ENVELOPE_BYTES = 2 ** 20 + 2 ** 12;

/** Where a device stands in its current round: no round, or done with it; joined; there is a request to send. */
export type Phase = "idle" | "computing" | "sending";

/** All of a session but its request and canary. */
export const SESSION_HEADER = documentType(
  { purpose: SESSION_TYPE, title: "the session", longest: 2 ** 14 },
  {
    experiment: DIGEST,
    /** Envelope of the manifest that was accepted last. */
    accepted: nullable(longBytes(MAX_ENVELOPE_BYTES)),
    phase: words<Phase>("idle", "computing", "sending"),
    paused: FLAG,
    latest: whole(0),
    /** Of the request that is on its way: when it is to be sent, and how often it was. */
    at: nullable(whole(0)),
    attempts: nullable(whole(0)),
  },
);

/** Why a device abstains. */
export const REASONS = {
  BAD_MANIFEST: "the manifest cannot be believed",
  DISTRUST: "this device has seen what an honest server does not show",
  UNSEEN: "no fresh look at the log was answered while the window was open",
  CLOCK: "this device's clock seems to be wrong",
  LATE: "the window is already open; the next round will do",
  PAUSED: "the person has paused",
  DECLINED: "the person, the ledger or the computation said no",
  OVER: "the window closed before the packages were ready",
} as const;
export type Reason = keyof typeof REASONS;

/** What the owner tells the session. */
export type RelayedEvent =
  /** A manifest that the owner believes, in its envelope, and how far at least the server's clock is ahead. */
  | { readonly kind: "roundAnnounced"; readonly envelope: Bytes; readonly ahead: number | null }
  /** The round's packages are sealed, and the ledger has been charged. */
  | { readonly kind: "requestReady"; readonly submission: Submission }
  /** The entry relay answered with what may be a receipt. */
  | { readonly kind: "taken"; readonly receipt: Bytes }
  /** No receipt came; whether the request arrived nobody knows. `final`: the relay will never take these bytes. */
  | { readonly kind: "notTaken"; readonly retryAfterMs: number; readonly final: boolean }
  /** What the owner has seen makes it stop: nothing more of the round leaves. */
  | { readonly kind: "stopped"; readonly sentence: string }
  /** The person, the ledger or the computation says no to the round that was to be computed. */
  | { readonly kind: "declined"; readonly why: string }
  /** Time has passed; the person wants nothing sent, or allows it again; the session was just read from its bytes. */
  | { readonly kind: "tick" | "paused" | "resumed" | "restarted" };

/** Why nothing is sent (any more). */
export interface Abstention {
  readonly reason: Reason;
  readonly sentence: string;
}

/** What the session asks of its owner. */
export type RelayedAction =
  /** Charge the ledger, seal this round's packages and come back with "requestReady", or with "declined". */
  | { readonly kind: "prepare" }
  /** Send these bytes to the entry relay under this label; come back with "taken" or "notTaken". */
  | { readonly kind: "sendRequest"; readonly label: Bytes; readonly body: Bytes }
  /** The round is over for this device, with a receipt or without. */
  | { readonly kind: "roundDone"; readonly roundNumber: number; readonly receipt: boolean }
  | ({ readonly kind: "abstain" } & Abstention)
  /** Come back with "tick" at this time, unless something else happens before. */
  | { readonly kind: "wait"; readonly until: number };
export type SendRequest = Extract<RelayedAction, { kind: "sendRequest" }>;
