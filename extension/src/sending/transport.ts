/**
 * The one door of a device: every byte that it sends to anybody leaves through this module, and none by another way.
 *
 * | method         | goes to                   | carries                                                     |
 * |----------------|---------------------------|-------------------------------------------------------------|
 * | `submit`       | the entry relay of two    | all sealed packages of a round, with its token if any       |
 * | `askToken`     | the entry relay of two    | one blinded element                                         |
 * | `relayedTerms` | one of two relays         | nothing: a GET                                              |
 * | `fetch`        | a relay of the settings   | a GET for the gateway's key, then one sealed path           |
 *
 * Beside these bodies a relay of the settings is told the device's credential, where it has one. Before a connection the
 * operating system looks up the relay's name: whoever answers that learns to which relay the device goes, and when.
 * What is sealed is decided before it comes here; nothing here knows what is inside. A browser sends no single packages:
 * plain experiments are shown and refused.
 *
 * Through a relay (docs/protocol.md §19.6) a fetch is one POST of sealed bytes: the relay learns who asks, the gateway
 * what is asked for. Rules of the way:
 *
 * 1. A request carries no more than `HttpClient` says. No redirect is followed, no answer is read beyond what it may
 *    have, and everything has a time limit.
 * 2. A fetch takes another relay than the fetch before it where there are several, thrown with the device's dice. Fresh
 *    looks, by which a device checks what it was told, look like all others.
 * 3. The gateway's key is asked for before every fetch, and not kept for the next one. While a round of the log is
 *    believed, fetches are sealed to the key that the log names, and never to another instead.
 *
 * `submit`, `askToken` and `fetch` never throw because of what the network or a server does.
 */

import { fromBigEndian, hex, type Bytes } from "../bytes.ts";
import type { RandomBytes } from "../crypto/sealing/kem.ts";
import {
  decodeKeyConfigurations,
  REQUEST_MEDIA_TYPE as SEALED_REQUEST,
  RESPONSE_MEDIA_TYPE as SEALED_RESPONSE,
  sealRequest,
} from "../crypto/sealing/oblivious.ts";
import { ANSWER_MEDIA_TYPE as TOKEN_ANSWER, REQUEST_MEDIA_TYPE as TOKEN_REQUEST } from "../crypto/tokens.ts";
import { LocalProtocolError, RemoteProtocolError, UnreachableError } from "../errors.ts";
import { hostOf, type ExperimentDocument, type Relay } from "../protocol/documents/experiment.ts";
import { FETCH_ANSWER_STEP, fetchRequest, readAnswer } from "../protocol/plain/sealedRequests.ts";
import { ENVELOPE_BYTES, readStatement, RELAY_TERMS, type RelayTerms } from "../protocol/relays/statements.ts";
import { MAX_RECEIPT_BYTES, MEDIA_TYPE as SUBMISSION } from "../protocol/relays/submission.ts";
import { goesInClear, HttpClient, type HttpAnswer, type Question } from "../runtime/http/client.ts";
import { instantOf, replyOf, UNANSWERED, type SendReply } from "./reply.ts";

/** A manifest or an experiment in its envelope, with room for padding. */
export const MOST_DOCUMENT_BYTES = 2 ** 20 + 2 ** 14;
/** A request line, a few headers and the frames around them; what a transport counts on top of what it was given. */
export const OVERHEAD_BYTES = 400;
/** Keys of a gateway. */
const MOST_KEY_BYTES = 2 ** 13;
const MOST_TERMS_BYTES = RELAY_TERMS.longest + ENVELOPE_BYTES;
/** A file's answer is padded to the next multiple of a step, and has fields and a seal, all in less than another step. */
const AROUND_A_FILE_BYTES = 2 * FETCH_ANSWER_STEP;
/**
 * What a server may say of bytes that it takes later. 421: the entry relay has not pulled the manifest yet. 425: its
 * clock says that the window is not open. Of a token, 429 is the end: as many as one client is given.
 */
const LATER = [408, 421, 425, 429];
const TOKEN_LATER = [408, 421, 425];
const CREDENTIAL = "Secvm-Credential";

