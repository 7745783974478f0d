/**
 * Checkpoints: what a log says it holds, signed by it and cosigned by witnesses (c2sp.org/tlog-checkpoint).
 *
 * A checkpoint is a note (`crypto/notes.ts`) of three lines: the log's origin, its size in decimal, its root in base64.
 * C2SP allows further lines; here they are refused: nobody audits them, and a server could say something else in them
 * to each device. The log's key has the origin as its name.
 *
 * A cosignature of a witness says: at that time this was the largest tree of that origin I had seen, and it has grown
 * out of all that I had seen before. `checkEnough` counts each witness once, whatever stands under the note.
 */

import { base64, hex, textOf, unbase64, utf8, type Bytes } from "../../bytes.ts";
import { HASH_BYTES } from "../../crypto/merkle.ts";
import { COSIGNATURE, MAX_NOTE_BYTES, Note, PLAIN, type NoteKey } from "../../crypto/notes.ts";
import type { VerifyKey } from "../../crypto/signing.ts";
import { BadSignatureError, LocalProtocolError, MalformedMessageError, StaleCheckpointError } from "../../errors.ts";

/** How far a witness's clock may be ahead of ours (docs/protocol.md §16 has the same minute for servers). */
export const MAX_AHEAD_S = 60;
export const MAX_ORIGIN_BYTES = 500;

/** A log's size and root. Who signed it stands elsewhere. */
export interface Checkpoint {
  readonly origin: string;
  readonly size: number;
  readonly root: Bytes;
}

/** From the text of a note. */
export function checkpointFromText(text: string): Checkpoint {
  const [origin, size, root, rest, ...more] = text.split("\n");
  if (rest !== "" || more.length) throw new MalformedMessageError("a checkpoint has three lines");
  if (!origin || utf8(origin).length > MAX_ORIGIN_BYTES) {
    throw new MalformedMessageError("a checkpoint's origin is empty, or too long");
  }
  return { origin, size: readNumber(size!), root: readHash(root!) };
}

/** How many of these must have cosigned: witnesses' keys, or quorums themselves (groups of c2sp.org/tlog-policy). */
export class Quorum {
  readonly least: number;
  readonly of: readonly (VerifyKey | Quorum)[];

  constructor(least: number, of: readonly (VerifyKey | Quorum)[]) {
    this.least = least;
    this.of = of;
  }

  /** All whose cosignatures count, in hexadecimal. */
  get keys(): ReadonlySet<string> {
    return new Set(this.of.flatMap((member) => (member instanceof Quorum ? [...member.keys] : [hex(member.data)])));
  }

  /** Whether these, in hexadecimal, are enough. */
  metBy(keys: Iterable<string>): boolean {
    return this.metAt(new Map([...keys].map((key) => [key, 0]))) !== null;
  }

  /** The earliest time by which enough of them had, of those who did; null: they are too few. */
  metAt(times: ReadonlyMap<string, number>): number | null {
    const each = this.of.map((member) =>
      member instanceof Quorum ? member.metAt(times) : (times.get(hex(member.data)) ?? null),
    );
    const met = each.filter((time) => time !== null).sort((a, b) => a - b);
    return met[this.least - 1] ?? null;
  }
}

/** When witnesses cosigned, in seconds. */
export type Times = ReadonlyMap<NoteKey, number>;

/** The same by the keys alone, in hexadecimal: a witness is its key, and counts once under two names. */
export function timesByKey(times: Times): Map<string, number> {
  return new Map([...times].map(([witness, timeS]) => [hex(witness.key.data), timeS]));
}

/** A checkpoint that its log has signed; `readCheckpoint` makes it. Cosignatures are not checked yet. */
export interface SignedCheckpoint {
  readonly checkpoint: Checkpoint;
  readonly note: Note;
  /** As it was served: the evidence, should another one turn up. */
  readonly data: Bytes;
}

/**
 * When each of these witnesses cosigned it last; who did not is left out.
 *
 * Throws a `BadSignatureError` for a wrong cosignature in the name of one of them.
 */
export async function timesOf(signed: SignedCheckpoint, witnesses: readonly NoteKey[]): Promise<Times> {
  const times = new Map<NoteKey, number>();
  for (const witness of witnesses) {
    if (witness.kind !== COSIGNATURE) throw new LocalProtocolError("a witness has a key for cosignatures");
    if (signed.note.signatures.some((made) => witness.isNamedBy(made))) {
      times.set(witness, (await witness.check(signed.note))!);
    }
  }
  return times;
}

/**
 * The checkpoint in this note, if it is of this log and the log signed it.
 *
 * Throws a `MalformedMessageError` where it is no checkpoint, or that of another log; a `BadSignatureError` where the
 * log did not sign it.
 */
export async function readCheckpoint(data: Bytes, options: { log: NoteKey }): Promise<SignedCheckpoint> {
  const { log } = options;
  const note = Note.fromBytes(data);
  const checkpoint = checkpointFromText(note.text);
  if (log.kind !== PLAIN) throw new LocalProtocolError("a log has a key for plain signatures");
  if (checkpoint.origin !== log.name) throw new MalformedMessageError("this is the checkpoint of another log");
  await log.check(note);
  return { checkpoint, note, data };
}

/**
 * That enough witnesses have cosigned a checkpoint, not longer ago than `freshnessS`; `now` in milliseconds.
 *
 * Those that are fresh come back. What lies more than a minute ahead does not count: it would stay fresh for as long as
 * its witness likes. With null for `freshnessS` they count whenever they did: for a log that has ended. Throws a
 * `BadSignatureError` where too few have, at any time, and a `StaleCheckpointError` where too few of them have lately.
 */
export function checkEnough(times: Times, quorum: Quorum, options: { now: number; freshnessS: number | null }): Times {
  const { now, freshnessS } = options;
  if (!quorum.metBy(timesByKey(times).keys())) {
    throw new BadSignatureError("too few witnesses have cosigned the checkpoint");
  }
  if (freshnessS === null) return times;
  const [oldest, latest] = [now - 1000 * freshnessS, now + 1000 * MAX_AHEAD_S];
  const fresh = new Map([...times].filter(([, timeS]) => oldest <= 1000 * timeS && 1000 * timeS <= latest));
  if (!quorum.metBy(timesByKey(fresh).keys())) throw new StaleCheckpointError();
  return fresh;
}

// ── lines that checkpoints and proofs are made of ────────────────────────────────────────────────────────────────────

/** A hash in base64, with its line feed. */
export function hashLine(digest: Uint8Array): string {
  return `${base64(digest)}\n`;
}

/** A hash of a line, in its one spelling. */
export function readHash(line: string): Bytes {
  let digest: Bytes | null = null;
  try {
    digest = unbase64(line);
  } catch {
    // Refused below, as a hash of another length is.
  }
  if (digest?.length !== HASH_BYTES) throw new MalformedMessageError("a line is no hash in base64");
  return digest;
}

/** A size or index in decimal, in its one spelling. */
export function readNumber(text: string): number {
  const value = /^(0|[1-9][0-9]{0,18})$/.test(text) ? Number(text) : NaN;
  if (!Number.isSafeInteger(value)) throw new MalformedMessageError("a line is no number");
  return value;
}

/** Bytes of lines as text. */
export function linesOf(data: Uint8Array): string {
  if (data.length > 2 * MAX_NOTE_BYTES) {
    throw new MalformedMessageError(`${data.length} bytes of text; at most ${2 * MAX_NOTE_BYTES} are read`);
  }
  try {
    return textOf(data);
  } catch {
    throw new MalformedMessageError("these bytes are no text");
  }
}
