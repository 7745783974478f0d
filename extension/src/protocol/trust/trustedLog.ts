/**
 * The log as one device believes it, for one experiment of it (docs/protocol.md §22, steps 2 to 5 and 8).
 *
 * A log holds the entries of all experiments of its coordinator. A device keeps the right edge of the whole tree. For
 * each look it fetches every line that was appended since, appends them itself, and comes to the signed root or
 * believes nothing. So it knows, without a proof for any of them, that the log has grown out of what it believed, and
 * which entries of its own experiment there are: each once, in their order, of exactly the documents that it was
 * served. Lines of other experiments are read and passed over; a line that is none spoils the log.
 *
 * Lines are not signed; only the root is. So lines that do not lead to it convict nobody. What does is a line *under*
 * the root that contradicts a document the coordinator signed, or another line: `Appended.proof` shows it to anybody.
 */

import { equal, hex, type Bytes } from "../../bytes.ts";
import {
  BadInputError,
  BadProofError,
  CheatingError,
  MalformedMessageError,
  StaleCheckpointError,
  StaleRoundError,
} from "../../errors.ts";
import { EVIDENCE, type Evidence, type Kind } from "../evidence/plain.ts";
import type { NoteKey } from "../../crypto/notes.ts";
import { checkEnough, readCheckpoint, timesOf, type Quorum, type SignedCheckpoint } from "../log/checkpoints.ts";
import {
  contradict,
  experimentEntry,
  follows,
  keyOf,
  MAX_LOG_ENTRIES,
  sameEntry,
  type Document,
  type Placed,
} from "../log/entries.ts";
import { logKeyOf, quorumOf, witnessKeysOf, type LogPolicy, type LogTerms } from "../log/policy.ts";
import { Appended, type SeenLog } from "./seenLog.ts";

/** What is asked of an experiment here. */
interface Logged {
  readonly digest: string;
  readonly log: LogTerms | null;
}

interface Held {
  /** This device's own, on top of what the experiment says; null: it has none. */
  readonly policy: LogPolicy | null;
  /** What was seen of the log so far. */
  readonly seen: SeenLog;
  /** The documents of the newest round that is believed. */
  believed(): readonly Document[];
}

/** The log as a device believes it, for one experiment, and the rules by which it does. */
export class TrustedLog {
  /** What was seen of it: whoever has stored what `grow` came to puts it there. */
  seen: SeenLog;
  readonly #terms: LogTerms;
  readonly #key: NoteKey;
  readonly #experiment: string;
  readonly #envelope: Bytes;
  readonly #believed: () => readonly Document[];
  readonly #quorum: Quorum;
  readonly #witnesses: readonly NoteKey[];

  /**
   * That of an experiment, as a device with this policy believes it; `envelope` is for evidence.
   *
   * Throws a `BadInputError` where the experiment has no log, or none whose witnesses can be enough for this device.
   */
  constructor(document: Logged, envelope: Bytes, { policy, seen, believed }: Held) {
    if (document.log === null) {
      throw new BadInputError("this experiment has no log: nobody can tell whether all are told the same");
    }
    this.#terms = document.log;
    this.#key = logKeyOf(document.log);
    this.#experiment = document.digest;
    this.#envelope = envelope;
    this.#believed = believed;
    this.seen = seen;
    this.#quorum = quorumOf(document.log, policy);
    // What is written in the name of others spoils nothing.
    const counting = this.#quorum.keys;
    this.#witnesses = witnessKeysOf(document.log).filter((witness) => counting.has(hex(witness.key.data)));
  }

  /** So many lines were read. */
  get seenSize(): number {
    return this.seen.frontier.size;
  }

