// A stranger's client and a stranger's gateway: Oblivious HTTP written from RFC 9458 on @hpke/core and bhttp-js, without a
// line of ours. One JSON object a line comes in, one goes out; bytes are hexadecimal.
//
//   node seal.mjs
import { createHmac, webcrypto } from "node:crypto";
import { createInterface } from "node:readline";
import { Aes128Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "@hpke/core";
import { XWing } from "@hpke/hybridkem-x-wing";
import { BHttpDecoder, BHttpEncoder } from "bhttp-js";

const KEMS = {
  0x0020: { make: () => new DhkemX25519HkdfSha256(), publicBytes: 32, encBytes: 32 },
  0x647a: { make: () => new XWing(), publicBytes: 1216, encBytes: 1120 },
};
const ALGORITHMS = [0x0001, 0x0001]; // HKDF-SHA256, AES-128-GCM

const hex = (bytes) => Buffer.from(bytes).toString("hex");
const unhex = (text) => new Uint8Array(Buffer.from(text, "hex"));
const text = (string) => new TextEncoder().encode(string);
const join = (...parts) => new Uint8Array(Buffer.concat(parts));
const short = (number) => new Uint8Array([number >> 8, number & 255]);
const buffer = (bytes) => bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
const hmac = (key, message) => new Uint8Array(createHmac("sha256", key).update(message).digest());

const suiteOf = (kem) => new CipherSuite({ kem: KEMS[kem].make(), kdf: new HkdfSha256(), aead: new Aes128Gcm() });
const headerOf = (keyId, kem) => join(new Uint8Array([keyId]), short(kem), ...ALGORITHMS.map(short));
const infoOf = (header) => buffer(join(text("message/bhttp request"), new Uint8Array(1), header));

// RFC 9458, section 4.4
async function answerCipher(context, enc, nonce) {
  const secret = new Uint8Array(await context.export(buffer(text("message/bhttp response")), 16));
  const prk = hmac(join(enc, nonce), secret);
  const expand = (info, length) => hmac(prk, join(text(info), new Uint8Array([1]))).slice(0, length);
  const key = await webcrypto.subtle.importKey("raw", expand("key", 16), "AES-GCM", false, ["encrypt", "decrypt"]);
  return [{ name: "AES-GCM", iv: expand("nonce", 12) }, key];
}

async function told(message) {
  const body = new Uint8Array(await message.arrayBuffer());
  const headers = Object.fromEntries(message.headers.entries());
  return { method: message.method, url: message.url, status: message.status, headers, body: hex(body) };
}

const kept = [];
const keep = (value) => kept.push(value) - 1;

const does = {
  // ── the client ──
  async seal_request({ configuration, method, url, headers, body }) {
    const bytes = unhex(configuration);
    const kem = (bytes[1] << 8) | bytes[2];
    const suite = suiteOf(kem);
    const publicKey = await suite.kem.deserializePublicKey(buffer(bytes.slice(3, 3 + KEMS[kem].publicBytes)));
    const header = headerOf(bytes[0], kem);
    const context = await suite.createSenderContext({ recipientPublicKey: publicKey, info: infoOf(header) });
    const request = new Request(url, { method, headers, body: body ? unhex(body) : undefined });
    const plain = await new BHttpEncoder().encodeRequest(request);
    const enc = new Uint8Array(context.enc);
    const sealed = new Uint8Array(await context.seal(buffer(plain)));
    return { id: keep({ context, enc }), plain: hex(plain), capsule: hex(join(header, enc, sealed)) };
  },
  async open_response({ id, capsule }) {
    const { context, enc } = kept[id];
    const bytes = unhex(capsule);
    const [how, key] = await answerCipher(context, enc, bytes.slice(0, 16));
    const plain = new Uint8Array(await webcrypto.subtle.decrypt(how, key, bytes.slice(16)));
    return told(new BHttpDecoder().decodeResponse(plain));
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

for await (const line of createInterface({ input: process.stdin })) {
  const { does: what, ...asked } = JSON.parse(line);
  let said;
  try {
    said = await does[what](asked);
  } catch (error) {
    said = { error: String(error) };
  }
  process.stdout.write(JSON.stringify(said) + "\n");
}
