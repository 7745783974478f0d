/** The gateway's side of Oblivious HTTP, as the tests of a device need it. */

import { bigEndian, concat, type Bytes } from "../../../src/bytes.ts";
import { aeadSeal } from "../../../src/crypto/sealing/hpke.ts";
import { answerKeys, KeyConfiguration, requestSchedule } from "../../../src/crypto/sealing/oblivious.ts";
import type { X25519PrivateKey } from "../../../src/crypto/sealing/kem.ts";

const HEADER_BYTES = 7;
const NOTHING = new Uint8Array();

/** A request as it was sealed, and the means to answer it. */
export interface Opened {
  readonly request: Bytes;
  sealResponse(response: Bytes, nonce: Bytes): Promise<Bytes>;
}

export async function openCapsule(privateKey: X25519PrivateKey, capsule: Bytes): Promise<Opened> {
  const [header, enc] = [capsule.slice(0, HEADER_BYTES), capsule.slice(HEADER_BYTES, HEADER_BYTES + 32)];
  const context = await requestSchedule(header).receive(privateKey, enc);
  return {
    request: await context.open(NOTHING, capsule.slice(HEADER_BYTES + 32)),
    async sealResponse(response, answerNonce) {
      const { key, nonce } = answerKeys(context, answerNonce);
      return concat(answerNonce, await aeadSeal(key, nonce, NOTHING, response));
    },
  };
}

/** The document of this one key, as gateways of ours serve it. */
export function keyDocument(keyId: number, privateKey: X25519PrivateKey): Bytes {
  const numbers = (...each: number[]) => concat(...each.map((number) => bigEndian(number, 2)));
  const configuration = concat(Uint8Array.of(keyId), numbers(32), privateKey.publicKey.data, numbers(4, 1, 1));
  KeyConfiguration.fromBytes(configuration);
  return concat(numbers(configuration.length), configuration);
}
