/**
 * A device's part in one experiment: when it asks what is new, what an asking brings, and how far a round is.
 *
 * **When it asks for the next manifest** (`Polling`): at a phase that says nothing about the device. A device that asks
 * every ten minutes has a pseudonym: its time modulo ten minutes. So every asking has a fresh random time: after the
 * last known round is over for good, within the experiment's grace; and when there is nothing newer, after a random
 * while around a bound that doubles up to a quarter of the window. When nobody answers it asks again sooner, after a
 * random while that grows to the grace. A manifest must be there before the window opens, so whoever runs a coordinator
 * leaves several graces between a round's end and the next opening.
 */

import type { Bytes } from "../bytes.ts";
import { openAtHour, type Windows } from "../protocol/documents/experimentParts.ts";
import type { RelayedEnding } from "../protocol/relays/opening.ts";
import { below } from "../protocol/schedule.ts";

/** Where an experiment takes nothing late, moments spread over this. */
const SHORTEST_MS = 1000;
/** The last millisecond of the year 9999, after which Python's clock ends. */
const LAST_INSTANT = 253_402_300_799_999;

/** Over so many milliseconds moments are spread that nobody shall know a device by. */
export function spreadMs({ graceS }: Windows): number {
  return 1000 * graceS || SHORTEST_MS;
}

/** The times of one device's askings in one experiment. */
export class Polling {
  /** So many askings in a row that nobody answered. */
  unanswered = 0;
  readonly #spread: number;
  readonly #longest: number;
  readonly #words: Iterator<bigint>;
  #missed = 0;

  constructor(windows: Windows, words: Iterator<bigint>) {
    this.#spread = spreadMs(windows);
    this.#longest = Math.max(this.#spread, Math.floor((1000 * windows.lengthS) / 4));
    this.#words = words;
  }

  /** After joining, after coming back, or when a round is over. */
  first(now: number): number {
    this.#missed = this.unanswered = 0;
    return now + below(this.#spread, this.#words);
  }

  /** There was nothing newer: between half and one and a half of the bound, which doubles. */
  again(now: number): number {
    this.unanswered = 0;
    const bound = Math.min(this.#spread * 2 ** Math.min(this.#missed, 30), this.#longest);
    this.#missed += 1;
    return now + Math.floor(bound / 2) + below(bound, this.#words);
  }

  /** Nobody answered: soon, for the next window opens whether the network is there or not; up to the spread. */
  failed(now: number): number {
    const shortest = Math.max(1, Math.floor(this.#spread / 16));
    const bound = Math.min(shortest * 2 ** Math.min(this.unanswered, 4), this.#spread);
    this.unanswered += 1;
    return now + below(bound, this.#words);
  }
}

/** What an asking brought. */
export interface RoundNews {
  /** Envelope of the newest manifest, as it was served; null: there is none. */
  readonly manifest: Bytes | null;
  /** By so much at least the server's clock is ahead; null: it did not say. */
  readonly ahead: number | null;
  /** The experiment is over, and that is stored. */
  readonly ending: RelayedEnding | null;
  /** The round of this number has no opening, as often as it was looked for. */
  readonly unopened: number | null;
}

/** How far a device is in a round, or was. */
export interface RoundCounts {
  readonly roundNumber: number;
  readonly waiting: number;
  readonly acknowledged: number;
  readonly lost: number;
  readonly done: boolean;
}

/** Whether a window may open at this instant, by the time zones that this browser knows. */
export function opensInHours(windows: Windows, opensAt: number): boolean {
  if (windows.hours.length === 1 && windows.hours[0]![0] === 0 && windows.hours[0]![1] === 24) return true;
  const offsetS = opensAt <= LAST_INSTANT ? offsetOf(windows.timeZone, opensAt) : null;
  return offsetS !== null && openAtHour(windows, opensAt, { offsetS });
}

/** So many seconds is this zone's local time ahead of UTC then; null: this browser knows no such zone. */
function offsetOf(timeZone: string, at: number): number | null {
  try {
    const format = new Intl.DateTimeFormat("en", { timeZone, timeZoneName: "longOffset" });
    const name = format.formatToParts(at).find(({ type }) => type === "timeZoneName")?.value ?? "";
    const [, sign, hours, minutes, seconds] = /^GMT(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?$/.exec(name) ?? [];
    const offset = Number(hours ?? 0) * 3600 + Number(minutes ?? 0) * 60 + Number(seconds ?? 0);
    return sign === "-" ? -offset : offset;
  } catch (fault) {
    if (fault instanceof RangeError) return null;
    throw fault;
  }
}
