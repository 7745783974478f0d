/**
 * Certificates (RFC 5280) of whoever signs NIST's pulses, as far as they are met there: X.509 version 3 in DER, signed
 * with RSA (PKCS #1 v1.5). Python asks its library for the same; what is not known here is refused, never passed over.
 *
 * Whatever cannot be read or believed throws a `CertificateError`.
 */

import { equal, hex, textOf, unbase64, type Bytes } from "../../bytes.ts";
import { sha512 } from "../hashes.ts";
import { DerError, readDer, type Der } from "./der.ts";

/** Why a certificate is not believed. */
export class CertificateError extends Error {}

const OIDS = {
  rsa: "2a864886f70d010101",
  sha256WithRsa: "2a864886f70d01010b",
  sha384WithRsa: "2a864886f70d01010c",
  sha512WithRsa: "2a864886f70d01010d",
  keyUsage: "551d0f",
  subjectAltName: "551d11",
  basicConstraints: "551d13",
  extendedKeyUsage: "551d25",
  serverAuth: "2b06010505070301",
};
/** The one extension that limits what an authority may sign and is not looked into here. */
const NAME_CONSTRAINTS = "551d1e";
const HASHES: Record<string, string> = {
  [OIDS.sha256WithRsa]: "SHA-256",
  [OIDS.sha384WithRsa]: "SHA-384",
  [OIDS.sha512WithRsa]: "SHA-512",
};
const KNOWN = [OIDS.keyUsage, OIDS.subjectAltName, OIDS.basicConstraints, OIDS.extendedKeyUsage];
/** The bit of a key usage that lets a key sign certificates. */
const KEY_CERT_SIGN = 0x04;

/** A certificate, taken apart. **Nothing in it is checked.** */
export interface Certificate {
  readonly der: Bytes;
  /** What is signed, by which algorithm, and the signature. */
  readonly signed: Bytes;
  readonly algorithm: string;
  readonly signature: Bytes;
  readonly issuer: Bytes;
  readonly subject: Bytes;
  /** The instants, in milliseconds, between which it is valid. */
  readonly notBefore: number;
  readonly notAfter: number;
  /** The key, as WebCrypto reads it, and its algorithm. */
  readonly publicKey: Bytes;
  readonly keyAlgorithm: string;
  readonly extensions: ReadonlyMap<string, Extension>;
}

interface Extension {
  readonly critical: boolean;
  readonly value: Bytes;
}

/** The certificates of a text with PEM blocks, at least one; what stands between whole blocks is passed over. */
export function readPem(data: Uint8Array): Certificate[] {
  return believable(() => {
    const text = textOf(data);
    const blocks = [...text.matchAll(/-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]*)-----END CERTIFICATE-----/g)];
    if (!blocks.length || text.split("-----BEGIN").length !== blocks.length + 1) {
      throw new CertificateError("no certificates, or half of one");
    }
    return blocks.map(([, body]) => readCertificate(unbase64(body!.replace(/\s/g, ""))));
  });
}

/** The certificate of this DER. */
export function readCertificate(der: Bytes): Certificate {
  return believable(() => {
    const [tbs, outer, signature] = readDer(der).sequence(3);
    const fields = tbs!.sequence();
    // [0] version, serial number, signature, issuer, validity, subject, key, [3] extensions.
    const version = fields.shift()?.inside(0xa0).integer();
    const [, inner, issuer, validity, subject, publicKey, ...rest] = fields;
    const extensions = rest.find((field) => field.tag === 0xa3);
    if (version !== 2n || extensions === undefined || !equal(inner!.whole, outer!.whole)) {
      throw new CertificateError("a certificate of another version, or with two algorithms");
    }
    const [notBefore, notAfter] = validity!.sequence(2);
    return {
      der,
      signed: tbs!.whole,
      algorithm: outer!.sequence()[0]!.oid(),
      signature: signature!.bits(),
      issuer: issuer!.whole,
      subject: subject!.whole,
      notBefore: notBefore!.time(),
      notAfter: notAfter!.time(),
      publicKey: publicKey!.whole,
      keyAlgorithm: publicKey!.sequence(2)[0]!.sequence()[0]!.oid(),
      extensions: readExtensions(extensions.inside(0xa3)),
    };
  });
}

function readExtensions(list: Der): Map<string, Extension> {
  const extensions = new Map<string, Extension>();
  for (const each of list.sequence()) {
    const fields = each.sequence();
    const name = fields.shift()!.oid();
    const critical = fields.length === 2 && fields.shift()!.boolean();
    if (fields.length !== 1 || extensions.has(name)) throw new CertificateError("an extension twice, or none");
    extensions.set(name, { critical, value: fields[0]!.octets() });
  }
  return extensions;
}

