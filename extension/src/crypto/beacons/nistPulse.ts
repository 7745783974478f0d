/**
 * Pulses of NIST's Randomness Beacon, version 2.0 (NIST IR 8213): 512 bits a minute, signed by one institution.
 *
 * A pulse is verified down to the certificate that signed it:
 *
 *  1. it is the pulse of the chain and number that were asked for, and its plain fields are those of cipher suite 0;
 *  2. `certificateId` is SHA-512 of the first certificate in the record, which holds an RSA key of 4096 bits and was
 *     valid when the pulse says it was made;
 *  3. that certificate is pinned, or leads to a pinned one and is for the beacon's host;
 *  4. the key signed the fields: PKCS #1 v1.5, SHA-512, over the serialisation below;
 *  5. `outputValue` is SHA-512 of that serialisation and the signature.
 *
 * **Not signed**, hence checked for plausibility and used for nothing: the addresses of the older pulses in
 * `listValues` (their values are signed). A pulse's time is signed, and is the only place where it stands.
 */

import { bigEndian, concat, equal, hex, utf8, type Bytes } from "../../bytes.ts";
import { BadBeaconError } from "../../errors.ts";
import { sha512 } from "../hashes.ts";
import { bitsOf, CertificateError, checkPath, fingerprint, readPem, rsaKey } from "./certificates.ts";
import { MAX_RECORD_BYTES, readObject, type BeaconFields, type BeaconOutput } from "./records.ts";

export const OUTPUT_BYTES = 64;
export const KEY_BITS = 4096;
export const PERIOD_MS = 60_000;
export const HOST = "engine.beacon.nist.gov";
/**
 * SHA-512 of certificates, as `certificateId` writes them. A beacon's certificate lives about a year; what it leads to
 * is there for longer.
 */
export const PINS: ReadonlySet<string> = new Set([
  // engine.beacon.nist.gov, 2018-01-10 to 2019-01-11
  "5501e3d72bc42f3b96e16de4dcadcb16768e109662bd16d667d5fd9aee585af3" +
    "1bbdc5dd4f53592276064b53dddd76c8f3604b2a41db6e09f78f82bb5d6569e7",
  // DigiCert Global Root G2
  "5622207e1ba285f172756f6019af92ac808ed63286e24dfecc1e79873fb5d140" +
    "f1ceb7133f2476e89a5f75f711f9813a9fbb8fd5287f64adfdcc53b864f9bdc5",
]);

const LISTED = ["previous", "hour", "day", "month", "year"];
const FIELDS = [
  ...["uri", "version", "cipherSuite", "period", "certificateId", "chainIndex", "pulseIndex", "timeStamp"],
  ...["localRandomValue", "external", "listValues", "precommitmentValue", "statusCode", "signatureValue"],
  "outputValue",
];
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:00\.000Z$/;
const PEM = utf8("-----BEGIN CERTIFICATE-----");
/** The beacon's own, and a few that lead to a root. */
const MAX_CERTIFICATES = 6;

/** A pulse as it was served. **Nothing in it is checked** but its form: `verifyPulse` does the rest. */
export interface NistPulse {
  readonly certificateId: string;
  readonly chainIndex: number;
  readonly pulseIndex: number;
  readonly timeStamp: string;
  readonly signature: Bytes;
  readonly output: Bytes;
  /** What is signed: integers big-endian, of 4 bytes or 8; text and bytes behind their length, 4 bytes. */
  readonly signed: Bytes;
}

/** The pulse in the JSON that the beacon serves. */
export function readPulse(data: Uint8Array): NistPulse {
  const served = readObject(data, "a NIST answer").hasExactly("pulse").inner("pulse").hasExactly(...FIELDS);
  const external = served.inner("external").hasExactly("sourceId", "statusCode", "value");
  const chainIndex = served.integer("chainIndex", { bits: 32 });
  const pulseIndex = served.integer("pulseIndex", { bits: 53 });
  if (served.text("uri") !== addressOf(chainIndex, pulseIndex)) {
    throw new BadBeaconError("a NIST pulse's address is another's");
  }
  // Pulses that open a chain, come after a gap or from a test say so in their status. None of them is waited for.
  const plain = ["cipherSuite", "statusCode", "period"].map((name) => served.integer(name, { bits: 32 }));
  if (plain[0] !== 0 || plain[1] !== 0 || plain[2] !== PERIOD_MS) {
    throw new BadBeaconError("a NIST pulse of another suite, period or status");
  }
  const version = served.text("version");
  // Both were served; it is under the signature either way.
  if (version !== "Version 2.0" && version !== "2.0") throw new BadBeaconError("a NIST pulse of another version");
  const certificateId = served.hexadecimal("certificateId", 64);
  const timeStamp = served.text("timeStamp");
  const signed = concat(
    long(utf8(addressOf(chainIndex, pulseIndex))),
    long(utf8(version)),
    bigEndian(0, 4),
    bigEndian(PERIOD_MS, 4),
    long(certificateId),
    bigEndian(chainIndex, 8),
    bigEndian(pulseIndex, 8),
    long(utf8(timeStamp)),
    long(served.hexadecimal("localRandomValue", 64)),
    long(external.hexadecimal("sourceId", 64)),
    bigEndian(external.integer("statusCode", { bits: 32 }), 4),
    long(external.hexadecimal("value", 64)),
    // Outputs of the pulse before, and of the first ones of hour, day, month and year.
    ...readListed(served.innerList("listValues"), chainIndex, pulseIndex).map(long),
    long(served.hexadecimal("precommitmentValue", 64)),
    bigEndian(0, 4),
  );
  const signature = served.hexadecimal("signatureValue", KEY_BITS / 8);
  const output = served.hexadecimal("outputValue", OUTPUT_BYTES);
  return { certificateId: hex(certificateId), chainIndex, pulseIndex, timeStamp, signature, output, signed };
}

