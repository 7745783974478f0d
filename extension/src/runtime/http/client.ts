/**
 * HttpClient: how a device asks a server over HTTP. No other module of the extension sends anything.
 *
 * 1. Nothing is followed. A redirect is an answer like any other, in a browser of status 0, so that neither a question
 *    nor a key goes elsewhere.
 * 2. The whole answer has one deadline, connecting and its last byte included.
 * 3. No more is read than the caller allows.
 * 4. A request carries what the browser cannot be kept from saying (`shell/headers.ts`) and the caller's fields: no
 *    cookies, no referrer, nothing from a cache.
 *
 * A browser shares its connections among requests as it likes. That each takes one of its own is the relay's part: it
 * closes the connection after each fetch. Where a server answers 421, a browser asks it once more over a new
 * connection, in the same bytes (RFC 9110 §15.5.20), before the caller hears of it.
 */

import { concat, type Bytes } from "../../bytes.ts";
import { UnreachableError } from "../../errors.ts";
import { formatGeneral } from "../../formatting.ts";

/** The browser's `fetch`, or what stands in for it. */
export type Fetch = (url: string, options: RequestInit) => Promise<Response>;

/** What a server answered, whatever its status. */
export interface HttpAnswer {
  /** 0: a browser does not say which redirect it was. */
  readonly status: number;
  /** Up to one byte more than the caller allows: a longer answer is cut there, and told by that byte. */
  readonly content: Bytes;
  /** The type of the content without its parameters, in lower case; empty where the server names none. */
  readonly mediaType: string;
  readonly retryAfter: string | null;
}

/** What is asked: a POST where there is a body, else a GET. */
export interface Question {
  /** At most so many bytes of the answer are read. */
  readonly most: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Bytes;
}

const ANSWER_MS = 30_000;

export class HttpClient {
  readonly #fetch: Fetch;
  readonly #answerMs: number;

  /** `answerMs`: for one answer, all of it. */
  constructor(fetch: Fetch, options: { answerMs?: number } = {}) {
    this.#fetch = fetch;
    this.#answerMs = options.answerMs ?? ANSWER_MS;
  }

  /** The answer of the server at `url`; an `UnreachableError` where there is none, no whole one, or none in time. */
  async ask(url: string, { most, headers, body }: Question): Promise<HttpAnswer> {
    const fetch = this.#fetch; // A browser's own works as no method of anything else.
    const signal = AbortSignal.timeout(this.#answerMs);
    try {
      const answer = await fetch(url, {
        cache: "no-store",
        credentials: "omit",
        headers: { ...headers },
        method: body === undefined ? "GET" : "POST",
        redirect: "manual",
        referrerPolicy: "no-referrer",
        signal,
        ...(body === undefined ? {} : { body }),
      });
      return {
        status: answer.status,
        content: await readAtMost(answer.body, most + 1),
        mediaType: (answer.headers.get("Content-Type") ?? "").split(";", 1)[0]!.trim().toLowerCase(),
        retryAfter: answer.headers.get("Retry-After"),
      };
    } catch {
      // Whatever the engine says names an address, and in words of its own.
      const late = `it answers too slowly, not within ${formatGeneral(this.#answerMs / 1000)} s`;
      throw new UnreachableError(signal.aborted ? late : "no answer");
    }
  }
}

/** So many bytes, or fewer where it ends; the rest is never waited for. */
async function readAtMost(body: ReadableStream<Uint8Array> | null, most: number): Promise<Bytes> {
  if (body === null) return new Uint8Array();
  const [reader, pieces] = [body.getReader(), [] as Uint8Array[]];
  let left = most;
  while (left > 0) {
    const { done, value } = await reader.read();
    if (done) return concat(...pieces);
    pieces.push(value.subarray(0, left));
    left -= Math.min(left, value.length);
  }
  reader.cancel().catch(() => undefined);
  return concat(...pieces);
}

/** Whether what is sent there can be read on the way: it goes to another machine, and not by https. */
export function goesInClear(url: string): boolean {
  return !URL.canParse(url) || (new URL(url).protocol !== "https:" && !staysHere(url));
}

/** Whether what is sent there stays on this machine. */
export function staysHere(url: string): boolean {
  return URL.canParse(url) && isLoopback(new URL(url).hostname);
}

/** Whether the host of a URL is this machine, by its address or as `localhost`; 127.example is somebody else. */
function isLoopback(host: string): boolean {
  return host === "localhost" || host === "[::1]" || /^127(?:\.[0-9]{1,3}){3}$/.test(host);
}
