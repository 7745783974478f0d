/**
 * Experiments that ask to take part: fetched when the person asks for them, judged by what their device agrees to.
 *
 * Nothing is fetched by itself: opening a page tells nobody anything. The list comes the way everything does, through a
 * relay and under the seal; each document is believed only as the digest that it was asked for by. What was found is on
 * the disk until it is looked for again: the worker that found it does not live as long as its person reads.
 */

import { textOf, type Bytes } from "../bytes.ts";
import { checkRoom } from "../consent/ledger.ts";
import { neededFor } from "../consent/policies.ts";
import { BadInputError, ConsentRefusedError, RemoteProtocolError, SecVMError } from "../errors.ts";
import { checkExperiment, type Way } from "../person/decisions.ts";
import { chosenRelays } from "../person/disclosure.ts";
import { contents, say, type Sentence, type SentenceContent } from "../privacy/sentences.ts";
import { readPublished, type ExperimentDocument } from "../protocol/documents/experiment.ts";
import { OVERHEAD_BYTES } from "../sending/transport.ts";
import { isSource } from "../sources/registry.ts";
import { NOTHING, type Accepted } from "../storage/books.ts";
import type { DeviceState } from "../storage/state.ts";
import { about, type Json, type VaultLook } from "./view.ts";

/** So many are shown; a coordinator with more has a page of its own. */
const MOST_OFFERS = 30;
const OPEN = ["running", "paused"];
/** How the page names the one history that there is. */
const HISTORY = "history";

type Told = readonly (SentenceContent | { readonly text: string })[];

/** What a document means, for a page. */
export interface Meaning {
  readonly short: Told;
  readonly leaves: Told;
  readonly figures: Told;
}

/** An experiment that could be joined, and what it means: computed once, because the page is drawn every few seconds. */
export interface Offer {
  readonly document: ExperimentDocument;
  readonly envelope: Bytes;
  readonly meaning: Meaning;
}

/** Nobody can be told what it would mean to take part: numbers that make no sense, or that take for ever. */
export class UnreckonedError extends BadInputError {}

/** Says what a document means, or throws an `UnreckonedError`. */
export type Reckon = (document: ExperimentDocument) => Meaning;

/** What was found, by digest. */
export class Offers {
  readonly known = new Map<string, Offer>();
  /** Those that the person was invited to. */
  readonly invited = new Set<string>();
  /** Those that the person said no to, and wants to see again. */
  readonly again = new Set<string>();
  /** When it was last asked, and what was wrong then. */
  askedAt: number | null = null;
  problem: Sentence | null = null;
  readonly #reckon: Reckon;

  constructor(reckon: Reckon) {
    this.#reckon = reckon;
  }

  /** Ask for all experiments, or for the one of this digest; how many bytes went and came. */
  async look({ transport }: Way, { now, digest = null }: { now: number; digest?: string | null }): Promise<number> {
    [this.askedAt, this.problem] = [now, null];
    let seen = 0;
    const fetch = async (path: string): Promise<Bytes | null> => {
      const fetched = await transport.fetch(path);
      seen += OVERHEAD_BYTES + (fetched?.content.length ?? 0);
      return fetched?.content ?? null;
    };
    const wanted = digest !== null ? [digest] : this.#listed(await fetch("/v1/experiments"));
    for (const name of wanted.slice(0, MOST_OFFERS)) {
      const data = await fetch(`/v1/experiment/${name}`);
      if (data !== null) await this.#found(name, data);
      else if (digest !== null) this.problem = say("found.none");
      // Who names one wants to see it, also after a no.
      if (digest !== null && this.known.has(name)) this.again.add(name);
    }
    return seen;
  }

