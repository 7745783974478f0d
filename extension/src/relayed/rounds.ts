/**
 * Rounds of an experiment with two relays: fetched with their openings and net tallies, checked, stored, then believed.
 *
 * One asking: the news (`protocol/relays/news.ts`), which are the newest manifest and, for a device that is up to date,
 * all that leads to it. What they lack is fetched one by one: every manifest and every opening between the last one
 * believed and the newest, and the net tallies that a step was taken from; where its time has come, the opening of the
 * newest round, and the ending; where there is a log, all of its lines since (`HeldLog`). What is believed then is on the
 * disk before the device goes on with it. The log may grow meanwhile; then it begins again, a few times.
 *
 * An opening that the coordinator does not serve although it serves other files is counted: after three looks from
 * `openBy` on the round is unopened for this device.
 */

import { unhex, type Bytes } from "../bytes.ts";
import { Envelope } from "../crypto/signing.ts";
import type { RoundNews } from "../device/polling.ts";
import { MalformedMessageError } from "../errors.ts";
import { decodeState, decodeTally } from "../protocol/documents/blobs.ts";
import type { ExperimentDocument } from "../protocol/documents/experiment.ts";
import { afterOpened, firstModel, modelOf, type Model } from "../protocol/documents/recomputation.ts";
import { boundBy, type RelayedManifest } from "../protocol/relays/manifest.ts";
import { newsPath, readNews, type News } from "../protocol/relays/news.ts";
import { OPENING } from "../protocol/relays/opening.ts";
import { RelayedChain, type Believing, type Ended, type Judging, type Served } from "../protocol/trust/relayedChain.ts";
import { SEEN_LOG, type SeenLog } from "../protocol/trust/seenLog.ts";
import { MOST_DOCUMENT_BYTES } from "../sending/transport.ts";
import { askWhileLogGrows } from "../trust/logLines.ts";
import type { Now, Surroundings } from "../trust/surroundings.ts";
import { HeldLog } from "./heldLog.ts";

/** So often an opening may be missing where other files are served. */
export const MAX_LOOKS = 3;

/** The one rule by which rounds become models: every step is played again on this device. */
export const JUDGING: Judging<Model> = {
  first: firstModel,
  model: (state, { digest, document }) =>
    modelOf(document, decodeState(state, { digest, experiment: document.experiment })),
  tally: (data, { digest, document }) => decodeTally(data, { digest, experiment: document.experiment }),
  after: (document, model, net, of) => afterOpened(document, model.state, net, of),
};

/** One experiment's rounds, as this device believes them. */
export class RelayedRounds {
  /** What the experiment's other parts fetch by too: sealed to what is believed here (docs/protocol.md §27). */
  readonly around: Surroundings;
  readonly chain: RelayedChain<Model>;
  /** Null: the experiment has none. */
  readonly log: HeldLog | null;
  /** Told how rounds ended, inside the transaction that stores what is believed now. */
  settle: (ended: readonly Ended[]) => void = () => undefined;
  readonly #document: ExperimentDocument;
  readonly #path: string;
  /** The round whose opening was looked for, and how often in vain. */
  #missing = { round: 0, looks: 0 };

  constructor(around: Surroundings, document: ExperimentDocument, envelope: Bytes) {
    this.around = around.sealingTo(() => this.chain.last?.fetchKeys ?? null);
    this.#document = document;
    this.#path = `/v1/experiment/${document.digest}`;
    const book = around.state.relayed;
    const [trust, seen] = [book.trust(document.digest), book.bound(document.digest)];
    this.chain = new RelayedChain(document, JUDGING, { trust, seen });
    const newest = () => this.chain.newest();
    this.log = document.log === null ? null : new HeldLog(this.around, document, envelope, newest);
  }