/** The instant at which the beacon says it published a pulse, in milliseconds. */
export function publishedAt({ timeStamp }: NistPulse): number {
  if (!TIME.test(timeStamp)) throw new BadBeaconError("a NIST pulse's time is no whole minute");
  const at = Date.parse(timeStamp);
  const isDate = !Number.isNaN(at) && new Date(at).toISOString() === timeStamp && !timeStamp.startsWith("0000");
  if (!isDate) throw new BadBeaconError("a NIST pulse's time is in no calendar");
  return at;
}

/**
 * The output of this pulse. The record is the JSON that NIST serves, then certificates as PEM: the one that signed
 * first, then those that lead from it to a pinned one, unless it is pinned itself.
 *
 * Throws a `BadBeaconError` whatever else the bytes are.
 */
export async function verifyPulse(
  chainIndex: number,
  pulseIndex: number,
  record: Uint8Array,
  options: { pins?: ReadonlySet<string> } = {},
): Promise<BeaconOutput> {
  if (record.length > MAX_RECORD_BYTES) {
    throw new BadBeaconError(`a NIST record of ${record.length} bytes; at most ${MAX_RECORD_BYTES} are read`);
  }
  const border = indexOf(record, PEM);
  const pulse = readPulse(record.subarray(0, border));
  if (pulse.chainIndex !== chainIndex || pulse.pulseIndex !== pulseIndex) {
    throw new BadBeaconError("this is another pulse, or of another chain");
  }
  const at = publishedAt(pulse);
  const key = await signingKey(record.subarray(border), pulse.certificateId, at, options.pins ?? PINS);
  if (!(await crypto.subtle.verify("RSASSA-PKCS1-v1_5", key, pulse.signature, pulse.signed))) {
    throw new BadBeaconError("a NIST pulse is not signed by its certificate");
  }
  if (!equal(sha512(pulse.signed, pulse.signature), pulse.output)) {
    throw new BadBeaconError("a NIST pulse's output is not the digest of what is signed");
  }
  return { value: pulse.output, at };
}

/** The key of the certificate of this id, if it may sign pulses at this instant. */
async function signingKey(
  pem: Uint8Array,
  certificateId: string,
  at: number,
  pins: ReadonlySet<string>,
): Promise<CryptoKey> {
  let key;
  try {
    const certificates = readPem(pem);
    const named = certificates.map(fingerprint);
    if (named[0] !== certificateId || certificates.length > MAX_CERTIFICATES) {
      throw new BadBeaconError("a NIST pulse comes with another certificate than it names");
    }
    const [first] = certificates;
    if (!(first!.notBefore <= at && at <= first!.notAfter)) {
      throw new BadBeaconError("a NIST pulse's certificate was not valid at its time");
    }
    if (!pins.has(certificateId)) {
      const anchors = certificates.filter((_, i) => pins.has(named[i]!));
      if (!anchors.length) throw new BadBeaconError("a NIST pulse's certificate leads to none that is trusted");
      await checkPath(certificates, anchors, { host: HOST, at });
    }
    key = await rsaKey(first!, "SHA-512");
  } catch (fault) {
    if (!(fault instanceof CertificateError)) throw fault;
    throw new BadBeaconError("a NIST pulse's certificate cannot be believed");
  }
  if (key === null || bitsOf(key) !== KEY_BITS) {
    throw new BadBeaconError(`a NIST pulse's certificate has no RSA key of ${KEY_BITS} bits`);
  }
  return key;
}

function readListed(items: readonly BeaconFields[], chain: number, index: number): Bytes[] {
  const wrong = new BadBeaconError("a NIST pulse lists other pulses than it should");
  if (items.length !== LISTED.length) throw wrong;
  let later = index;
  return items.map((item, i) => {
    item.hasExactly("uri", "type", "value");
    const address = item.text("uri");
    const listed = Number(/\/([1-9][0-9]{0,15})$/.exec(address)?.[1] ?? 0);
    // The pulse before is just before; each of the others is not later than the one listed before it.
    const fits = i === 0 ? listed === index - 1 : 0 < listed && listed <= later;
    if (item.text("type") !== LISTED[i] || !fits || address !== addressOf(chain, listed)) throw wrong;
    later = listed;
    return item.hexadecimal("value", 64);
  });
}

function addressOf(chain: number, pulse: number): string {
  return `https://beacon.nist.gov/beacon/2.0/chain/${chain}/pulse/${pulse}`;
}

function long(data: Uint8Array): Bytes {
  return concat(bigEndian(data.length, 4), data);
}

/** Where `part` begins; the end, where it is nowhere. */
function indexOf(data: Uint8Array, part: Uint8Array): number {
  const isAt = (_: number, at: number): boolean => part.every((byte, i) => data[at + i] === byte);
  const found = data.findIndex(isAt);
  return found < 0 ? data.length : found;
}
