/**
 * A verifiable oblivious pseudorandom function: the client's side of RFC 9497, mode VOPRF, suite ristretto255-SHA512.
 *
 * Whoever has a secret key k computes a function F_k. A client learns F_k of inputs that the owner of the key never
 * sees, and a proof says that all were multiplied by the very key whose public half is known: an owner that uses
 * another key for somebody, to recognise them by it later, is found out before an output exists.
 */

import { ristretto255, ristretto255_hasher, ristretto255_oprf } from "@noble/curves/ed25519.js";

import { littleEndian, utf8, type Bytes } from "../bytes.ts";
import { BadProofError, LocalProtocolError, MalformedMessageError } from "../errors.ts";

export const ELEMENT_BYTES = 32;
const SCALAR_BYTES = 32;
export const PROOF_BYTES = 2 * SCALAR_BYTES;
/** The RFC numbers a batch's elements in two bytes. */
export const MAX_BATCH = 2 ** 16 - 1;
/** Scalars are below it. */
export const ORDER: bigint = ristretto255.Point.Fn.ORDER;

const HASH_TO_GROUP = utf8("HashToGroup-OPRFV1-\x01-ristretto255-SHA512");

/** One input with its secret blind, a uniform scalar that is used once. */
export interface Input {
  readonly data: Bytes;
  readonly blind: bigint;
}

/** What the owner of the key is shown in place of the input. */
export function blinded({ data, blind }: Input): Bytes {
  if (!(0n < blind && blind < ORDER)) throw new LocalProtocolError("a blind is a scalar, and not zero");
  return Uint8Array.from(ristretto255_hasher.hashToCurve(data, { DST: HASH_TO_GROUP }).multiply(blind).toBytes());
}

/**
 * F_k of every input, 64 bytes each.
 *
 * Throws a `BadProofError` where they were not all multiplied by the key whose public half this is, and a
 * `MalformedMessageError` where what came back are no elements, or another number of them.
 */
export function finalize(
  inputs: readonly Input[],
  blindedInputs: readonly Bytes[],
  evaluated: readonly Bytes[],
  proof: Bytes,
  publicKey: Bytes,
): Bytes[] {
  if (evaluated.length !== blindedInputs.length) {
    throw new MalformedMessageError("the issuer answered for another number of elements");
  }
  for (const data of [...evaluated, ...blindedInputs, publicKey]) checkElement(data);
  if (proof.length !== PROOF_BYTES) throw new MalformedMessageError("a proof has another length");
  for (const data of [proof.subarray(0, SCALAR_BYTES), proof.subarray(SCALAR_BYTES)]) checkScalar(data);
  const items = inputs.map(({ data, blind }, i) => ({
    input: data,
    blind: littleEndian(blind, SCALAR_BYTES),
    evaluated: evaluated[i]!,
    blinded: blindedInputs[i]!,
  }));
  try {
    return ristretto255_oprf.voprf.finalizeBatch(items, publicKey, proof).map((output) => Uint8Array.from(output));
  } catch {
    // All that can be wrong with well-formed bytes.
    throw new BadProofError();
  }
}

function checkElement(data: Bytes): void {
  const { Point } = ristretto255;
  let isIdentity;
  try {
    isIdentity = Point.fromBytes(data).equals(Point.ZERO);
  } catch {
    throw new MalformedMessageError("these bytes are no element of the group");
  }
  if (isIdentity) {
    throw new MalformedMessageError("the identity, where an element is wanted that says something");
  }
}

function checkScalar(data: Bytes): void {
  try {
    ristretto255.Point.Fn.fromBytes(data);
  } catch {
    throw new MalformedMessageError("these bytes are no scalar of the group");
  }
}
