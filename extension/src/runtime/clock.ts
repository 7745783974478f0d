/** Clocks, as a port: milliseconds since 1970, and a way to wait for one of them. */

/** What time it is. */
export interface Clock {
  now(): number;
  /** Calls back once, when it is so late; what comes is called by whoever does not want that any more. */
  callAt(at: number, back: () => void): () => void;
}

/** No wait is longer, so that a clock that was set, and a machine that slept, are noticed. */
const LONGEST_NAP_MS = 30_000;

/** The machine's clock. */
export const SYSTEM_CLOCK: Clock = {
  now: Date.now,
  callAt(at, back) {
    let timer: ReturnType<typeof setTimeout>;
    const nap = (): void => {
      const left = at - Date.now();
      if (left <= 0) back();
      else timer = setTimeout(nap, Math.min(left, LONGEST_NAP_MS));
    };
    nap();
    return () => clearTimeout(timer);
  },
};
