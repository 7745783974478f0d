/**
 * The log (docs/protocol.md §33), which is what a device holds rounds to.
 *
 * The checkpoint comes with the news of a round, or is fetched last of all, because it is renewed; when enough witnesses
 * have cosigned it, every line that the log has appended since. The lines of this experiment among them are exactly the
 * documents that were served; those of others, of either version, are read and passed over.
 */

import type { Bytes } from "../bytes.ts";
import { MAX_NOTE_BYTES } from "../crypto/notes.ts";
import { RemoteProtocolError, StaleRoundError } from "../errors.ts";
import type { ExperimentDocument } from "../protocol/documents/experiment.ts";
import type { Document } from "../protocol/log/entries.ts";
import { linesBetween, type News } from "../protocol/relays/news.ts";
import { SEEN_LOG, UNSEEN, type SeenLog } from "../protocol/trust/seenLog.ts";
import { TrustedLog } from "../protocol/trust/trustedLog.ts";
import { LogGrewError, LogLines } from "../trust/logLines.ts";
import type { Now, Surroundings } from "../trust/surroundings.ts";

/** A checkpoint, and all lines since what was seen. **Nothing in it is checked** but the checkpoint's quorum. */
export type FetchedLog = readonly [checkpoint: Bytes, lines: readonly Uint8Array[]];

/** The log, as this device believes it, for one experiment. */
export class HeldLog {
  readonly trusted: TrustedLog;
  readonly #around: Surroundings;
  readonly #path: string;
  readonly #lines: LogLines;

  /** `envelope`: the experiment's, for evidence. Throws a `BadInputError` where too few witnesses are known. */
  constructor(around: Surroundings, document: ExperimentDocument, envelope: Bytes, believed: () => readonly Document[]) {
    this.#around = around;
    this.#path = `/v1/experiment/${document.digest}/checkpoint`;
    const kept = around.state.relayed.log(document.digest);
    const seen = kept === null ? UNSEEN : SEEN_LOG.fromBytes(kept);
    this.trusted = new TrustedLog(document, envelope, { policy: around.policy.logPolicy, seen, believed });
    this.#lines = new LogLines(around);
  }

  /**
   * The log as it is now, from `news` as far as it is there; null where something could not be had. `over`: an ending is
   * to be shown.
   *
   * Throws a `CheatingError` where the log was forked, with evidence; another `RemoteProtocolError` where it is no
   * checkpoint of this log, or too few witnesses have cosigned it lately; an `OverLimitError` where there is more to
   * fetch than may be fetched today.
   */
  async fetch(news: News, now: Now, { over }: { over: boolean }): Promise<FetchedLog | null> {
    const most = MAX_NOTE_BYTES;
    const checkpoint = news.checkpoint.length
      ? news.checkpoint
      : await this.#around.content(this.#path, now, { most });
    if (checkpoint === null) return null;
    // Before anything is fetched for it: a log alone can claim any size.
    await this.trusted.checkQuorum(checkpoint, { now: now(), over });
    const since = this.trusted.seenSize;
    const size = since + (await this.trusted.missingLines(checkpoint));
    const lines = linesBetween(news, since, size) ?? (await this.#lines.fetch(since, size, now));
    return lines && [checkpoint, lines];
  }

  /**
   * That these documents, in this order, are all that the log has of the experiment since the last; what is seen of it
   * then. See `TrustedLog.grow`.
   */
  async grow([checkpoint, lines]: FetchedLog, served: readonly Document[]): Promise<SeenLog> {
    try {
      return await this.trusted.grow(checkpoint, lines, served);
    } catch (fault) {
      if (fault instanceof StaleRoundError) throw new LogGrewError(fault.message);
      // What was fetched did not fit.
      if (fault instanceof RemoteProtocolError) this.#lines.forget();
      throw fault;
    }
  }

  /** From now on this is what was seen. Whoever calls this has stored it before. */
  believe(seen: SeenLog): void {
    this.trusted.seen = seen;
    this.#lines.forget();
  }
}