/** A public file, and what the server's clock said. */
export interface Fetched {
  readonly content: Bytes;
  readonly serverTime: number | null;
  /**
   * By so many milliseconds at least the server's clock is ahead of this device's, or behind where it is negative. Null:
   * it said nothing, or nobody has held it to this device's clock.
   */
  readonly ahead: number | null;
}

/**
 * The same beside this device's clock. The server's was read somewhere in between: whatever time went by on the way says
 * nothing against either clock.
 */
export function heldTo(fetched: Fetched, sent: number, received: number): Fetched {
  const server = fetched.serverTime;
  return server === null ? fetched : { ...fetched, ahead: server - Math.min(Math.max(server, sent), received) };
}

interface Way {
  /** URLs of the relays that fetches take. */
  readonly relays: readonly string[];
  readonly randomBytes: RandomBytes;
  /**
   * Where a relay knows its clients by credential, this is said to it, and to nobody else: an experiment may name other
   * relays, and whoever runs one would know this person again in every experiment.
   */
  readonly credential?: string | null;
}

/** Through relays: the way for people, and in a browser the only one. */
export class RelayTransport {
  /** The status with which a relay refused the last fetch, where one did: 401 without the credential that it wants. */
  refusedWith: number | null = null;
  /** The relay that did not answer the last fetch, where one did not. */
  unansweredBy: string | null = null;
  /** URLs of the relays that fetches take. */
  readonly relays: readonly string[];
  readonly #client: HttpClient;
  readonly #way: Way;
  /** Which relay the last fetch took. */
  #took = 0;

  constructor(client: HttpClient, way: Way) {
    if (!way.relays.length) throw new LocalProtocolError("fetches need at least one relay");
    this.#client = client;
    this.#way = way;
    this.relays = way.relays.map((url) => url.replace(/\/+$/, ""));
  }

  /** Throws a `LocalProtocolError` where this way is not good enough for the experiment. */
  check(document: ExperimentDocument): void {
    if (!document.relays.length) throw new LocalProtocolError("this experiment has no relay to send packages to");
    // The gateway's key for fetches comes from there: whoever may change it on the way reads what is asked for.
    if (!document.test && this.relays.some(goesInClear)) {
      throw new LocalProtocolError(
        "the relays in the settings must begin with https, for this experiment is not marked as a test",
      );
    }
    const onion = document.relays.map(hostOf).find((host) => host.endsWith(".onion"));
    if (onion !== undefined) throw new LocalProtocolError(`the relay ${onion} is reached over Tor alone`);
  }

