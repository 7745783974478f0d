/**
 * Anonymous one-use tokens, the device's side: a client is given so many for a round, and nobody can tell later which
 * were whose.
 *
 *     const batch = new TokenBatch(seed, 1); // 32 secret bytes, kept until the tokens are used
 *     const tokens = batch.tokens(answer, publicKey); // of an issuer that was sent batch.request(publicKey)
 *
 * A token is a nonce and half of the VOPRF's output on it (`voprf.ts`), 32 bytes each. Everything about a batch follows
 * from its seed. A device that lost the answer asks again with the same bytes, and is given the same tokens.
 */

import { bigEndian, concat, fromLittleEndian, utf8, type Bytes } from "../bytes.ts";
import { LocalProtocolError, MalformedMessageError } from "../errors.ts";
import { blake2b } from "./hashes.ts";
import { blinded, ELEMENT_BYTES, finalize, MAX_BATCH, ORDER, PROOF_BYTES, type Input } from "./voprf.ts";

export const SEED_BYTES = 32;
export const PUBLIC_KEY_BYTES = ELEMENT_BYTES;
export const NONCE_BYTES = 32;
export const TOKEN_BYTES = 64;
export const MAX_TOKENS = MAX_BATCH;
export const REQUEST_MEDIA_TYPE = "application/vnd.secvm.token-request";
export const ANSWER_MEDIA_TYPE = "application/vnd.secvm.tokens";

/** A device's side of one issuance. */
export class TokenBatch {
  readonly #inputs: readonly Input[];
  #blindedInputs: readonly Bytes[] | undefined;

  constructor(seed: Uint8Array, count: number) {
    if (seed.length !== SEED_BYTES || !(0 < count && count <= MAX_TOKENS)) {
      throw new LocalProtocolError(`a batch has a seed of ${SEED_BYTES} bytes and 1 to ${MAX_TOKENS} tokens`);
    }
    this.#inputs = Array.from({ length: count }, (_, i) => ({
      data: stretch(seed, "nonce", i).slice(0, NONCE_BYTES),
      // 512 bits modulo a number of 253: uniform but for 2^-259. Zero would blind nothing, and never comes.
      blind: fromLittleEndian(stretch(seed, "blind", i)) % ORDER,
    }));
  }

  get #blinded(): readonly Bytes[] {
    return (this.#blindedInputs ??= this.#inputs.map(blinded));
  }

  /** What the issuer is sent: the key that is meant, and a blinded element for each token. */
  request(publicKey: Uint8Array): Bytes {
    return concat(publicKey, ...this.#blinded);
  }

  /**
   * The tokens. Throws a `BadProofError` where the issuer took another key, and a `MalformedMessageError` where it
   * answered something else.
   */
  tokens(answer: Bytes, publicKey: Bytes): Bytes[] {
    const elements = this.#inputs.length * ELEMENT_BYTES;
    if (answer.length !== elements + PROOF_BYTES) {
      throw new MalformedMessageError("the issuer's answer has another length");
    }
    const evaluated = this.#inputs.map((_, i) => answer.slice(i * ELEMENT_BYTES, (i + 1) * ELEMENT_BYTES));
    const outputs = finalize(this.#inputs, this.#blinded, evaluated, answer.slice(elements), publicKey);
    return outputs.map((output, i) => concat(this.#inputs[i]!.data, output.subarray(0, TOKEN_BYTES - NONCE_BYTES)));
  }
}

function stretch(seed: Uint8Array, what: string, i: number): Bytes {
  return blake2b(concat(utf8(what), bigEndian(i, 4)), { size: 64, person: "secvm-v1-tokens", key: seed });
}
