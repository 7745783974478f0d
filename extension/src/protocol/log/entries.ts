/**
 * Entries of a coordinator's log, as lines (docs/protocol.md §20.1): one log for all experiments, of either version.
 *
 *     secvm-v2-experiment D            secvm-v2-manifest D T digest            secvm-v2-opening D T digest
 *     secvm-v2-ending D digest
 *
 * D is the experiment's digest, T the round; the other digest is that of the document's payload. The entries of one
 * experiment have one order: the experiment, then for each round from 1 on its manifest and its opening; the ending
 * last. `follows` says what may come next, and `contradict` whether two entries at two places break that order whatever
 * stands between them. (Rounds of version 1 have no openings; whose experiments those are, this device passes over.)
 */

import { textOf, utf8, type Bytes } from "../../bytes.ts";
import { LocalProtocolError, MalformedMessageError } from "../../errors.ts";
import { DIGEST, ROUND_NUMBER } from "../records.ts";
import { MAX_ROUND } from "../version.ts";

/** What every line begins with; one version for all of them. */
export const PREFIX = "secvm-v2-";
/** A manifest's or an opening's line, the longest there are. */
export const MAX_LINE_BYTES = 156;
/** Whoever reads a whole log must come to its end: longer ones are refused, and another log needs another name. */
export const MAX_LOG_ENTRIES = 2 ** 20;

const KINDS = ["experiment", "manifest", "opening", "ending"] as const;
const KIND = new RegExp(`^${PREFIX}(${KINDS.join("|")}) `);
const PARTS = / ([0-9a-f]{64})(?: ([1-9][0-9]{0,6}))?(?: ([0-9a-f]{64}))?\n$/;

/** What an entry names. */
export type EntryKind = (typeof KINDS)[number];

/** One line of the log. */
export interface Entry {
  readonly kind: EntryKind;
  /** The experiment's digest. */
  readonly experiment: string;
  /** Of manifests and openings; else null. */
  readonly roundNumber: number | null;
  /** Of the document's payload; the experiment's own is `experiment`, and this is null. */
  readonly digest: string | null;
}

/** An entry, and its index in the log. */
export interface Placed {
  readonly index: number;
  readonly entry: Entry;
}

/** A document that a coordinator signed, and the entry that it has in the log. */
export interface Document {
  readonly entry: Entry;
  readonly envelope: Bytes;
}

/** The one spelling. */
export function entryToBytes(entry: Entry): Bytes {
  const data = utf8(lineOf(entry));
  try {
    entryFromBytes(data);
  } catch {
    throw new LocalProtocolError(`an entry of kind ${entry.kind} has other parts, or a digest that is none`);
  }
  return data;
}

/** The entry of these bytes; anything but its one spelling is refused. */
export function entryFromBytes(data: Uint8Array): Entry {
  const text = asciiOf(data);
  const kind = KIND.exec(text)?.[1] as EntryKind | undefined;
  if (kind === undefined) throw new MalformedMessageError("this is no entry of a coordinator's log");
  const [, experiment, round, digest] = PARTS.exec(text) ?? [];
  const entry = {
    kind,
    experiment: experiment ?? "",
    roundNumber: round === undefined ? null : Number(round),
    digest: digest ?? null,
  };
  const rounds = (entry.roundNumber !== null) === (kind === "manifest" || kind === "opening");
  const digests = (entry.digest === null) === (kind === "experiment");
  if (lineOf(entry) !== text || !rounds || !digests || (entry.roundNumber ?? 1) > MAX_ROUND) {
    throw new MalformedMessageError("an entry of a coordinator's log has other parts than its kind");
  }
  return entry;
}

export function sameEntry(a: Entry, b: Entry): boolean {
  return lineOf(a) === lineOf(b);
}

/** Of which there is one entry, ever. */
export function keyOf(entry: Entry): string {
  return lineOf({ ...entry, digest: null });
}

/** Where it belongs among the entries of its experiment: they ascend. */
export function rankOf(entry: Entry): number {
  const round = entry.kind === "ending" ? MAX_ROUND + 1 : (entry.roundNumber ?? 0);
  return 2 * round + (entry.kind === "opening" ? 1 : 0);
}

/** Whether `entry` is what comes next of its experiment after `before`; null: it has no entry yet. */
export function follows(before: Entry | null, entry: Entry): boolean {
  if (before === null) return entry.kind === "experiment";
  if (before.experiment !== entry.experiment) throw new LocalProtocolError("entries of two experiments have no order");
  if (before.kind === "ending") return false;
  if (before.kind === "manifest") return entry.kind === "opening" && entry.roundNumber === before.roundNumber;
  return entry.kind === "ending" || (entry.kind === "manifest" && entry.roundNumber === (before.roundNumber ?? 0) + 1);
}

/** Whether no honest log has both: entries of one experiment ascend, and no place has two. */
export function contradict(first: Placed, second: Placed): boolean {
  if (first.index === second.index) return !sameEntry(first.entry, second.entry);
  if (first.entry.experiment !== second.entry.experiment) return false;
  const [low, high] = first.index < second.index ? [first, second] : [second, first];
  return rankOf(low.entry) >= rankOf(high.entry);
}

/** An experiment is published. */
export function experimentEntry(experiment: string): Entry {
  return { kind: "experiment", experiment, roundNumber: null, digest: null };
}

/** The line of a document that a coordinator signs. */
export function logEntry(
  kind: Exclude<EntryKind, "experiment">,
  document: { readonly experiment: string; readonly roundNumber: number },
  digest: string,
): Entry {
  const roundNumber = kind === "ending" ? null : document.roundNumber;
  return { kind, experiment: document.experiment, roundNumber, digest };
}

/** The fields of every document that a coordinator signs, and that has a line in its log. */
export const COORDINATOR_RECORD = {
  /** Digest of the experiment. */
  experiment: DIGEST,
  roundNumber: ROUND_NUMBER,
} as const;

/** The fields of one that names a model: the descent state, and the weights that follow from it. */
export const MODEL_RECORD = {
  ...COORDINATOR_RECORD,
  state: DIGEST,
  trainingWeights: DIGEST,
  evaluationWeights: DIGEST,
} as const;

/** Digests of state, training weights and evaluation weights. */
export type ModelNames = readonly [state: string, trainingWeights: string, evaluationWeights: string];

/** The three together: they stay where a round is not stepped. */
export function modelNames(named: {
  readonly state: string;
  readonly trainingWeights: string;
  readonly evaluationWeights: string;
}): ModelNames {
  return [named.state, named.trainingWeights, named.evaluationWeights];
}

function lineOf(entry: Entry): string {
  const words = [PREFIX + entry.kind, entry.experiment, entry.roundNumber, entry.digest];
  return `${words.filter((word) => word !== null).join(" ")}\n`;
}

function asciiOf(data: Uint8Array): string {
  try {
    return textOf(data);
  } catch {
    return "";
  }
}