  /**
   * What is new; null where nobody answered.
   *
   * Throws an `InconsistentManifestError` where what the coordinator signed contradicts its experiment, or itself; a
   * `CheatingError` with evidence where the log contradicts what the coordinator signed, or itself; another
   * `RemoteProtocolError` where it cannot be believed, and nothing has changed; an `OverLimitError` where there is more
   * to fetch than may be fetched today.
   */
  ask(now: Now): Promise<RoundNews | null> {
    return askWhileLogGrows((at) => this.#ask(at), now);
  }

  async #ask(now: Now): Promise<RoundNews | null> {
    const { around, chain } = this;
    let most = MOST_DOCUMENT_BYTES;
    if (chain.last !== null) {
      most += this.#document.mostTallyBytes;
      around.traffic.check(most, now());
    }
    const fetched = await around.fetch(newsPath(this.#document.digest, chain.nextRound), now, { most });
    if (fetched === null) return null;
    const news = readNews(fetched.content);
    const announced = await chain.look(news.manifest);
    const { served, unopened } = await this.#gather(announced, news, now);
    const isNew = served !== null && (served.manifests.length || served.ending !== null || this.#opens(served));
    if (served === null || !isNew) {
      return { manifest: chain.trust.manifest, ahead: fetched.ahead, ending: null, unopened };
    }
    const logged = this.log === null ? null : await this.log.fetch(news, now, { over: served.ending !== null });
    if (this.log !== null && logged === null) return null;
    const believing = await chain.check(served);
    // Without a log there is nothing to hold them to.
    const seen = this.log === null || logged === null ? null : await this.log.grow(logged, believing.documents);
    await this.#keep(believing, served, seen);
    return { manifest: believing.trust.manifest, ahead: fetched.ahead, ending: believing.ending, unopened };
  }

  /** With which the newest round is computed. */
  model(): Model {
    const model = this.chain.model();
    this.around.shelf.put(model.names[2], model.evaluation);
    return model;
  }

  #opens({ openings }: Served): boolean {
    const { last, opening } = this.chain;
    return opening === null && last !== null && openings.has(last.roundNumber);
  }

  // ── fetching ───────────────────────────────────────────────────────────────────────────────────────────────────────

  /** All that `check` wants, and the round that stays without an opening; null: something could not be had. */
  async #gather(
    announced: RelayedManifest | null,
    news: News,
    now: Now,
  ): Promise<{ served: Served | null; unopened: number | null }> {
    const [{ chain, around }, manifests] = [this, new Map<number, Bytes>()];
    const { last } = chain;
    for (let number = chain.nextRound; announced !== null && number < announced.roundNumber; number++) {
      around.traffic.check(MOST_DOCUMENT_BYTES, now());
      const manifest = await around.content(`${this.#path}/manifest/${number}`, now);
      if (manifest === null) return { served: null, unopened: null };
      manifests.set(number, manifest);
    }
    const rounds = [...manifests.keys()];
    const isDue = last !== null && (announced !== null || now() >= last.instants.mixBy);
    if (last !== null && chain.opening === null && isDue) rounds.unshift(last.roundNumber);
    if (announced !== null) manifests.set(announced.roundNumber, news.manifest);
    const openings = new Map<number, Bytes>();
    for (const number of rounds) {
      const opening = await this.#opening(number, news, now);
      if (opening === null) return { served: null, unopened: this.#missed(number, now()) };
      openings.set(number, opening);
    }
    if (announced !== null && now() >= announced.instants.mixBy) {
      // Whoever was away may find it ended already, and the log with its opening.
      const newest = await around.content(`${this.#path}/opening/${announced.roundNumber}`, now);
      if (newest !== null) openings.set(announced.roundNumber, newest);
    }
    const ending = await this.#ending(announced, openings, now);
    const tallies = await this.#tallies(openings, news, { followed: announced !== null || ending !== null, now });
    if (tallies === null) return { served: null, unopened: null };
    return { served: { manifests: [...manifests.values()], openings, tallies, ending }, unopened: null };
  }

  /** The opening of a round; that of the last one believed comes with the news. */
  async #opening(number: number, news: News, now: Now): Promise<Bytes | null> {
    if (number === this.chain.nextRound - 1 && news.opening.length) return news.opening;
    return this.around.content(`${this.#path}/opening/${number}`, now);
  }

  async #ending(
    announced: RelayedManifest | null,
    openings: ReadonlyMap<number, Bytes>,
    now: Now,
  ): Promise<Bytes | null> {
    const newest = announced ?? this.chain.last;
    const isOpened = newest !== null && openings.has(newest.roundNumber);
    if (!isOpened && (announced !== null || this.chain.opening === null)) return null;
    return this.around.content(`${this.#path}/ending`, now);
  }

  /** Net tallies from which a step may have been taken; null: one could not be had. */
  async #tallies(
    openings: ReadonlyMap<number, Bytes>,
    news: News,
    { followed, now }: { followed: boolean; now: Now },
  ): Promise<Map<string, Bytes> | null> {
    const [{ around }, document, tallies] = [this, this.#document, new Map<string, Bytes>()];
    const opened = [...openings.values()].map((data) => OPENING.fromBytes(Envelope.fromBytes(data).payload));
    if (this.chain.opening !== null) opened.push(this.chain.opening);
    for (const { tally: digest } of opened) {
      // The newest opening's is wanted only when something follows it.
      if (digest === null || !followed) continue;
      let data = (await isTally(news.tally, digest, document)) ? news.tally : null;
      if (data === null) {
        const most = document.mostTallyBytes;
        around.traffic.check(most, now());
        data = await around.content(`/v1/blob/${digest}`, now, { most });
      }
      // Another one that was served is as good as none.
      if (data === null || !(await isTally(data, digest, document))) return null;
      tallies.set(digest, data);
    }
    return tallies;
  }

  /** An opening that was not served: the round, where that was too often. */
  #missed(number: number, now: number): number | null {
    const { last } = this.chain;
    if (last?.roundNumber !== number || now < last.instants.openBy) return null;
    this.#missing = { round: number, looks: 1 + (this.#missing.round === number ? this.#missing.looks : 0) };
    return this.#missing.looks >= MAX_LOOKS ? number : null;
  }

  // ── believing ──────────────────────────────────────────────────────────────────────────────────────────────────────

  /** On the disk first; then it is believed. */
  async #keep(believing: Believing<Model>, served: Served, log: SeenLog | null): Promise<void> {
    const [{ state, shelf }, { digest }] = [this.around, this.#document];
    const { trust, manifests, steps, ended, ending, model } = believing;
    await state.writing(() => {
      const bound = manifests.map((manifest) => {
        return { roundNumber: manifest.roundNumber, bound: [...boundBy(manifest)].map(unhex) };
      });
      state.relayed.putTrust(digest, trust, bound, log && SEEN_LOG.toBytes(log));
      state.trust.count(digest, "steps", steps);
      this.settle(ended);
      if (ending !== null && served.ending !== null) state.putEnding(digest, served.ending, ending);
    });
    this.chain.believe(believing);
    if (this.log !== null && log !== null) this.log.believe(log);
    if (ending !== null) shelf.put(model.names[2], model.evaluation);
  }
}

/** Whether these bytes are the tally of this digest. */
async function isTally(data: Bytes, digest: string, { experiment }: ExperimentDocument): Promise<boolean> {
  if (!data.length) return false;
  try {
    await decodeTally(data, { digest, experiment });
    return true;
  } catch (fault) {
    if (fault instanceof MalformedMessageError) return false;
    throw fault;
  }
}
