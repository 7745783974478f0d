// A stranger's client and a stranger's gateway, without a network. One JSON object a line comes in, one goes out; bytes are
// hexadecimal.
//
//   node seal.mjs
import { webcrypto } from "node:crypto";
import { BHttpDecoder, BHttpEncoder } from "bhttp-js";
import {
  ALGORITHMS, KEMS, answerCipher, buffer, headerOf, hex, infoOf, join, openResponse, sealRequest, serve, short, suiteOf,
  told, unhex,
} from "./oblivious.mjs";

const kept = [];
const keep = (value) => kept.push(value) - 1;

const does = {
  // ── the client ──
  async seal_request({ configuration, method, url, headers, body }) {
    const request = new Request(url, { method, headers, body: body ? unhex(body) : undefined });
    const { plain, capsule, ...opener } = await sealRequest(unhex(configuration), request);
    return { id: keep(opener), plain: hex(plain), capsule: hex(capsule) };
  },
  async open_response({ id, capsule }) {
    return told(await openResponse(kept[id], unhex(capsule)));
  },
  // ── the gateway ──
  async make_key({ keyId, kem }) {
    const suite = suiteOf(kem);
    const pair = await suite.kem.generateKeyPair();
    const publicKey = new Uint8Array(await suite.kem.serializePublicKey(pair.publicKey));
    const algorithms = join(...ALGORITHMS.map(short));
    const one = join(new Uint8Array([keyId]), short(kem), publicKey, short(algorithms.length), algorithms);
    return { id: keep({ suite, pair, keyId, kem }), keys: hex(join(short(one.length), one)) };
  },
  async open_request({ id, capsule }) {
    const { suite, pair, keyId, kem } = kept[id];
    const bytes = unhex(capsule);
    const header = headerOf(keyId, kem);
    if (hex(bytes.slice(0, 7)) !== hex(header)) throw new Error("another key's capsule");
    const enc = bytes.slice(7, 7 + KEMS[kem].encBytes);
    const context = await suite.createRecipientContext({ recipientKey: pair, enc: buffer(enc), info: infoOf(header) });
    const plain = new Uint8Array(await context.open(buffer(bytes.slice(7 + enc.length))));
    return { ...(await told(new BHttpDecoder().decodeRequest(plain))), id: keep({ context, enc }) };
  },
  async seal_response({ id, status, headers, body }) {
    const { context, enc } = kept[id];
    const response = new Response(unhex(body), { status, headers });
    const nonce = webcrypto.getRandomValues(new Uint8Array(16));
    const [how, key] = await answerCipher(context, enc, nonce);
    const plain = await new BHttpEncoder().encodeResponse(response);
    return { capsule: hex(join(nonce, new Uint8Array(await webcrypto.subtle.encrypt(how, key, plain)))) };
  },
  // ── binary HTTP alone ──
  async decode({ kind, data }) {
    const decoder = new BHttpDecoder();
    return told(kind === "request" ? decoder.decodeRequest(unhex(data)) : decoder.decodeResponse(unhex(data)));
  },
};

await serve(does);
