/**
 * When what a device has to send is sent (docs/protocol.md §14, §28).
 *
 * A time is uniform over the whole window, in whole milliseconds, and what is said takes no part in it. Who is late draws
 * again, uniform over what is left: sent at once it would tell when the person came back.
 *
 * Dice are an iterator of uniform 64-bit words. A number below n is a word modulo n, where words from the last, incomplete
 * run of n are thrown away: exactly uniform, not nearly.
 */

import { LocalProtocolError } from "../errors.ts";

const WORD = 1n << 64n;

/** The time in which a round's requests are sent, in milliseconds. */
export interface Window {
  readonly opensAt: number;
  /** The first millisecond in which nothing may be sent any more. */
  readonly closesAt: number;
}

export function makeWindow(opensAt: number, closesAt: number): Window {
  if (!(0 <= opensAt && opensAt < closesAt)) throw new LocalProtocolError("a window opens before it closes");
  return { opensAt, closesAt };
}

/** A number from 0 to n - 1, each equally likely. */
export function below(n: number, words: Iterator<bigint>): number {
  if (!Number.isSafeInteger(n) || n < 1) throw new LocalProtocolError("dice draw from 1 to 2^53 - 1 numbers");
  const wholeRuns = WORD - (WORD % BigInt(n));
  for (let drawn = words.next(); !drawn.done; drawn = words.next()) {
    const word = drawn.value;
    if (word < 0n || word >= WORD) throw new LocalProtocolError("a word of dice has 64 bits");
    if (word < wholeRuns) return Number(word % BigInt(n));
  }
  throw new LocalProtocolError("the dice have run out");
}

/** The same items in random order, every order equally likely (Fisher and Yates, from the last to the second). */
export function shuffle<T>(items: readonly T[], words: Iterator<bigint>): T[] {
  const mixed = [...items];
  for (let last = mixed.length - 1; last > 0; last--) {
    const chosen = below(last + 1, words);
    [mixed[last], mixed[chosen]] = [mixed[chosen]!, mixed[last]!];
  }
  return mixed;
}

/** So many times in the window, independent of each other and uniform. */
export function spread(count: number, window: Window, words: Iterator<bigint>): number[] {
  const length = window.closesAt - window.opensAt;
  return Array.from({ length: count }, () => window.opensAt + below(length, words));
}

/** The times, those overdue by more than `grace` milliseconds drawn anew over what is left of the window. */
export function redraw(
  times: readonly number[],
  window: Window,
  words: Iterator<bigint>,
  options: { now: number; grace?: number },
): number[] {
  const { now, grace = 0 } = options;
  if (now >= window.closesAt) throw new LocalProtocolError("nothing is left of the window");
  const left = makeWindow(Math.max(now, window.opensAt), window.closesAt);
  return times.map((at) => (at + grace >= now ? at : spread(1, left, words)[0]!));
}
