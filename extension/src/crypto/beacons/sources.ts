/**
 * Public randomness: outputs of public beacons, verified or refused, and the salt that they fix.
 *
 * Three kinds of chains, by name:
 *
 * - `drand-quicknet`: a beacon of many, whose output is a threshold signature. The scheme is
 *   `bls-unchained-g1-rfc9380`: BLS12-381, signatures in G1, the chain's key in G2. What is signed is SHA-256 of the
 *   round's number, 8 bytes big-endian, and the output is SHA-256 of the signature;
 * - `nist-2.0-chain-N`: chain N of NIST's beacon, rounds are its pulse indices: `nistPulse.ts`;
 * - `local-unsafe` or `local-unsafe-SEED`: **for development**. Its outputs follow from its name, so everybody knows
 *   all of them at any time. It is refused unless the caller says `allowUnsafe`, which a device must never do for
 *   people's data.
 */

import { bigEndian, concat, equal, littleEndian, unhex, utf8, type Bytes } from "../../bytes.ts";
import { BadBeaconError, LocalProtocolError } from "../../errors.ts";
import { blake2b, sha256 } from "../hashes.ts";
import * as nistPulse from "./nistPulse.ts";
import { readObject, type BeaconOutput } from "./records.ts";

export const MAX_BEACONS = 8;
export const MAX_ROUND = Number.MAX_SAFE_INTEGER;
export const SALT_BYTES = 32;

const DRAND_QUICKNET = "drand-quicknet";
const SIGNATURE_BYTES = 48;
/** RFC 9380's tag of this scheme. It says SHA-256 for G1, which older chains of drand got wrong. */
const DOMAIN = "BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_";
/** The League of Entropy's chain of three-second rounds, since 2023: its key, and when round 1 was, in seconds. */
const QUICKNET_KEY = unhex(
  "83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c8c4b450b6a0a6c3ac6a5776a2d106451" +
    "0d1fec758c921cc22b0e17e63aaf4bcb5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a",
);
const QUICKNET_GENESIS_S = 1_692_803_367;
const QUICKNET_PERIOD_S = 3;

const LOCAL = /^local-unsafe(-[a-z0-9.-]{1,51})?$/;
const NIST = /^nist-2\.0-chain-([1-9][0-9]{0,8})$/;
const LOCAL_BYTES = 32;

/** Whether this is a development beacon, by its name. */
export function isUnsafe(chain: string): boolean {
  return LOCAL.test(chain);
}

/** Which of NIST's chains this is; null if it is none. */
export function nistChainIndex(chain: string): number | null {
  const [, index] = NIST.exec(chain) ?? [];
  return index === undefined ? null : Number(index);
}

/**
 * The instant, in milliseconds, before which a round is not known, as far as its number tells.
 *
 * Null for NIST: there it stands in the pulse alone. Rounds of the development beacon are seconds since 1970. An
 * instant beyond 2^53 is rounded: it lies some hundred thousand years ahead.
 */
export function roundTime(chain: string, round: number): number | null {
  checkRound(round);
  if (chain === DRAND_QUICKNET) return drandTime(round);
  if (isUnsafe(chain)) return round * 1000;
  if (nistChainIndex(chain) === null) throw new BadBeaconError("nobody here knows a beacon of this name");
  return null;
}

/**
 * The output of this round, and since when it can have been known, if the record is genuine.
 *
 * `pins`: certificates that are trusted for NIST's pulses, or to lead to those that signed them. `allowUnsafe`: take
 * the development beacon too. Throws a `BadBeaconError` for any other bytes, and for an unknown chain.
 */
