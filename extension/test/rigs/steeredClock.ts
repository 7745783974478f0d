/** The time that a file tells, as Python's `SteeredClock` reads it: for tests over several processes. */

import { closeSync, openSync, readSync } from "node:fs";

import type { Clock } from "../../src/runtime/clock.ts";

const [SIZE, END] = [48, 40];
/** A steered clock changes its mind at any moment. */
const NAP_MS = 10;

export class SteeredClock implements Clock {
  readonly #file: number;

  constructor(path: string) {
    this.#file = openSync(path, "r");
    this.now = this.now.bind(this);
  }

  now(): number {
    const monotonic = process.hrtime.bigint();
    for (;;) {
      const data = Buffer.alloc(SIZE);
      readSync(this.#file, data, 0, SIZE, 0);
      if (data.readBigUInt64LE(0) !== data.readBigUInt64LE(END)) continue;
      const [base, at, limit] = [8, 16, 24].map((offset) => data.readBigInt64LE(offset)) as [bigint, bigint, bigint];
      const gone = monotonic > at ? Number(monotonic - at) * data.readDoubleLE(32) : 0;
      return Math.min(Number(limit), Number(base) + Math.floor(Math.trunc(gone) / 1_000_000));
    }
  }

  callAt(at: number, back: () => void): () => void {
    const timer = setInterval(() => {
      if (this.now() < at) return;
      clearInterval(timer);
      back();
    }, NAP_MS);
    return () => clearInterval(timer);
  }

  close(): void {
    closeSync(this.#file);
  }
}
