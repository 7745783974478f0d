/**
 * Fresh looks at the log while the window is open (docs/protocol.md §22, 8).
 *
 * Fresh looks are the check that the paper itself proposes. A server that singles a device out must go on doing so
 * whenever that device asks, and it does not see who asks. So in each window the device fetches the log's checkpoint
 * again, at a few uniform random moments that are drawn afresh for the round, over another relay where there are
 * several, as every fetch is. What comes back is the checkpoint that is believed, or one to which the log has grown
 * since by entries of other experiments: the lines in between are fetched, and lead to it. Anything else is wrong, and
 * nothing more leaves.
 *
 * **No answer** is no difference. It is asked again, each time at another moment of what is left of the window; and if
 * nobody answers at all, that is noted and the round goes on: networks fail. But a relay carries these looks, and one
 * that drops a device's packages would drop the looks too. So after a few rounds in a row without one answer
 * (`mostUnseen` of its policy) the device takes no part any more until its person resumes; that is remembered over
 * restarts. Whoever holds up its packets can stop it; that is better than to be watched by nobody.
 */

import type { Bytes } from "../bytes.ts";
import { MAX_NOTE_BYTES } from "../crypto/notes.ts";
import { CheatingError, OverLimitError, RemoteProtocolError } from "../errors.ts";
import { GRACE_MS, NEVER, REASONS, type Abstention } from "../protocol/relays/sessionEvents.ts";
import { makeWindow, redraw, spread, type Window } from "../protocol/schedule.ts";
import type { TrustedLog } from "../protocol/trust/trustedLog.ts";
import { LogLines } from "./logLines.ts";
import type { Now, Surroundings } from "./surroundings.ts";

/** More lines than this, 16 tiles, are not fetched for a look: it counts as not answered. */
const MOST_NEW_LINES = 4096;
/**
 * So often one look is asked for. A server that is started again is back by the last time; a relay that drops looks
 * drops them all.
 */
const MOST_TRIES = 5;
/** With so many tries in vain, a look that the end of the window has overtaken counts as not answered. */
const TRIED = 2;

/** Something else was shown than an honest log shows, with evidence where something that was signed shows it. */
export interface Distrusted {
  readonly distrusted: string;
  readonly evidence: Uint8Array | null;
}

interface Moment {
  readonly at: number;
  /** How often it was asked for in vain. */
  readonly tries: number;
}

/** The looks of one experiment that has a log. */
export class FreshLooks {
  readonly #around: Surroundings;
  readonly #experiment: string;
  readonly #log: TrustedLog;
  /** The round that was joined last, and its window. */
  #round = 0;
  #window: Window | null = null;
  /** Its looks still to come, by time. */
  #moments: Moment[] = [];
  /** Its looks by what became of them; and those of all rounds that are not written yet. */
  #ofRound = { refetched: 0, unanswered: 0 };
  #unwritten = { refetched: 0, unanswered: 0 };

  constructor(around: Surroundings, experiment: string, log: TrustedLog) {
    this.#around = around;
    this.#experiment = experiment;
    this.#log = log;
  }

