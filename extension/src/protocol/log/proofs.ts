/**
 * Proof files (c2sp.org/tlog-proof): each convinces whoever holds the entry, offline.
 *
 *     c2sp.org/tlog-proof@v1
 *     index N
 *     hashes of the inclusion proof, a line each
 *                                                 an empty line
 *     the checkpoint, with all signatures
 *
 * C2SP allows a line of extra data. Nobody signs it, so here it is refused.
 */

import { concat, utf8, type Bytes } from "../../bytes.ts";
import { checkInclusion, leafHash, MAX_PROOF_HASHES } from "../../crypto/merkle.ts";
import { Note, type NoteKey } from "../../crypto/notes.ts";
import { MalformedMessageError } from "../../errors.ts";
import {
  checkpointFromText,
  hashLine,
  linesOf,
  readCheckpoint,
  readHash,
  readNumber,
  type SignedCheckpoint,
} from "./checkpoints.ts";

export const PROOF_HEADER = "c2sp.org/tlog-proof@v1";

/** A proof file. **Nothing in it is checked**: `checkProof` does that. */
export interface LogProof {
  readonly index: number;
  readonly path: readonly Bytes[];
  /** The checkpoint's note as it was served. */
  readonly checkpoint: Bytes;
}

/** The one encoding. */
export function proofToBytes(proof: LogProof): Bytes {
  const above = `${PROOF_HEADER}\nindex ${proof.index}\n${proof.path.map(hashLine).join("")}\n`;
  return concat(utf8(above), proof.checkpoint);
}

/** Take a proof file apart; anything but a whole encoding is refused. */
export function proofFromBytes(data: Uint8Array): LogProof {
  const text = linesOf(data);
  if (!text.startsWith(`${PROOF_HEADER}\n`)) throw new MalformedMessageError("this is no proof of a log");
  const border = text.indexOf("\n\n", PROOF_HEADER.length + 1);
  const [first, ...hashes] = text.slice(PROOF_HEADER.length + 1, Math.max(border, 0)).split("\n");
  if (border < 0 || !first!.startsWith("index ") || hashes.length > MAX_PROOF_HASHES) {
    throw new MalformedMessageError("a proof has not the lines that it should have");
  }
  const index = readNumber(first!.slice("index ".length));
  const path = hashes.map(readHash);
  // Its form, so that a proof is whole or none; what it is worth is checked with the log's key.
  const checkpoint = utf8(text.slice(border + 2));
  checkpointFromText(Note.fromBytes(checkpoint).text);
  return { index, path, checkpoint };
}

/**
 * That this log holds the entry at the proof's index, by a checkpoint that it signed; that comes back.
 *
 * Throws a `MalformedMessageError` where the proof is of another log, a `BadSignatureError` where the log did not sign
 * the checkpoint, and a `BadProofError` where the entry is not there.
 */
export async function checkProof(
  proof: LogProof,
  entry: Uint8Array,
  options: { log: NoteKey },
): Promise<SignedCheckpoint> {
  const signed = await readCheckpoint(proof.checkpoint, options);
  const { size, root } = signed.checkpoint;
  checkInclusion(leafHash(entry), { index: proof.index, size, proof: proof.path, root });
  return signed;
}
