/**
 * What comes before a round's request is sealed: relays and person agree to it, and a token is asked for.
 *
 * What the device decides here rests on public facts: a round that is declined is declined in one sentence.
 *
 * **The token.** A round's one anonymous token (docs/protocol.md §24) is asked for before the window opens, and spent
 * with the request. The entry relay learns that this client takes part in a round, and nothing by which the token could
 * be recognised: a request that then comes over another address is nobody's. Its proof is checked under the key in its
 * commitment, which stands in the manifest and is the same for everybody: a relay that takes another key for one device
 * gives it nothing that this device would use.
 *
 * The seed is on the disk before anything is asked. After a crash the same bytes are asked with, and the same token is
 * given: so a device never has two for a round. The commit that stores the sealed request forgets the seed.
 */

import type { Bytes } from "../bytes.ts";
import { SEED_BYTES, TokenBatch } from "../crypto/tokens.ts";
import { ConsentRefusedError, RemoteProtocolError } from "../errors.ts";
import { grouped } from "../formatting.ts";
import { hostOf, type ExperimentDocument, type Relay } from "../protocol/documents/experiment.ts";
import { Cells } from "../protocol/relays/counting.ts";
import { entryCommitmentOf, labelOfRound, type RelayedManifest } from "../protocol/relays/manifest.ts";
import { FIRST_BACKOFF_MS, LONGEST_BACKOFF_MS } from "../protocol/relays/sessionEvents.ts";
import type { RelayTerms } from "../protocol/relays/statements.ts";
import { below } from "../protocol/schedule.ts";
import { OVERHEAD_BYTES } from "../sending/transport.ts";
import type { DeviceState } from "../storage/state.ts";
import type { Now, Surroundings } from "../trust/surroundings.ts";
import type { Refusals } from "./refusals.ts";

const MILLION = 1_000_000n;

/** The tokens of one experiment on one device, a round at a time. */
export class RoundToken {
  readonly #around: Surroundings;
  readonly #document: ExperimentDocument;
  readonly #refusals: Refusals;
  /** The round that was asked for last, and how often in vain. */
  #tries = { round: 0, count: 0 };

  constructor(around: Surroundings, document: ExperimentDocument, refusals: Refusals) {
    this.#around = around;
    this.#document = document;
    this.#refusals = refusals;
  }

