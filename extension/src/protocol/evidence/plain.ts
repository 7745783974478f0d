/**
 * Evidence about the coordinator's log: what it signed and what contradicts it, in one file for whoever reads it.
 *
 * Nothing in it is the device's word. Of the kinds that Python knows, these can be shown of an experiment with two relays:
 *
 *     forked-log      two checkpoints of one size with different roots
 *     not-in-log      a log that holds another document of this kind and round than the one that was signed
 *     two-entries     a log that holds two entries of the experiment which cannot both stand where they do
 *
 * The keys that count stand in the experiment, which signs itself. A server can put a mark into what it serves to one
 * device: other signatures under a fork, another order. Whoever hands evidence on may show who received it.
 */

import { documentType, listed, longBytes, part, record, words, type ValueOf } from "../records.ts";
import { LOG_EVIDENCE_TYPE } from "../version.ts";

export const MAX_EVIDENCE_BYTES = 2 ** 31;
export const MAX_PART_BYTES = 2 ** 29;
export const MAX_DOCUMENTS = 2 ** 16;
const PART = longBytes(MAX_PART_BYTES);

/** What it shows. */
export const KINDS = ["forked-log", "not-in-log", "two-entries"] as const;
export type Kind = (typeof KINDS)[number];

/** A line of the log, and the proof file that shows it there. **Nothing in it is checked.** */
export const LOGGED_ENTRY = record({ entry: PART, proof: PART });
export type LoggedEntry = ValueOf<typeof LOGGED_ENTRY>;

/** The parts, as they were served. **Nothing in it is checked**: `examine` does that. */
export const EVIDENCE = documentType(
  { purpose: LOG_EVIDENCE_TYPE, title: "the evidence", longest: MAX_EVIDENCE_BYTES },
  {
    kind: words(...KINDS),
    /** The experiment's envelope. */
    experiment: PART,
    /** Envelopes of manifests, openings and endings. */
    documents: listed(PART, { longest: MAX_DOCUMENTS }),
    /** Signed checkpoints. */
    checkpoints: listed(PART, { longest: 2 }),
    /** What evidence about rounds has; none of these kinds does. */
    blobs: listed(PART, { longest: 2 }),
    /** Lines of the log, each with its proof. */
    entries: listed(part(LOGGED_ENTRY), { longest: 2 }),
  },
);
export type Evidence = ValueOf<typeof EVIDENCE>;
