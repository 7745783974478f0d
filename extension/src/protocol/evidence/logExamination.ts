/** What a file of evidence about the coordinator's log shows, if it shows it; it needs the file alone (`plain.ts`). */

import { equal, type Bytes } from "../../bytes.ts";
import type { NoteKey } from "../../crypto/notes.ts";
import { MalformedMessageError } from "../../errors.ts";
import { readPublished, type ExperimentDocument } from "../documents/experiment.ts";
import { readCheckpoint } from "../log/checkpoints.ts";
import { contradict, entryFromBytes, keyOf, logEntry, sameEntry, type Entry, type Placed } from "../log/entries.ts";
import { logKeyOf } from "../log/policy.ts";
import { checkProof, proofFromBytes } from "../log/proofs.ts";
import { MANIFEST } from "../relays/manifest.ts";
import { ENDING, OPENING } from "../relays/opening.ts";
import { EVIDENCE, type Evidence, type Kind, type LoggedEntry } from "./plain.ts";

const NOTHING = "the evidence does not show what it says";
/** How many documents, checkpoints, blobs and entries: nothing that is not looked at is carried along. */
const PARTS: { readonly [kind in Kind]: string } = {
  "forked-log": "0,2,0,0",
  "not-in-log": "1,0,0,1",
  "two-entries": "0,0,0,2",
};

/** What a piece of evidence shows, **verified**. */
export interface Finding {
  readonly kind: string;
  readonly document: ExperimentDocument;
  /** In one sentence. */
  readonly sentence: string;
}

/**
 * What this file shows, if it shows it.
 *
 * Throws a `RemoteProtocolError` where it shows nothing: a part is missing, not signed, or does not contradict the others.
 */
export async function examineLog(data: Bytes): Promise<Finding> {
  const evidence = EVIDENCE.fromBytes(data);
  const { kind, documents, checkpoints, blobs, entries } = evidence;
  if (String([documents, checkpoints, blobs, entries].map(({ length }) => length)) !== PARTS[kind]) {
    throw new MalformedMessageError("the evidence lacks a part, or has one too many");
  }
  const document = await readPublished(evidence.experiment);
  const sentence = await EXAMINE[kind](evidence, document);
  if (sentence === null) throw new MalformedMessageError(NOTHING);
  return { kind, document, sentence };
}

/** In a sentence; null: it shows nothing. */
type Examine = (evidence: Evidence, document: ExperimentDocument) => Promise<string | null>;

const EXAMINE: { readonly [kind in Kind]: Examine } = {
  "forked-log": async ({ checkpoints }, document) => {
    const log = logOf(document);
    const [first, second] = await Promise.all(checkpoints.map((note) => readCheckpoint(note, { log })));
    const [a, b] = [first!.checkpoint, second!.checkpoint];
    if (a.size !== b.size || equal(a.root, b.root)) return null;
    return `The log was forked: it signed two different trees of ${a.size} entries.`;
  },
  "not-in-log": async ({ documents, entries }, document) => {
    const signed = await signedEntry(documents[0]!, document);
    const { index, entry } = await placed(entries[0]!, document);
    if (keyOf(entry) !== keyOf(signed) || sameEntry(entry, signed)) return null;
    const what = signed.roundNumber === null ? signed.kind : `${signed.kind} of round ${signed.roundNumber}`;
    return `The log holds, as its entry ${index}, another ${what} than one that the coordinator signed.`;
  },
  "two-entries": async ({ entries }, document) => {
    const [first, second] = await Promise.all(entries.map((logged) => placed(logged, document)));
    if (!contradict(first!, second!)) return null;
    return (
      `The log holds, as its entries ${first!.index} and ${second!.index}, two lines of the experiment that cannot both` +
      " stand there."
    );
  },
};

/** The line that a document which enough of the coordinator's keys signed has in the log. */
async function signedEntry(envelope: Bytes, document: ExperimentDocument): Promise<Entry> {
  const kinds = { manifest: MANIFEST, opening: OPENING, ending: ENDING };
  const [kind, signed] = await document.readAny<{ experiment: string; roundNumber: number }, any>(
    Object.values(kinds),
    envelope,
  );
  const [name] = Object.entries(kinds).find(([, one]) => one === kind)! as [keyof typeof kinds, unknown];
  return logEntry(name, signed, kind.digest(signed));
}

/** An entry of the experiment that stands in its log. */
async function placed({ entry: line, proof: file }: LoggedEntry, document: ExperimentDocument): Promise<Placed> {
  const [entry, proof] = [entryFromBytes(line), proofFromBytes(file)];
  if (entry.experiment !== document.digest) {
    throw new MalformedMessageError("the evidence has an entry of another experiment");
  }
  await checkProof(proof, line, { log: logOf(document) });
  return { index: proof.index, entry };
}

function logOf({ log }: ExperimentDocument): NoteKey {
  if (log === null) throw new MalformedMessageError("the evidence speaks of a log, and the experiment has none");
  return logKeyOf(log);
}
