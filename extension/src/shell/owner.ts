/**
 * The one owner of the device: opens it, lets it do what is due, one time after the other, and keeps one alarm.
 *
 * A browser may stop the background after any await, and may lose an alarm at every restart. So nothing is known here
 * but what the device has stored: whatever starts the background wakes the owner, and the device says what is due.
 */

import type { Asking } from "./router.ts";

/** A device as its owner sees it. */
export interface Device extends Asking {
  /** Does what is due; returns when it is to be woken next, in milliseconds since 1970, or null: by nobody. */
  work(): Promise<number | null>;
}

interface Around {
  open(): Promise<Device>;
  /** Sets the one alarm, in place of the one before; null: there is none. */
  arm(at: number | null): Promise<void>;
  now(): number;
}

/** After a fault nobody saw, such as a full disk, the device is opened anew after this time. */
export const AFTER_FAULT_MS = 10 * 60_000;

export class Owner {
  readonly #around: Around;
  #opened: Promise<Device> | null = null;
  #waking: Promise<void> | null = null;
  #again = false;
  #fault: unknown = null;

  constructor(around: Around) {
    this.#around = around;
  }

  /** What the device's work ended with last; null: well. The page tells it. */
  get fault(): unknown {
    return this.#fault;
  }

  /** The device; opened where it is not. */
  device(): Promise<Device> {
    if (this.#opened === null) {
      const opening = this.#around.open();
      this.#opened = opening;
      opening.catch(() => this.#drop(opening));
    }
    return this.#opened;
  }

  /** Let the device do what is due, and set the alarm. Ends when nothing is due any more; it never throws. */
  wake(): Promise<void> {
    this.#again = true;
    this.#waking ??= this.#work().finally(() => (this.#waking = null));
    return this.#waking;
  }

  async #work(): Promise<void> {
    while (this.#again) {
      this.#again = false;
      const opened = this.device();
      let due: number | null;
      try {
        due = await (await opened).work();
        this.#fault = null;
      } catch (fault) {
        // What it has in memory may be on no disk.
        this.#fault = fault;
        this.#drop(opened);
        due = this.#around.now() + AFTER_FAULT_MS;
      }
      await this.#around.arm(due);
    }
  }

  #drop(opened: Promise<Device>): void {
    if (this.#opened === opened) this.#opened = null;
  }
}
