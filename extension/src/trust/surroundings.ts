/**
 * What all experiments of a device share: its state, its way out, its dice, and its traffic.
 *
 * A person sets a limit to the bytes that their device sends and fetches in a day. A round that has begun is finished:
 * exactly B packages, or the number would say something. So the limit is asked before a round, not during one.
 */

import type { Bytes } from "../bytes.ts";
import type { RandomBytes } from "../crypto/sealing/kem.ts";
import { OverLimitError } from "../errors.ts";
import { heldTo, MOST_DOCUMENT_BYTES, OVERHEAD_BYTES, type Fetched, type RelayTransport } from "../sending/transport.ts";
import type { ExperimentDocument } from "../protocol/documents/experiment.ts";
import type { DeviceState } from "../storage/state.ts";
import type { ModelShelf } from "./modelFiles.ts";
import type { TrustPolicy } from "./trustPolicy.ts";

const DAY_MS = 86_400_000;
/** About a hundred rounds of a hundred packages. */
export const DAILY_BYTES = 50_000_000;
/** So many fetches at once for whoever has to catch up. */
const AT_ONCE = 4;

/** A clock's `now`. */
export type Now = () => number;
/** The network, as a device sees it. */
export type Transport = Pick<RelayTransport, "askToken" | "check" | "fetch" | "relayedTerms" | "submit">;

/** What a person has decided about what is told of them, as far as a round asks for it. */
export interface RoundConsent {
  /** Throws a `ConsentRefusedError` where the device does not agree to the experiment, or to one more round of it. */
  agree(document: ExperimentDocument): void | Promise<void>;
  /** Count this round in the ledger, on the disk when this ends; or throw a `ConsentRefusedError`. */
  enter(document: ExperimentDocument, roundNumber: number): Promise<void>;
}

/** Bytes by day, the machine's UTC days. */
export class Traffic {
  readonly #state: DeviceState;
  readonly #limit: number;
  /** Not written yet. */
  readonly #fresh = new Map<number, number>();

  constructor(state: DeviceState, { dailyBytes = DAILY_BYTES }: { dailyBytes?: number } = {}) {
    this.#state = state;
    this.#limit = dailyBytes;
  }

  /** So many bytes went or came. */
  add(count: number, now: number): void {
    const day = Math.floor(now / DAY_MS);
    this.#fresh.set(day, (this.#fresh.get(day) ?? 0) + count);
  }

  /** Whether so many more stay within today's limit. */
  allows(count: number, now: number): boolean {
    const day = Math.floor(now / DAY_MS);
    return this.#state.traffic(day) + (this.#fresh.get(day) ?? 0) + count <= this.#limit;
  }

  /** Throws an `OverLimitError` where so many more would go beyond today's limit. */
  check(count: number, now: number): void {
    if (this.allows(count, now)) return;
    throw new OverLimitError("catching up with the log would go beyond the device's limit of traffic for a day");
  }

  /** Write what was counted, inside a transaction of the state. */
  write(): void {
    for (const [day, count] of this.#fresh) this.#state.putTraffic(day, count);
    this.#fresh.clear();
  }
}

interface Shared {
  readonly state: DeviceState;
  readonly transport: Transport;
  readonly shelf: ModelShelf;
  readonly traffic: Traffic;
  readonly policy: TrustPolicy;
  readonly consent: RoundConsent;
  /** The system's dice, for times, orders and phases. */
  readonly words: Iterator<bigint>;
  /** The same dice, for secrets. */
  readonly randomBytes: RandomBytes;
  /** Within one experiment: the fetch keys of the newest manifest believed, null before the first. */
  readonly fetchKeys?: () => Bytes | null;
}

/** The fields stand on it. */
export interface Surroundings extends Shared {}

export class Surroundings {
  constructor(shared: Shared) {
    Object.assign(this, shared);
  }

  /**
   * The same within one experiment, whose log names the keys to which alone fetches are sealed. Everybody sees the same
   * log, so nobody has keys of their own.
   */
  sealingTo(fetchKeys: () => Bytes | null): Surroundings {
    return new Surroundings({ ...this, fetchKeys });
  }

  /** A public file, counted in the traffic of the day, and the server's clock held to this one. */
  async fetch(path: string, now: Now, { most = MOST_DOCUMENT_BYTES } = {}): Promise<Fetched | null> {
    const sent = now();
    const fetched = await this.transport.fetch(path, { most, gatewayKeys: this.fetchKeys?.() ?? null });
    this.traffic.add(OVERHEAD_BYTES + (fetched?.content.length ?? 0), now());
    return fetched && heldTo(fetched, sent, now());
  }

  /** The same file, without the clock. */
  async content(path: string, now: Now, options: { most?: number } = {}): Promise<Bytes | null> {
    return (await this.fetch(path, now, options))?.content ?? null;
  }

  /**
   * Fetch those wanted that are not kept yet, of at most so many bytes each, a few at once; false: one of them could not
   * be had. A single one is fetched whatever the limit of traffic is.
   *
   * Throws an `OverLimitError` where there is more to fetch than may be fetched today.
   */
  async fetchMissing<Name, Content>(
    kept: Map<Name, Content>,
    wanted: Iterable<Name>,
    fetch: (name: Name) => Promise<Content | null>,
    { most, now }: { most: number; now: Now },
  ): Promise<boolean> {
    const missing = [...wanted].filter((name) => !kept.has(name));
    for (let start = 0; start < missing.length; start += AT_ONCE) {
      const some = missing.slice(start, start + AT_ONCE);
      if (missing.length > 1) this.traffic.check(some.length * most, now());
      const contents = await Promise.all(some.map(fetch));
      for (const [i, content] of contents.entries()) {
        if (content === null) return false;
        kept.set(some[i]!, content);
      }
    }
    return true;
  }
}
