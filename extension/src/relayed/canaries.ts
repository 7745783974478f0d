/**
 * Was my canary handed on? A device looks for the one package of its own that it ever looks for (docs/protocol.md §32).
 *
 * When the opening of a round is believed for which a receipt is held, the canary gets a random moment. Then two public
 * files are fetched, the index of the shards and the run of digests into which the canary's falls, and checked under the
 * root that the mixing relay signed. Three things can come of it:
 *
 * - it is there: in one round of 64 its shard is counted again (`recounting.ts`), and then everything that was kept of
 *   the round is forgotten;
 * - it is not there, and its neighbours show that: **a relay left it out**, and there is a file that shows it to others;
 * - nothing that verifies came, three times, although other files were served: that is no accident either.
 *
 * The files are kept for some days only. Whoever comes later looks once, and then no more.
 *
 * What the device does depends on the canary and on public files alone. It keeps nothing else by which it could find
 * another capsule of its own: whoever drops packages by what they say learns nothing from it.
 */

import type { Bytes } from "../bytes.ts";
import { BadProofError, CheatingError, MalformedMessageError, RemoteProtocolError } from "../errors.ts";
import { spreadMs } from "../device/polling.ts";
import type { ExperimentDocument } from "../protocol/documents/experiment.ts";
import { examineCanary, missingCanary } from "../protocol/evidence/missingCanary.ts";
import { MIX_COUNT, type MixCount } from "../protocol/relays/counts.ts";
import { MANIFEST } from "../protocol/relays/manifest.ts";
import { OPENING } from "../protocol/relays/opening.ts";
import { GRACE_MS, NEVER } from "../protocol/relays/sessionEvents.ts";
import * as shards from "../protocol/relays/shardRuns.ts";
import { DAY_MS, LEAST_DAYS } from "../protocol/relays/shards.ts";
import { enclosed } from "../protocol/relays/statements.ts";
import { CANARY, recounts, type Canary } from "../protocol/relays/submission.ts";
import { below } from "../protocol/schedule.ts";
import type { Check } from "../storage/books.ts";
import type { KeptCanary } from "../storage/relayedBook.ts";
import type { Now, Surroundings } from "../trust/surroundings.ts";
import { recountShard, UnansweredError } from "./recounting.ts";

/** So often nothing that verifies may come. */
export const MAX_TRIES = 3;
/** So long after `openBy` the files must be there, less a day for clocks that differ. */
const SURELY_KEPT_MS = (LEAST_DAYS - 1) * DAY_MS;
/** Where nobody answers moments are spread wider each time, up to so many times twofold. */
const MOST_DOUBLED = 6;

/** A canary that is not where it should be. */
export interface CanaryLoss {
  readonly roundNumber: number;
  readonly sentence: string;
  /** The file that shows it; null: nothing that was signed does. */
  readonly evidence: Bytes | null;
}

interface Look {
  /** Askings for manifests that were answered so far. */
  readonly answered: number;
  /** The experiment is over. */
  readonly ended: boolean;
}

/** The canaries of one experiment. */
export class Canaries {
  readonly #around: Surroundings;
  readonly #document: ExperimentDocument;
  /** The experiment's, as it was served, for evidence. */
  readonly #envelope: Bytes;
  readonly #path: string;
  readonly #spread: number;
  #moments = new Map<number, number>();
  /** Looks in a row that nobody answered, and nothing else either. */
  #silent = 0;
  /** Askings for manifests that were answered, at the last look in vain. */
  #answeredThen = 0;

  constructor(around: Surroundings, document: ExperimentDocument, envelope: Bytes) {
    this.#around = around;
    this.#document = document;
    this.#envelope = envelope;
    this.#path = `/v1/experiment/${document.digest}`;
    this.#spread = spreadMs(document.windows);
  }

