/**
 * Device: one person, and all experiments they take part in.
 *
 * `work` does what is due for all of them, as long as something is due or under way, and says when it is to be called
 * next. Whoever calls it keeps one alarm, and calls it after a restart: it may die after any await, and is then as its
 * tables are.
 *
 * Before anything is sent or fetched, it looks what the person has decided: a pause holds at once. Where `onlyTests` is
 * set (data that are made up), experiments that are none are left alone; plain ones are shown, and never joined.
 */

import { LocalProtocolError } from "../errors.ts";
import { readPublished } from "../protocol/documents/experiment.ts";
import { NEVER } from "../protocol/relays/sessionEvents.ts";
import { RelayedMembership } from "../relayed/membership.ts";
import type { Clock } from "../runtime/clock.ts";
import type { ExperimentRecord } from "../storage/kept.ts";
import type { Surroundings } from "../trust/surroundings.ts";
import type { DiceFor } from "./dice.ts";

interface Own {
  readonly clock: Clock;
  readonly diceFor: DiceFor;
  readonly onlyTests: boolean;
}

/** One person's device. */
export class ParticipantDevice {
  /** All experiments that it takes part in, by digest. */
  readonly memberships = new Map<string, RelayedMembership>();
  readonly #around: Surroundings;
  readonly #own: Own;
  readonly #running = new Set<Promise<void>>();
  #fault: { readonly thrown: unknown } | null = null;
  /** Somebody wants it to look again. */
  #isStirred = false;
  #stir: () => void = () => undefined;

  constructor(around: Surroundings, own: Own) {
    this.#around = around;
    this.#own = own;
  }

  /**
   * Do what is due, until nothing is due or under way; when there is something to do next, or null.
   *
   * Throws a `StoreError` where the disk is full: what is in memory may be on no disk then, so open the device anew.
   */
  async work(): Promise<number | null> {
    const { clock } = this.#own;
    for (;;) {
      this.#isStirred = false;
      await this.#begin(clock.now());
      if (this.#fault !== null) {
        await Promise.all(this.#running);
        throw this.#fault.thrown;
      }
      const next = Math.min(NEVER, ...[...this.memberships.values()].map(({ wakeAt }) => wakeAt));
      if (next <= clock.now()) continue;
      if (this.#running.size) await this.#untilSomethingHappens(next);
      else {
        await this.#flush();
        return next === NEVER ? null : next;
      }
    }
  }

  /** The person has decided something: where it waits for an answer, it looks at once, and not after it. */
  stir(): void {
    this.#isStirred = true;
    this.#stir();
  }

  /** Begin what is to be done now. */
  async #begin(now: number): Promise<void> {
    await this.#look(now);
    const at = this.#own.clock.now;
    for (const membership of this.memberships.values()) {
      await membership.tick(now);
      if (membership.takesWork(now)) this.#start(membership.work(at));
      for (let due = membership.outbox.shift(); due !== undefined; due = membership.outbox.shift()) {
        this.#start(membership.send(due, at));
      }
    }
  }

  #start(job: Promise<void>): void {
    const running = job
      .catch((thrown: unknown) => {
        this.#fault ??= { thrown };
      })
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  /** A job has ended, it is so late, or somebody stirs it. */
  async #untilSomethingHappens(next: number): Promise<void> {
    if (this.#isStirred) return;
    const stirred = new Promise<void>((resolve) => (this.#stir = resolve));
    let cancel = (): void => undefined;
    const late = new Promise<void>((resolve) => {
      if (next !== NEVER) cancel = this.#own.clock.callAt(next, resolve);
    });
    await Promise.race([...this.#running, late, stirred]);
    cancel();
  }

  /** Write what has changed since the last time, in one transaction. */
  async #flush(): Promise<void> {
    await this.#around.state.writing(() => {
      for (const membership of this.memberships.values()) membership.write();
      this.#around.traffic.write();
    });
  }

  /** See what the person has decided: joined, paused, resumed, forgotten. */
  async #look(now: number): Promise<void> {
    for (const record of this.#around.state.records()) {
      const known = this.memberships.get(record.digest);
      const takesPart = record.status === "joined" || record.status === "paused";
      if (takesPart && known !== undefined) await known.setStatus(record.status, now);
      else if (takesPart) this.memberships.set(record.digest, await this.#takeUp(record, now));
      else if (known !== undefined) {
        known.leave();
        this.memberships.delete(record.digest);
        await this.#around.shelf.release(record.digest);
      }
    }
  }

  async #takeUp(record: ExperimentRecord, now: number): Promise<RelayedMembership> {
    const document = await readPublished(record.envelope, { digest: record.digest });
    this.#around.transport.check(document);
    if (this.#own.onlyTests && !document.test) {
      throw new LocalProtocolError("this device is for tests: only experiments that are marked as a test can be joined");
    }
    return RelayedMembership.takenUp(this.#around, record, document, { dice: this.#own.diceFor(document), now });
  }
}