  /** Ask the entry relay for a round's token, as the client that this device is to it. */
  async askToken(request: Bytes, label: Uint8Array, relay: Relay): Promise<SendReply> {
    // An element for the one that was sent, and a proof in place of the key: a little more.
    const most = request.length + 2 ** 8;
    const headers = { ...this.#credentialFor(relay.url), "Content-Type": TOKEN_REQUEST };
    const answer = await this.#askAlone(relay, `tokens/${hex(label)}`, { most, headers, body: request });
    if (answer === null) return UNANSWERED;
    const taken = answer.status === 200 && answer.mediaType === TOKEN_ANSWER;
    return replyOf(answer, { taken, most, later: TOKEN_LATER });
  }

  /** Send a round's request to the entry relay. `anonymous`: without a name, which a token stands for. */
  async submit(
    body: Bytes,
    label: Uint8Array,
    relay: Relay,
    options: { anonymous?: boolean } = {},
  ): Promise<SendReply> {
    const credential = options.anonymous ? {} : this.#credentialFor(relay.url);
    const [headers, most] = [{ ...credential, "Content-Type": SUBMISSION }, MAX_RECEIPT_BYTES];
    const answer = await this.#askAlone(relay, `submit/${hex(label)}`, { most, headers, body });
    if (answer === null) return UNANSWERED;
    return replyOf(answer, { taken: answer.status === 200, most, later: LATER });
  }

  /**
   * What one of two relays has signed that it takes on; null where there is no such thing.
   *
   * Throws an `UnreachableError` where it does not answer, or, a `NotNowError`, cannot just now.
   */
  async relayedTerms(relay: Relay): Promise<RelayTerms | null> {
    const answer = await this.#askAlone(relay, "terms", { most: MOST_TERMS_BYTES });
    if (answer === null || answer.status >= 500) {
      const why = `the ${relay.role} relay ${hostOf(relay)} does not answer when it is asked for its terms`;
      throw answer === null ? new UnreachableError(why) : new NotNowError(why);
    }
    if (answer.status !== 200 || answer.content.length > MOST_TERMS_BYTES) return null;
    return orNull(readStatement(RELAY_TERMS, answer.content, relay.key), RemoteProtocolError);
  }

  /**
   * A public file of at most so many bytes; null where it could not be had.
   *
   * `gatewayKeys`: what the log names for now; the request is sealed to these and to no others.
   */
  async fetch(path: string, options: { most?: number; gatewayKeys?: Bytes | null } = {}): Promise<Fetched | null> {
    const { most = MOST_DOCUMENT_BYTES, gatewayKeys = null } = options;
    this.#took = this.#nextRelay();
    const relay = this.relays[this.#took]!;
    let fetched: Fetched | null = null;
    let unansweredBy: string | null = null;
    try {
      fetched = await this.#fetch(relay, path, most, gatewayKeys);
    } catch (fault) {
      if (fault instanceof UnreachableError) unansweredBy = relay;
      else if (!(fault instanceof RemoteProtocolError)) throw fault;
    }
    this.unansweredBy = unansweredBy;
    return fetched;
  }

  async #fetch(relay: string, path: string, most: number, gatewayKeys: Bytes | null): Promise<Fetched | null> {
    // Asked for every time: a key that is kept is a name by which the gateway would know this device again. Also where
    // the log names another key: a relay sees the same requests for every fetch.
    const served = await this.#client.ask(`${relay}/keys`, { most: MOST_KEY_BYTES });
    const { length } = served.content;
    if (served.status !== 200 || !(0 < length && length <= MOST_KEY_BYTES)) return null;
    const [configuration] = decodeKeyConfigurations(gatewayKeys ?? served.content);
    if (configuration === undefined) return null;
    const sealed = await sealRequest(configuration, fetchRequest(path), this.#way.randomBytes);
    const longest = most + AROUND_A_FILE_BYTES;
    const headers = { ...this.#credentialFor(relay), "Content-Type": SEALED_REQUEST };
    const response = await this.#client.ask(`${relay}/fetch`, { most: longest, headers, body: sealed.capsule });
    const { status, content, mediaType } = response;
    this.refusedWith = status >= 400 ? status : null;
    if (status !== 200 || mediaType !== SEALED_RESPONSE || content.length > longest) return null;
    const answer = readAnswer(await sealed.openResponse(content));
    const taken = answer.status === 200 && answer.content.length <= most;
    return taken ? { content: answer.content, serverTime: instantOf(answer.date), ahead: null } : null;
  }

  /** Thrown among those that the fetch before did not take. */
  #nextRelay(): number {
    const [word, { length }] = [fromBigEndian(this.#way.randomBytes(8)), this.relays];
    return length === 1 ? 0 : (this.#took + 1 + Number(word % BigInt(length - 1))) % length;
  }

  /** The header field with the credential: for the origins of the settings' relays; no field for any other. */
  #credentialFor(url: string): Record<string, string> {
    const { credential = null } = this.#way;
    const known = this.relays.some((relay) => new URL(relay).origin === new URL(url).origin);
    return credential !== null && known ? { [CREDENTIAL]: credential } : {};
  }

  /** One request to a relay of an experiment; null where nobody answers. */
  #askAlone(relay: Relay, path: string, question: Question): Promise<HttpAnswer | null> {
    return orNull(this.#client.ask(`${relay.url.replace(/\/+$/, "")}/${path}`, question), UnreachableError);
  }
}

/** A relay answers that it cannot just now. */
export class NotNowError extends UnreachableError {}

async function orNull<T>(asked: Promise<T>, kind: typeof UnreachableError | typeof RemoteProtocolError) {
  try {
    return await asked;
  } catch (fault) {
    if (fault instanceof kind) return null;
    throw fault;
  }
}