  /** Give every canary that can be looked for a moment. */
  plan(now: number): void {
    const kept = this.#around.state.relayed.canaries(this.#document.digest);
    const wanted = new Set(kept.flatMap(({ opening, roundNumber }) => (opening === null ? [] : [roundNumber])));
    this.#moments = new Map([...this.#moments].filter(([number]) => wanted.has(number)));
    for (const number of wanted) if (!this.#moments.has(number)) this.#draw(number, now);
  }

  /** When the next one is looked for. */
  get at(): number {
    return Math.min(NEVER, ...this.#moments.values());
  }

  /**
   * Look for the one that is due.
   *
   * Throws a `CheatingError` with evidence where the coordinator signed a count of the canary's shard that is false.
   */
  async look(now: Now, { answered, ended }: Look): Promise<CanaryLoss | null> {
    const at = this.at;
    const number = Math.min(...[...this.#moments].flatMap(([round, moment]) => (moment === at ? [round] : [])));
    this.#moments.delete(number);
    const canaries = this.#around.state.relayed.canaries(this.#document.digest);
    const kept = canaries.find(({ roundNumber }) => roundNumber === number);
    if (kept === undefined || kept.opening === null) return null;
    if (at + GRACE_MS < now()) {
      // This device slept or was paused: asking right after waking would tell when.
      this.#draw(number, now());
      return null;
    }
    const [canary, opening] = [CANARY.fromBytes(kept.canary), OPENING.fromBytes(kept.opening)];
    if (opening.mixCount === null) {
      throw new BadProofError(`the opening of round ${number} that is kept has no count of the mixing relay`);
    }
    let runs: shards.ShardRun[];
    try {
      runs = await this.#runs(number, canary, enclosed(MIX_COUNT, opening.mixCount), now);
      const run = runs.find((one) => one.find(canary.innerDigest) !== null);
      if (run !== undefined) {
        if (recounts(canary.ephemerals)) await this.#recount(kept, run, now);
        this.#silent = 0;
        await this.#done(kept, "seen");
        return null;
      }
    } catch (fault) {
      if (fault instanceof UnansweredError) return this.#unanswered(kept, now, { answered, ended });
      if (fault instanceof CheatingError) await this.#done(kept, "seen");
      else if (fault instanceof RemoteProtocolError) return this.#tried(kept, now());
      throw fault;
    }
    this.#silent = 0;
    return this.#missing(kept, canary, runs, opening.mixCount);
  }

  // ── one look ───────────────────────────────────────────────────────────────────────────────────────────────────────

  /** The run in which the canary stands or would stand, and the one beside it where it takes two to show that. */
  async #runs(number: number, { innerDigest }: Canary, count: MixCount, now: Now): Promise<shards.ShardRun[]> {
    const index = await this.#fetch(`shards/${number}`, shards.indexBytes(count.capsules), now);
    const shard = shards.shardOf(shards.readIndex(index, { capsules: count.capsules }), innerDigest);
    const first = await this.#run(number, shard, count, now);
    if (first.find(innerDigest) !== null) return [first];
    const also = shards.beside(first, innerDigest);
    const runs = also === null ? [first] : [first, await this.#run(number, also, count, now)];
    if (runs.every((run) => run.find(innerDigest) === null) && shards.absenceIn(innerDigest, runs) === null) {
      throw new MalformedMessageError("the index leads to a shard that the canary has no place in");
    }
    return runs;
  }

  async #run(number: number, shard: number, count: MixCount, now: Now): Promise<shards.ShardRun> {
    const data = await this.#fetch(`shard/${number}/${shard}`, shards.MAX_RUN_BYTES, now);
    const run = shards.readRun(data, { shard, capsules: count.capsules });
    run.check(count.root);
    return run;
  }

  async #recount(kept: KeptCanary, run: shards.ShardRun, now: Now): Promise<void> {
    const fetch = (path: string, most: number) => this.#fetch(path, most, now);
    await recountShard(this.#document, this.#envelope, kept, run, fetch);
    const { state } = this.#around;
    await state.writing(() => state.trust.count(this.#document.digest, "recounted"));
  }

  async #fetch(path: string, most: number, now: Now): Promise<Bytes> {
    const content = await this.#around.content(`${this.#path}/${path}`, now, { most });
    if (content === null) throw new UnansweredError();
    return content;
  }

  // ── what comes of it ───────────────────────────────────────────────────────────────────────────────────────────────

  async #missing(
    { roundNumber, manifest }: KeptCanary,
    canary: Canary,
    runs: readonly shards.ShardRun[],
    mixCount: Bytes,
  ): Promise<CanaryLoss> {
    const absence = shards.absenceIn(canary.innerDigest, runs);
    if (absence === null) throw new BadProofError("a canary is neither in its runs nor absent from them");
    const shown = { experiment: this.#envelope, manifest: MANIFEST.fromBytes(manifest), mixCount };
    const evidence = missingCanary(canary, absence, shown);
    // What does not convince others is not kept as if it did.
    const { sentence } = await examineCanary(evidence);
    return { roundNumber, sentence: sentence.replace(/\.$/, ""), evidence };
  }

  /** Nobody can tell a bad network from this, unless other files come. */
  async #unanswered(kept: KeptCanary, now: Now, { answered, ended }: Look): Promise<CanaryLoss | null> {
    if (now() >= MANIFEST.fromBytes(kept.manifest).instants.openBy + SURELY_KEPT_MS) {
      // They may be gone, and an honest coordinator looks the same as another.
      await this.#done(kept, "unchecked");
      return null;
    }
    // After its end no manifest is asked for any more.
    const isServed = ended
      ? (await this.#around.fetch(`${this.#path}/ending`, now)) !== null
      : answered > this.#answeredThen;
    if (!ended) this.#answeredThen = answered;
    if (isServed) return this.#tried(kept, now());
    this.#silent = Math.min(this.#silent + 1, MOST_DOUBLED);
    this.#draw(kept.roundNumber, now());
    return null;
  }

  /** Nothing that verifies came. */
  async #tried({ roundNumber, tries }: KeptCanary, now: number): Promise<CanaryLoss | null> {
    this.#silent = 0;
    if (tries + 1 >= MAX_TRIES) {
      const sentence = `for the canary of round ${roundNumber} no shard that verifies can be had, although other files are served`;
      return { roundNumber, sentence, evidence: null };
    }
    const { state } = this.#around;
    await state.writing(() => state.relayed.putTries(this.#document.digest, roundNumber, tries + 1));
    this.#draw(roundNumber, now);
    return null;
  }

  /** It was seen, or it is too late to look for it. */
  async #done({ roundNumber }: KeptCanary, what: Check): Promise<void> {
    const [{ state }, { digest }] = [this.#around, this.#document];
    await state.writing(() => {
      state.relayed.dropCanary(digest, roundNumber);
      state.trust.count(digest, what);
    });
  }

  #draw(number: number, now: number): void {
    this.#moments.set(number, now + below(this.#spread * 2 ** this.#silent, this.#around.words));
  }
}