  /** When to ask first: at a random moment of the first half of what is left before the window opens. */
  when({ instants }: RelayedManifest, now: number): number {
    if (!this.#document.tokens) return now;
    return now + below(Math.max(1, Math.floor((instants.opensAt - now) / 2)), this.#around.words);
  }

  /** When to ask again, after it was put off: a random time that doubles with each attempt; null: not in this round. */
  again(manifest: RelayedManifest, now: number): number | null {
    const [{ roundNumber: round }, { entryRelay: relay }] = [manifest, this.#document];
    if (this.#refusals.isSilent(relay, manifest)) return null;
    if (this.#refusals.isRefused(relay, manifest)) return now + 1 + this.#refusals.wait(manifest, now);
    this.#tries = { round, count: 1 + (this.#tries.round === round ? this.#tries.count : 0) };
    const patience = Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** Math.min(this.#tries.count - 1, 20));
    return now + 1 + below(patience, this.#around.words);
  }

  /**
   * The round's token, empty where the experiment has none; null where nobody answered, or asked to wait.
   *
   * Throws a `RemoteProtocolError` where the relay gives this device none, or what it gives is none.
   */
  async ask(manifest: RelayedManifest, now: Now): Promise<Bytes | null> {
    if (!this.#document.tokens) return new Uint8Array();
    const { transport, traffic } = this.#around;
    const key = entryCommitmentOf(manifest).tokens ?? new Uint8Array();
    const batch = new TokenBatch(await this.#seed(manifest.roundNumber), 1);
    const [request, relay] = [batch.request(key), this.#document.entryRelay];
    const reply = await transport.askToken(request, labelOfRound(manifest), relay);
    await this.#refusals.heard(relay, manifest, reply.answered);
    traffic.add(request.length + (reply.content?.length ?? 0) + OVERHEAD_BYTES, now());
    if (reply.content !== null) return batch.tokens(reply.content, key)[0]!;
    if (!reply.final) return null;
    throw new RemoteProtocolError(`the entry relay ${hostOf(relay)} gives this device no token for the round`);
  }

  async #seed(round: number): Promise<Bytes> {
    const [{ state, randomBytes }, { digest }] = [this.#around, this.#document];
    const kept = state.relayed.tokenSeed(digest, round);
    if (kept !== null) return kept;
    const seed = randomBytes(SEED_BYTES);
    await state.writing(() => state.relayed.putTokenSeed(digest, round, seed));
    return seed;
  }
}

/** Asks a relay what it takes on. */
export type AskTerms = (relay: Relay) => Promise<RelayTerms | null>;

/**
 * Ends if this device may take part in the round, as far as can be said before it is entered in the ledger: what both
 * relays have signed, and its person's limits. Nothing of the person is looked at. `untimely`: why not, by the round's
 * time.
 *
 * Throws a `ConsentRefusedError` with why not, in one sentence, and an `UnreachableError` where one of the relays does
 * not answer; it may in a moment.
 */
export async function agree(
  { consent, policy }: Surroundings,
  document: ExperimentDocument,
  { untimely, askTerms }: { untimely: string | null; askTerms: AskTerms },
): Promise<void> {
  // Asked again, because what the device was told may be other than when the person joined.
  const lacking = document.log === null && !(document.test || policy.withoutLog);
  const why =
    policy.unknownRelay(document) ??
    policy.oneHand(document) ??
    (lacking ? "the experiment has no log, so nobody can tell whether everybody is told the same" : null) ??
    untimely ??
    (await termsAgainst(document, askTerms));
  if (why !== null) throw new ConsentRefusedError(why);
  await consent.agree(document);
}

/** Take the manifest's label for its round, for ever; throws a `RemoteProtocolError` where the round has another one. */
export async function bind(state: DeviceState, document: ExperimentDocument, manifest: RelayedManifest): Promise<void> {
  const number = manifest.roundNumber;
  await state.writing(() => {
    if (!state.relayed.bind(document.digest, number, labelOfRound(manifest))) {
      throw new RemoteProtocolError(`round ${number} was joined under another manifest before`);
    }
  });
}

/**
 * Why the terms of the experiment's relays do not allow it, in one sentence; null: both have signed enough.
 *
 * Throws an `UnreachableError` where one of them does not answer.
 */
async function termsAgainst(document: ExperimentDocument, ask: AskTerms): Promise<string | null> {
  for (const relay of [document.entryRelay, document.mixRelay]) {
    const why = termAgainst(document, relay, await ask(relay));
    if (why !== null) return why;
  }
  return null;
}

/** Why the terms of one of them do not; its signature was checked. */
export function termAgainst(document: ExperimentDocument, relay: Relay, terms: RelayTerms | null): string | null {
  const who = `the ${relay.role} relay ${hostOf(relay)}`;
  if (terms === null) return `${who} has not signed, with the key that the experiment names, what it takes on`;
  if (terms.url !== relay.url || terms.operator !== relay.operator || terms.role !== relay.role) {
    return (
      `${who} has signed terms for ${terms.url} as ${terms.role} relay of ${terms.operator}, and the experiment` +
      ` names ${relay.url} of ${relay.operator}`
    );
  }
  const { relayCover: cover, relayTimes: times, trainShare: share } = document;
  // As many devices as the floor takes, which is all that a device knows.
  const people = ceilDivide(BigInt(document.floor) * share.q, share.p);
  const packages = BigInt(cover.packages);
  const handedOn = BigInt(document.budget) * people + packages;
  // Both relays seal D; the mixing relay opens what the entry relay hands on as well.
  const [work, within] = relay.role === "entry" ? [packages, times.batchS] : [packages + handedOn, times.mixS];
  const needed: [string, bigint, number][] = [
    ["cells", BigInt(Cells.of(document.experiment).count), terms.cells],
    ["packages of cover", packages, terms.packages],
    [`capsules of ${grouped(Number(people))} devices and cover`, handedOn, terms.capsules],
    ["seconds for its step", ceilDivide(work * BigInt(terms.secondsPerMillion), MILLION), within],
  ];
  for (const [what, wanted, most] of needed) {
    if (wanted <= most) continue;
    return `${who} takes on ${grouped(most)} ${what} at most, and a round of this experiment needs ${grouped(Number(wanted))}`;
  }
  return null;
}

function ceilDivide(a: bigint, b: bigint): bigint {
  return (a + b - 1n) / b;
}
