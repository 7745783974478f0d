/** A relay and the gateway behind it in one small server on this machine, and misbehaviour on demand. */

import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

import { concat, equal, utf8, type Bytes } from "../../src/bytes.ts";
import { X25519PrivateKey } from "../../src/crypto/sealing/kem.ts";
import { fetchRequest } from "../../src/protocol/plain/sealedRequests.ts";
import { keyDocument, openCapsule } from "../crypto/sealing/gateway.ts";

/** A request as it came. */
export interface Seen {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Bytes;
}

/** An answer of the server: what it does with the open response. */
export type Act = (response: ServerResponse) => void;

/** An answer of this status, with these fields and this content. */
export function answering(status: number, headers: Record<string, string> = {}, body: Uint8Array = utf8("")): Act {
  return (response) => response.writeHead(status, headers).end(body);
}

/** What servers do that are broken, or want to harm. */
export const MISBEHAVIOUR: Readonly<Record<string, Act>> = {
  garbage: answering(200, { "Content-Type": "text/html" }, utf8("<html>welcome</html>")),
  flood: (response) => void response.writeHead(200, { "Content-Type": "message/ohttp-res" }).end(Buffer.alloc(10 ** 7)),
  redirect: answering(302, { Location: "/elsewhere" }),
  hang: () => undefined,
  "hang in the middle": (response) => void response.writeHead(200).write("half"),
  reset: (response) => void response.socket!.resetAndDestroy(),
  "break off": (response) => {
    response.writeHead(200, { "Content-Length": "1000" }).write("half");
    setImmediate(() => response.socket!.destroy());
  },
};

const DATE = "Thu, 01 Jan 2026 00:00:01 GMT";
export const SERVER_TIME = 1_767_225_601_000;

export class TinyRelay {
  readonly files = new Map<string, Bytes>();
  readonly seen: Seen[] = [];
  /** Whose key the gateway has, and which it still opens with. */
  keys: X25519PrivateKey[] = [];
  /** What is answered next, in place of what a good relay says; one after the other. */
  acts: Act[] = [];
  url = "";
  readonly #server = createServer((request, response) => void this.#handle(request, response));

  async start(): Promise<this> {
    this.keys = [await X25519PrivateKey.of(new Uint8Array(32).fill(7))];
    await once(this.#server.listen(0, "127.0.0.1"), "listening");
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/r`;
    return this;
  }

  /** From now on connections are refused. */
  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  get paths(): string[] {
    return this.seen.map(({ path }) => path);
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece);
    const body = Uint8Array.from(Buffer.concat(pieces));
    const { method, url, headers } = request;
    this.seen.push({ method: method!, path: url!, headers, body });
    const act = this.acts.shift();
    if (act !== undefined) return act(response);
    const key = this.keys.at(-1)!;
    if (url === "/r/keys") return answering(200, {}, keyDocument(this.keys.length, key))(response);
    if (url === "/r/fetch") return this.#answerFetch(body, response);
    answering(404)(response);
  }

  async #answerFetch(body: Bytes, response: ServerResponse): Promise<void> {
    for (const key of this.keys) {
      try {
        const opened = await openCapsule(key, body);
        const found = [...this.files].find(([path]) => equal(fetchRequest(path), opened.request))?.[1];
        const inside = responseOf(found === undefined ? 404 : 200, found ?? new Uint8Array());
        const sealed = await opened.sealResponse(inside, new Uint8Array(16));
        return answering(200, { "Content-Type": "message/ohttp-res" }, sealed)(response);
      } catch {
        // Sealed for another key.
      }
    }
    answering(400, { "Content-Type": "application/problem+json" })(response);
  }
}

/** Binary HTTP of known length, padded as the gateway pads it. */
function responseOf(status: number, content: Bytes): Bytes {
  const four = (value: number) => Uint8Array.of(0x80 | (value >> 24), value >> 16, value >> 8, value);
  const line = concat(Uint8Array.of(4), utf8("date"), Uint8Array.of(DATE.length), utf8(DATE));
  const told = concat(Uint8Array.of(1, 0x40 | (status >> 8), status & 255), four(line.length), line);
  const whole = concat(told, four(content.length), content, Uint8Array.of(0));
  return concat(whole, new Uint8Array(-whole.length & 4095));
}