  /**
   * A round is joined, or was before a restart: draw its moments. Those that have passed already are left out: the rest
   * stays uniform.
   */
  joined(round: number, window: Window, now: number): void {
    [this.#round, this.#window] = [round, window];
    const drawn = spread(this.#around.policy.refetches, window, this.#around.words);
    this.#moments = drawn.filter((at) => at >= now).map((at) => ({ at, tries: 0 }));
    this.#sort();
    this.#ofRound = { refetched: 0, unanswered: 0 };
  }

  /** When the log is looked at again. */
  get at(): number {
    return this.#moments[0]?.at ?? NEVER;
  }

  /** Write what has changed, inside a transaction of the state. */
  write(): void {
    for (const name of ["refetched", "unanswered"] as const) {
      if (this.#unwritten[name]) this.#around.state.trust.count(this.#experiment, name, this.#unwritten[name]);
    }
    this.#unwritten = { refetched: 0, unanswered: 0 };
  }

  /** Look at the log again. */
  async look(now: Now): Promise<Distrusted | Abstention | null> {
    const before = this.#ofRound.unanswered;
    let finding: Distrusted | Abstention | null = null;
    let seen: boolean | null = true;
    try {
      seen = await this.#fetch(now);
    } catch (fault) {
      if (!(fault instanceof RemoteProtocolError)) throw fault;
      const evidence = fault instanceof CheatingError ? fault.evidence : null;
      finding = { distrusted: fault.message, evidence };
      this.#moments = [];
    }
    await this.#note(seen);
    if (finding === null && this.#ofRound.unanswered > before && this.#isBlind) {
      const blind = this.tooManyUnseen();
      finding = blind === null ? { reason: "UNSEEN", sentence: REASONS.UNSEEN } : { distrusted: blind, evidence: null };
    }
    return finding;
  }

  /**
   * Take the look that is due, and say whether it was answered; null where it was put off instead.
   *
   * Throws a `CheatingError` where the log was forked, with evidence, and another `RemoteProtocolError` where something
   * else than what is believed was shown.
   */
  async #fetch(now: Now): Promise<boolean | null> {
    const [moment, window, { words }] = [now(), this.#window, this.#around];
    if (window === null || moment >= window.closesAt) {
      if (this.#moments.some(({ tries }) => tries >= TRIED)) this.#count("unanswered");
      this.#moments = [];
      return this.#isBlind ? false : null;
    }
    const { at, tries } = this.#moments.shift()!;
    if (at + GRACE_MS < moment) {
      // This device slept or was paused: a look right after waking would tell when.
      this.#put({ at: redraw([at], window, words, { now: moment })[0]!, tries });
      return null;
    }
    const path = `/v1/experiment/${this.#experiment}/checkpoint`;
    const checkpoint = await this.#around.content(path, now, { most: MAX_NOTE_BYTES });
    const lines = checkpoint === null ? null : await this.#newLines(checkpoint, now);
    if (checkpoint !== null && lines !== null) {
      this.#count("refetched");
      await this.#log.compare(checkpoint, lines);
      return true;
    }
    if (tries + 1 < MOST_TRIES && now() < window.closesAt) {
      this.#put({ at: spread(1, makeWindow(now(), window.closesAt), words)[0]!, tries: tries + 1 });
    } else {
      this.#count("unanswered");
    }
    return false;
  }

  /** What the log has appended since the believed checkpoint; null where it cannot be had. */
  async #newLines(checkpoint: Bytes, now: Now): Promise<Uint8Array[] | null> {
    const [count, since] = [await this.#log.missingLines(checkpoint), this.#log.seenSize];
    if (count > MOST_NEW_LINES) return null;
    try {
      return await new LogLines(this.#around).fetch(since, since + count, now);
    } catch (fault) {
      if (fault instanceof OverLimitError) return null;
      throw fault;
    }
  }

  #put(moment: Moment): void {
    this.#moments.push(moment);
    this.#sort();
  }

  #sort(): void {
    this.#moments.sort((a, b) => a.at - b.at);
  }

  #count(name: "refetched" | "unanswered"): void {
    this.#ofRound[name] += 1;
    this.#unwritten[name] += 1;
  }

  /** Whether all looks of the round are over, and nobody has answered one. */
  get #isBlind(): boolean {
    return !this.#moments.length && this.#ofRound.unanswered > 0 && this.#ofRound.refetched === 0;
  }

  /** Remember a round in which no look was answered, until one is; at once, for a restart must not undo it. */
  async #note(seen: boolean | null): Promise<void> {
    const [{ state }, digest] = [this.#around, this.#experiment];
    const unseen = state.trust.unseen(digest);
    if (seen && unseen.size) await state.writing(() => state.trust.clearUnseen(digest));
    else if (seen === false && this.#isBlind && !unseen.has(this.#round)) {
      await state.writing(() => state.trust.putUnseen(digest, this.#round));
    }
  }

  /**
   * Why no part is taken from now on, where too many rounds in a row were without an answered look.
   *
   * A round whose looks are not over yet does not count.
   */
  tooManyUnseen(): string | null {
    const unseen = this.#around.state.trust.unseen(this.#experiment);
    if (this.at < NEVER) unseen.delete(this.#round);
    if (unseen.size < this.#around.policy.mostUnseen) return null;
    return (
      `in ${unseen.size} rounds in a row no fresh look at the log was answered,` +
      " so nobody can tell whether this device is singled out"
    );
  }
}
