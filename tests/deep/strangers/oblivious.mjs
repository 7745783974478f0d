// What every stranger here shares: Oblivious HTTP written from RFC 9458 on @hpke/core and bhttp-js, without a line of ours.
import { createHmac, webcrypto } from "node:crypto";
import { createInterface } from "node:readline";
import { Aes128Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "@hpke/core";
import { XWing } from "@hpke/hybridkem-x-wing";
import { BHttpDecoder, BHttpEncoder } from "bhttp-js";

export const KEMS = {
  0x0020: { make: () => new DhkemX25519HkdfSha256(), publicBytes: 32, encBytes: 32 },
  0x647a: { make: () => new XWing(), publicBytes: 1216, encBytes: 1120 },
};
export const ALGORITHMS = [0x0001, 0x0001]; // HKDF-SHA256, AES-128-GCM

export const hex = (bytes) => Buffer.from(bytes).toString("hex");
export const unhex = (text) => new Uint8Array(Buffer.from(text, "hex"));
const text = (string) => new TextEncoder().encode(string);
export const join = (...parts) => new Uint8Array(Buffer.concat(parts));
export const short = (number) => new Uint8Array([number >> 8, number & 255]);
export const buffer = (bytes) => bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
const hmac = (key, message) => new Uint8Array(createHmac("sha256", key).update(message).digest());

export const suiteOf = (kem) => new CipherSuite({ kem: KEMS[kem].make(), kdf: new HkdfSha256(), aead: new Aes128Gcm() });
export const headerOf = (keyId, kem) => join(new Uint8Array([keyId]), short(kem), ...ALGORITHMS.map(short));
export const infoOf = (header) => buffer(join(text("message/bhttp request"), new Uint8Array(1), header));

// RFC 9458, section 4.4
export async function answerCipher(context, enc, nonce) {
  const secret = new Uint8Array(await context.export(buffer(text("message/bhttp response")), 16));
  const prk = hmac(join(enc, nonce), secret);
  const expand = (info, length) => hmac(prk, join(text(info), new Uint8Array([1]))).slice(0, length);
  const key = await webcrypto.subtle.importKey("raw", expand("key", 16), "AES-GCM", false, ["encrypt", "decrypt"]);
  return [{ name: "AES-GCM", iv: expand("nonce", 12) }, key];
}

export async function told(message) {
  const body = new Uint8Array(await message.arrayBuffer());
  const headers = Object.fromEntries(message.headers.entries());
  return { method: message.method, url: message.url, status: message.status, headers, body: hex(body) };
}

// Seal a request for a key configuration; whoever holds what comes back can open the answer.
export async function sealRequest(configuration, request) {
  const kem = (configuration[1] << 8) | configuration[2];
  const suite = suiteOf(kem);
  const raw = configuration.slice(3, 3 + KEMS[kem].publicBytes);
  const publicKey = await suite.kem.deserializePublicKey(buffer(raw));
  const header = headerOf(configuration[0], kem);
  const context = await suite.createSenderContext({ recipientPublicKey: publicKey, info: infoOf(header) });
  const plain = await new BHttpEncoder().encodeRequest(request);
  const enc = new Uint8Array(context.enc);
  const sealed = new Uint8Array(await context.seal(buffer(plain)));
  return { context, enc, plain, capsule: join(header, enc, sealed) };
}

export async function openResponse({ context, enc }, bytes) {
  const [how, key] = await answerCipher(context, enc, bytes.slice(0, 16));
  const plain = new Uint8Array(await webcrypto.subtle.decrypt(how, key, bytes.slice(16)));
  return new BHttpDecoder().decodeResponse(plain);
}

// One JSON object a line comes in, one goes out; bytes are hexadecimal.
export async function serve(does) {
  for await (const line of createInterface({ input: process.stdin })) {
    const { does: what, ...asked } = JSON.parse(line);
    let said;
    try {
      said = await does[what](asked);
    } catch (error) {
      said = { error: String(error.cause ?? error) };
    }
    process.stdout.write(JSON.stringify(said) + "\n");
  }
}
