/** What a device keeps of its coordinator's log, and lines that lead from one edge of it to the next signed root. */

import { base64, equal, type Bytes } from "../../bytes.ts";
import { Frontier, inclusionProof, leafHash } from "../../crypto/merkle.ts";
import { BadProofError, LocalProtocolError, MalformedMessageError } from "../../errors.ts";
import type { LoggedEntry } from "../evidence/plain.ts";
import type { SignedCheckpoint } from "../log/checkpoints.ts";
import { entryFromBytes, entryToBytes, type Entry, type Placed } from "../log/entries.ts";
import { proofToBytes } from "../log/proofs.ts";
import {
  documentType,
  HASH,
  listed,
  longBytes,
  nullable,
  record,
  whole,
  type FieldKind,
  type ValueOf,
} from "../records.ts";
import { SEEN_LOG_TYPE } from "../version.ts";

const MAX_NOTE_BYTES = 2 ** 21;
const MAX_ENTRY_BYTES = 256;

const ENTRY: FieldKind<Entry> = {
  read: (fields, name) => entryFromBytes(fields.base64(name, { longest: MAX_ENTRY_BYTES })),
  write: (entry) => base64(entryToBytes(entry)),
};
const EDGE = record({ hashes: listed(HASH, { longest: 64 }), size: whole(0) });
const FRONTIER: FieldKind<Frontier> = {
  read(fields) {
    const { hashes, size } = EDGE.take(fields);
    try {
      return new Frontier(size, hashes);
    } catch (fault) {
      if (!(fault instanceof LocalProtocolError)) throw fault;
      throw fields.refuse("hashes", "one hash for each bit of the size");
    }
  },
  write: ({ hashes, size }) => EDGE.toContent({ hashes, size }),
  beside: EDGE,
};

/** What a device keeps of the log. */
export const SEEN_LOG = documentType(
  { purpose: SEEN_LOG_TYPE, title: "what is seen of the log", longest: 2 ** 22 },
  {
    /** The checkpoint under which it believed something, as it was served; null before the first. */
    checkpoint: nullable(longBytes(MAX_NOTE_BYTES)),
    /** The whole tree of it, which was read entry by entry. */
    frontier: FRONTIER,
    /** The newest entry of the device's experiment. */
    entry: nullable(ENTRY),
  },
);
export type SeenLog = ValueOf<typeof SEEN_LOG>;

/** Before the first look. */
export const UNSEEN: SeenLog = { checkpoint: null, frontier: new Frontier(), entry: null };

/**
 * Lines that lead from one edge of the log to the root of a checkpoint.
 *
 * Making one throws a `MalformedMessageError` for what is no line, and a `BadProofError` where they do not lead there.
 */
export class Appended {
  readonly entries: readonly Placed[];
  readonly frontier: Frontier;
  readonly #before: Frontier;
  readonly #leaves: readonly Bytes[];
  readonly #signed: SignedCheckpoint;

  constructor(before: Frontier, lines: readonly Uint8Array[], signed: SignedCheckpoint) {
    const { size, root } = signed.checkpoint;
    if (before.size + lines.length !== size) {
      throw new MalformedMessageError("the lines are more or fewer than the log has appended");
    }
    this.entries = lines.map((line, i) => ({ index: before.size + i, entry: entryFromBytes(line) }));
    this.#before = before;
    this.#signed = signed;
    this.#leaves = lines.map(leafHash);
    this.frontier = this.#leaves.reduce((frontier, leaf) => frontier.append(leaf), before);
    if (!equal(this.frontier.root, root)) {
      throw new BadProofError("the lines of the log do not lead to the root that was signed");
    }
  }

  /** The entries of one experiment. */
  of(experiment: string): Placed[] {
    return this.entries.filter((placed) => placed.entry.experiment === experiment);
  }

  /** That one of these entries stands in the log, for others. */
  proof({ index, entry }: Placed): LoggedEntry {
    const path = inclusionProof(this.#before.reader(this.#leaves), index, this.#signed.checkpoint.size);
    return {
      entry: entryToBytes(entry),
      proof: proofToBytes({ index, path, checkpoint: this.#signed.data }),
    };
  }
}