/** The key of a certificate, for signatures with this hash; null where it is no RSA key. */
export async function rsaKey(certificate: Certificate, hash: string): Promise<CryptoKey | null> {
  if (certificate.keyAlgorithm !== OIDS.rsa) return null;
  const algorithm = { name: "RSASSA-PKCS1-v1_5", hash };
  try {
    return await crypto.subtle.importKey("spki", certificate.publicKey, algorithm, true, ["verify"]);
  } catch {
    return null;
  }
}

/** How many bits an RSA key has. */
export function bitsOf(key: CryptoKey): number {
  return (key.algorithm as RsaHashedKeyAlgorithm).modulusLength;
}

/** That the first of these is for this host, and leads over others of them to one of `anchors`, all valid `at`. */
export async function checkPath(
  certificates: readonly Certificate[],
  anchors: readonly Certificate[],
  options: { host: string; at: number },
): Promise<void> {
  const [leaf, ...others] = certificates;
  const { host, at } = options;
  const believed = believable(() => isValid(leaf!, at) && !isAuthority(leaf!) && isFor(leaf!, host));
  if (!believed || !(await leads(leaf!, others, anchors, at, 0))) {
    throw new CertificateError("a certificate that leads nowhere");
  }
}

/** Whether a certificate leads to an anchor; `below`: so many authorities stand between it and the first one. */
async function leads(
  certificate: Certificate,
  others: readonly Certificate[],
  anchors: readonly Certificate[],
  at: number,
  below: number,
): Promise<boolean> {
  for (const issuer of [...anchors, ...others]) {
    if (!equal(issuer.subject, certificate.issuer)) continue;
    if (!believable(() => isValid(issuer, at) && mayIssue(issuer, below))) continue;
    if (!(await hasSigned(issuer, certificate))) continue;
    if (anchors.includes(issuer)) return true;
    const rest = others.filter((each) => each !== issuer);
    if (await leads(issuer, rest, anchors, at, below + 1)) return true;
  }
  return false;
}

async function hasSigned(issuer: Certificate, certificate: Certificate): Promise<boolean> {
  const hash = HASHES[certificate.algorithm];
  const key = hash === undefined ? null : await rsaKey(issuer, hash);
  if (key === null || bitsOf(key) < 2048) return false;
  return crypto.subtle.verify("RSASSA-PKCS1-v1_5", key, certificate.signature, certificate.signed);
}

/** Valid at this instant, and without a demand that is not known here. */
function isValid(certificate: Certificate, at: number): boolean {
  const unknown = [...certificate.extensions].some(([name, { critical }]) => critical && !KNOWN.includes(name));
  return certificate.notBefore <= at && at <= certificate.notAfter && !unknown;
}

function isAuthority(certificate: Certificate): boolean {
  const constraints = certificate.extensions.get(OIDS.basicConstraints);
  if (constraints === undefined) return false;
  const [first] = readDer(constraints.value).sequence();
  return first?.tag === 0x01 && first.boolean();
}

function mayIssue(certificate: Certificate, below: number): boolean {
  const { extensions } = certificate;
  const usage = extensions.get(OIDS.keyUsage);
  if (!isAuthority(certificate) || extensions.has(NAME_CONSTRAINTS) || usage === undefined) return false;
  const [, longest] = readDer(extensions.get(OIDS.basicConstraints)!.value).sequence();
  const mayStand = longest === undefined || BigInt(below) <= longest.integer();
  const maySign = ((readDer(usage.value).bits()[0] ?? 0) & KEY_CERT_SIGN) !== 0;
  return mayStand && maySign && isForServers(certificate);
}

function isForServers(certificate: Certificate): boolean {
  const usages = certificate.extensions.get(OIDS.extendedKeyUsage);
  return usages === undefined || readDer(usages.value).sequence().some((usage) => usage.oid() === OIDS.serverAuth);
}

/** Whether one of a certificate's names is the host's, or a star in place of its first label. */
function isFor(certificate: Certificate, host: string): boolean {
  const names = certificate.extensions.get(OIDS.subjectAltName);
  if (names === undefined || !isForServers(certificate)) return false;
  const wanted = [host, host.replace(/^[^.]+/, "*")];
  // [2]: a name of DNS.
  const listed = readDer(names.value).sequence().filter((name) => name.tag === 0x82);
  return listed.some((name) => wanted.includes(textOf(name.content).toLowerCase()));
}

/** SHA-512 of a certificate, as pins write it. */
export function fingerprint(certificate: Certificate): string {
  return hex(sha512(certificate.der));
}

function believable<T>(read: () => T): T {
  try {
    return read();
  } catch (fault) {
    if (fault instanceof CertificateError) throw fault;
    if (fault instanceof DerError || fault instanceof TypeError || fault instanceof SyntaxError) {
      throw new CertificateError("these bytes are no certificate");
    }
    throw fault;
  }
}