  /**
   * How many lines this checkpoint's log has after what was seen; below zero: it is an older one.
   *
   * Throws a `CheatingError` where the log has signed another tree of the size that was seen, and another
   * `RemoteProtocolError` for no checkpoint of this log, or of one that is longer than a log can be.
   */
  async missingLines(checkpoint: Bytes): Promise<number> {
    return (await this.#read(checkpoint)).checkpoint.size - this.seenSize;
  }

  /** Steps 2 and 3: enough of the witnesses that count here, lately; `over`: what is shown is an ending. */
  async checkQuorum(checkpoint: Bytes, options: { now: number; over?: boolean }): Promise<void> {
    const times = await timesOf(await this.#read(checkpoint), this.#witnesses);
    checkEnough(times, this.#quorum, { now: options.now, freshnessS: options.over ? null : this.#terms.freshnessS });
  }

  /**
   * Steps 4 and 5: what is seen of the log then. `served`: the documents that it must have added, in order.
   *
   * Throws a `CheatingError` with evidence where an entry contradicts a document, or another entry; a `StaleRoundError`
   * where the log has more of this experiment than was served: ask again; another `RemoteProtocolError` where the
   * lines are not the log's, or it does not hold yet what was served.
   */
  async grow(checkpoint: Bytes, lines: readonly Uint8Array[], served: readonly Document[]): Promise<SeenLog> {
    const [signed, appended] = await this.#append(checkpoint, lines);
    const own = this.#own(appended, [...served, ...this.#believed()]);
    const expected = served.map((document) => document.entry);
    if (this.seen.entry === null) expected.unshift(experimentEntry(this.#experiment));
    const begins = expected.every((entry, i) => own[i] !== undefined && sameEntry(own[i].entry, entry));
    if (begins && own.length > expected.length) throw new StaleRoundError("the log has grown meanwhile");
    if (!begins) throw new BadProofError("the log does not hold what was served, or not yet");
    return { checkpoint: signed.data, frontier: appended.frontier, entry: own.at(-1)?.entry ?? this.seen.entry };
  }

  /**
   * Step 8: a log that was fetched again while the window is open has grown by other experiments' entries alone.
   *
   * Throws a `CheatingError` where the log was forked, or has a second entry for what is believed; a
   * `StaleCheckpointError` or `BadProofError` where it is older, something of this experiment was appended, or the
   * lines do not lead to the root; another `RemoteProtocolError` for no checkpoint of this log.
   */
  async compare(checkpoint: Bytes, lines: readonly Uint8Array[]): Promise<void> {
    if ((await this.missingLines(checkpoint)) < 0) {
      throw new StaleCheckpointError("a fresh look at the log shows an older one than this device was shown");
    }
    const [, appended] = await this.#append(checkpoint, lines);
    if (this.#own(appended, this.#believed()).length) {
      throw new BadProofError("the log has gone on with this experiment while the window is still open");
    }
  }

  // ── parts ──────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** A checkpoint of this log; of one size there is one tree, whoever cosigned it. */
  async #read(checkpoint: Bytes): Promise<SignedCheckpoint> {
    const signed = await readCheckpoint(checkpoint, { log: this.#key });
    const { seen } = this;
    const { size, root } = signed.checkpoint;
    if (seen.checkpoint !== null && size === seen.frontier.size && !equal(root, seen.frontier.root)) {
      this.#convict("the log was forked: it signed two trees of one size", {
        kind: "forked-log",
        checkpoints: [seen.checkpoint, signed.data],
      });
    }
    if (size > MAX_LOG_ENTRIES) {
      throw new MalformedMessageError(
        `the log is said to have ${size} entries, and no log has more than ${MAX_LOG_ENTRIES}`,
      );
    }
    return signed;
  }

  async #append(checkpoint: Bytes, lines: readonly Uint8Array[]): Promise<[SignedCheckpoint, Appended]> {
    const signed = await this.#read(checkpoint);
    if (signed.checkpoint.size < this.seenSize) {
      throw new BadProofError("the checkpoint is older than what was believed");
    }
    return [signed, new Appended(this.seen.frontier, lines, signed)];
  }

  /** The new entries of this experiment: none against a document that was signed, all in their order. */
  #own(appended: Appended, signed: readonly Document[]): Placed[] {
    const own = appended.of(this.#experiment);
    for (const document of signed) {
      for (const placed of own) {
        if (keyOf(placed.entry) === keyOf(document.entry) && !sameEntry(placed.entry, document.entry)) {
          this.#convict("the log holds another document than the one that was served", {
            kind: "not-in-log",
            documents: [document.envelope],
            entries: [appended.proof(placed)],
          });
        }
      }
    }
    own.slice(1).forEach((following, i) => {
      const placed = own[i]!;
      if (contradict(placed, following)) {
        this.#convict("the log holds two entries of this experiment that cannot both stand there", {
          kind: "two-entries",
          entries: [appended.proof(placed), appended.proof(following)],
        });
      }
    });
    let before = this.seen.entry;
    for (const { entry } of own) {
      if (!follows(before, entry)) {
        throw new BadProofError("the log holds an entry of this experiment that cannot come next");
      }
      before = entry;
    }
    return own;
  }

  #convict(sentence: string, shown: { kind: Kind } & Partial<Evidence>): never {
    const nothing = { documents: [], checkpoints: [], blobs: [], entries: [] };
    throw new CheatingError(sentence, EVIDENCE.toBytes({ ...nothing, experiment: this.#envelope, ...shown }));
  }
}