export async function verifyBeacon(
  chain: string,
  round: number,
  record: Uint8Array,
  options: { pins?: ReadonlySet<string>; allowUnsafe?: boolean } = {},
): Promise<BeaconOutput> {
  checkRound(round);
  if (chain === DRAND_QUICKNET) return verifyRound(round, record);
  const index = nistChainIndex(chain);
  if (index !== null) return nistPulse.verifyPulse(index, round, record, options);
  if (!isUnsafe(chain)) throw new BadBeaconError("nobody here knows a beacon of this name");
  if (!options.allowUnsafe) {
    throw new BadBeaconError("a beacon for development, whose outputs everybody knows, is no public randomness");
  }
  return verifyLocal(chain, round, record);
}

/**
 * The salt that verified outputs fix, in the order in which the experiment names their beacons (§21.4).
 *
 * One output that nobody knew when the experiment was logged is enough to make the salt unknown then.
 */
export function saltFrom(outputs: readonly Uint8Array[], bins: number): Bytes {
  if (!(1 <= outputs.length && outputs.length <= MAX_BEACONS && 1 <= bins && Number.isSafeInteger(bins))) {
    throw new LocalProtocolError(`a salt follows from one to ${MAX_BEACONS} outputs and a number of bins`);
  }
  if (outputs.some(({ length }) => length !== LOCAL_BYTES && length !== nistPulse.OUTPUT_BYTES)) {
    throw new LocalProtocolError("these are no outputs of beacons");
  }
  const prefixed = outputs.flatMap((output) => [Uint8Array.of(output.length), output]);
  const data = concat(littleEndian(bins, 8), Uint8Array.of(outputs.length), ...prefixed);
  return blake2b(data, { size: SALT_BYTES, person: "secvm-v1-beacons" });
}

function drandTime(round: number): number {
  return (QUICKNET_GENESIS_S + (round - 1) * QUICKNET_PERIOD_S) * 1000;
}

async function verifyRound(round: number, record: Uint8Array): Promise<BeaconOutput> {
  const fields = readObject(record, "a drand round").hasExactly("round", "randomness", "signature");
  const signature = fields.hexadecimal("signature", SIGNATURE_BYTES);
  if (fields.integer("round", { bits: 53 }) !== round) {
    throw new BadBeaconError("this is another round of the chain");
  }
  await checkSignature(round, signature);
  const value = sha256(signature);
  if (!equal(fields.hexadecimal("randomness", value.length), value)) {
    throw new BadBeaconError("a drand round's randomness is not the digest of its signature");
  }
  return { value, at: drandTime(round) };
}

/** The chain's members signed this round, or this throws. */
async function checkSignature(round: number, signature: Bytes): Promise<void> {
  // Large, and needed once an experiment.
  const { bls12_381 } = await import("@noble/curves/bls12-381.js");
  const { Signature, hash, verify } = bls12_381.shortSignatures;
  let point;
  try {
    point = Signature.fromBytes(signature);
    point.assertValidity();
  } catch {
    throw new BadBeaconError("a drand round's signature is no point of its curve");
  }
  if (point.is0() || !point.isTorsionFree() || !equal(Signature.toBytes(point), signature)) {
    throw new BadBeaconError("a drand round's signature is outside the group of signatures");
  }
  if (!verify(point, hash(sha256(bigEndian(round, 8)), DOMAIN), QUICKNET_KEY)) {
    throw new BadBeaconError("a drand round is not signed by its chain");
  }
}

function verifyLocal(chain: string, round: number, record: Uint8Array): BeaconOutput {
  const fields = readObject(record, "a development round").hasExactly("round", "output");
  const data = concat(littleEndian(round, 8), utf8(chain));
  const value = blake2b(data, { size: LOCAL_BYTES, person: "secvm-v1-unsafe" });
  if (fields.integer("round", { bits: 53 }) !== round || !equal(fields.hexadecimal("output", LOCAL_BYTES), value)) {
    throw new BadBeaconError("this is no round of this development beacon");
  }
  return { value, at: round * 1000 };
}

function checkRound(round: number): void {
  if (!(Number.isSafeInteger(round) && 1 <= round)) {
    throw new BadBeaconError(`a beacon's rounds are numbered from 1 to ${MAX_ROUND}; there is no round ${round}`);
  }
}