  #listed(data: Bytes | null): string[] {
    if (data === null) {
      this.problem = say("found.nobody");
      return [];
    }
    try {
      return readList(data);
    } catch (fault) {
      if (!(fault instanceof RemoteProtocolError)) throw fault;
      this.problem = say("found.no-list", { why: fault.message });
      return [];
    }
  }

  async #found(name: string, data: Bytes): Promise<void> {
    try {
      await this.put(name, data);
    } catch (fault) {
      if (fault instanceof UnreckonedError) this.problem = say("found.endless");
      else if (fault instanceof RemoteProtocolError) this.problem = say("found.wrong");
      else throw fault;
    }
  }

  /** One more; the oldest goes where there are too many. */
  async put(digest: string, envelope: Bytes): Promise<void> {
    const document = await readPublished(envelope, { digest });
    this.known.set(digest, { document, envelope, meaning: this.#reckon(document) });
    while (this.known.size > MOST_OFFERS) this.drop(this.known.keys().next().value!);
  }

  /** One that the person was invited to. */
  async putInvited(digest: string, envelope: Bytes): Promise<void> {
    this.invited.add(digest);
    try {
      await this.put(digest, envelope);
    } catch (fault) {
      if (!(fault instanceof RemoteProtocolError || fault instanceof UnreckonedError)) throw fault;
      this.problem = say("found.uncounted");
    }
  }

  /** One that the device knows already: it was declined, and the person wants to see it again. */
  async putAgain(digest: string, envelope: Bytes): Promise<void> {
    await this.put(digest, envelope);
    this.again.add(digest);
  }

  /** The person has decided. */
  drop(digest: string): void {
    this.known.delete(digest);
    this.again.delete(digest);
  }

  /** One of them. */
  offer(digest: string): Offer {
    const offer = this.known.get(digest);
    if (offer === undefined) throw new BadInputError("this experiment was not looked at yet");
    return offer;
  }
}

/** Digests of experiments that go on, of a coordinator's list. Its titles are not taken: documents are signed. */
export function readList(data: Bytes): string[] {
  let digests: unknown[];
  try {
    const listed: { digest: unknown; standing: unknown }[] = JSON.parse(textOf(data)).experiments;
    if (!listed.every((one) => Object.hasOwn(one, "standing"))) throw new RangeError("one has no standing");
    digests = listed.filter(({ standing }) => OPEN.includes(standing as string)).map(({ digest }) => digest);
  } catch {
    throw new RemoteProtocolError("it cannot be read");
  }
  if (!digests.every(isDigest)) throw new RemoteProtocolError("it names what is none");
  return [...new Set(digests)];
}

/** Whether this is an experiment's name. */
export function isDigest(text: unknown): text is string {
  return typeof text === "string" && /^[0-9a-f]{64}$/.test(text);
}

/** What the device says to an experiment. */
export interface Judgement {
  readonly refusal: Sentence | string | null;
  readonly nextStep: string | null;
  /** What the person would have to accept, where that alone is in the way. */
  readonly accept: Accepted | null;
}

const AGREES: Judgement = { refusal: null, nextStep: null, accept: null };

/** Whether it could be joined as it is. */
export function judge({ document }: Offer, state: DeviceState, vault: VaultLook, way: Way): Judgement {
  const { source } = document.features;
  const unfit = refusalOf(() => {
    checkExperiment(document, way);
    if (!isSource(source) && !vault.sources.has(source)) throw new BadInputError(say("refused.source", { source }));
  });
  if (unfit !== null) return { refusal: unfit.said, nextStep: unfit.nextStep ?? null, accept: null };
  const weigh = (accepted: Accepted): void => {
    way.consent.check(document, accepted);
    checkRoom(state, document, way.consent, accepted);
  };
  const refusal = refusalOf(() => weigh(NOTHING));
  if (refusal === null) return AGREES;
  const needed = refusal instanceof ConsentRefusedError ? neededFor(way.consent.statement(document)) : null;
  const helps = needed !== null && refusalOf(() => weigh(needed)) === null;
  // What a person could set in a file there is nowhere to be set here.
  return { refusal: refusal.said, nextStep: null, accept: helps ? needed : null };
}

function refusalOf(check: () => void): SecVMError | null {
  try {
    check();
    return null;
  } catch (fault) {
    if (fault instanceof SecVMError) return fault;
    throw fault;
  }
}

interface Seen {
  readonly state: DeviceState;
  readonly vault: VaultLook;
  readonly way: Way | null;
}

/** One offer, with its statement in plain words and what the device says to it. */
export function offerView(offer: Offer, { state, vault, way }: Seen & { way: Way }, isInvited: boolean): Json {
  const { document, meaning } = offer;
  const { refusal, nextStep, accept } = judge(offer, state, vault, way);
  const { source, days } = document.features;
  const read = vault.readings.get(source);
  const isFurther = days !== null && read !== undefined && (read.days === null || read.days > days);
  return {
    ...about(document),
    ...meaning,
    ...(isInvited ? { short: [...meaning.short, chosenRelays(document).content()] } : {}),
    invited: isInvited,
    // A number of features of this source, and whether there is an answer: not which.
    features_here: vault.sources.get(source) ?? 0,
    // More of the past was read than this experiment asks for.
    further: isFurther,
    profiles: isSource(source) ? [HISTORY] : [],
    answered: vault.answered.has(document.digest),
    refusal: refusal === null ? null : contents([refusal])[0],
    next_step: nextStep,
    accept: accept === null ? null : { auc: accept.auc, epsilon: accept.epsilon },
  };
}

/** All that was found and is not decided. */
export function offersView(offers: Offers, seen: Seen): Json {
  const { way, state } = seen;
  const decided = new Set(
    state.records().flatMap(({ digest, status }) => (status === "declined" && offers.again.has(digest) ? [] : [digest])),
  );
  const open = [...offers.known.values()].filter(({ document }) => !decided.has(document.digest));
  const list =
    way === null ? [] : open.map((offer) => offerView(offer, { ...seen, way }, offers.invited.has(offer.document.digest)));
  return {
    possible: way !== null,
    // Here an invite can be taken up on the page.
    invites: true,
    asked_at: offers.askedAt,
    problem: offers.problem === null ? null : offers.problem.content(),
    // First what the person was invited to and the device agrees to, last what it refuses whatever its person says.
    list: list.sort((a, b) => compareKeys(orderOf(a), orderOf(b))),
  };
}

function orderOf({ invited, refusal, accept, title, digest }: Json): string[] {
  return [String(!invited), String(refusal !== null), String(accept === null), title as string, digest as string];
}

function compareKeys(a: readonly string[], b: readonly string[]): number {
  const at = a.findIndex((part, i) => part !== b[i]);
  return at < 0 ? 0 : a[at]! < b[at]! ? -1 : 1;
}
