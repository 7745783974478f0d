/**
 * Visited pages → features: words of titles, and hosts, as `secvm.participant.sources.pages` cuts them.
 *
 * The protocol never changes a feature, so two devices agree on a word only if they cut alike. `vectors/v2/pages.json`
 * holds both languages to it. Which characters are letters is the Unicode version's to say: of characters newer than
 * one side knows they may differ.
 */

import { compare, utf8 } from "../bytes.ts";
import { BadInputError } from "../errors.ts";

const MIN_CHARACTERS = 2;
const MAX_BYTES = 64;

/** A longest run of letters, decimal digits and marks that does not begin with a mark. */
const WORD = /[\p{L}\p{Nd}][\p{L}\p{Nd}\p{M}]*/gu;

/** The words of a text in its order, each as often as it comes. */
export function wordsOf(text: string): string[] {
  const words = folded(text.normalize("NFC")).normalize("NFC").match(WORD) ?? [];
  return words.filter((word) => [...word].length >= MIN_CHARACTERS && utf8(word).length <= MAX_BYTES);
}

/** Unicode's full case folding, letter by letter: `Straße` becomes `strasse`. */
function folded(text: string): string {
  return Array.from(text, foldedLetter).join("");
}

/** Letters whose folding is not the lower case of their upper case. Cherokee folds to upper case. */
const CHEROKEE = /[\u13a0-\u13fd\uab70-\uabbf]/u;
const ODD: { readonly [letter: string]: string } = { ı: "ı", ẞ: "ss" };

function foldedLetter(letter: string): string {
  if (letter in ODD) return ODD[letter]!;
  const upper = letter.toUpperCase();
  return CHEROKEE.test(letter) ? upper : upper.toLowerCase();
}

/** What browsers call a page: its address and its title, where it has one. */
export interface Page {
  readonly url: string;
  readonly title: string | null;
}

const DEFAULT_PORTS: { readonly [scheme: string]: number } = { http: 80, https: 443 };
const PRIVATE = ["localhost", "local", "internal", "intranet", "lan", "home", "corp", "home.arpa", "test", "invalid"];
const NAME = /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/;
/** A host name has at most 253 characters (RFC 1035). */
const MAX_HOST = 253;

interface Wanted {
  readonly titles: boolean;
  readonly hosts: boolean;
  /** Pages of this device and of private networks count as well. */
  readonly local: boolean;
  /** Names of hosts, whose pages do not count at all, nor do those of hosts below them, and words. */
  readonly excluded?: ReadonlySet<string>;
}

/** Features of pages, each with the number of pages that have it. */
export function featuresOf(pages: Iterable<Page>, wanted: Wanted): Map<string, number> {
  const { titles, hosts, local, excluded = new Set<string>() } = wanted;
  const counts = new Map<string, number>();
  const count = (feature: string) => counts.set(feature, (counts.get(feature) ?? 0) + 1);
  for (const { url, title } of pages) {
    const host = hostOf(url, { local });
    if (host === null || isBelow(withoutPort(host), excluded)) continue;
    if (hosts) count(`host:${host}`);
    if (titles && title) new Set(wordsOf(title)).difference(excluded).forEach(count);
  }
  return counts;
}

/** Whether a host, or one that it is below, is excluded: `bank.example` excludes `login.bank.example`. */
function isBelow(host: string, excluded: ReadonlySet<string>): boolean {
  const parts = host.split(".");
  return parts.some((_, i) => excluded.has(parts.slice(i).join(".")));
}

function withoutPort(host: string): string {
  return host.replace(/:[0-9]+$/, "");
}

/** What a person writes to exclude a word or a host, as it is compared: of an address its host, of a word its form. */
export function asExcluded(text: string): string {
  const isAddress = text.includes("://");
  const host = isAddress || text.includes(".") ? hostOf(isAddress ? text : `https://${text}`, { local: true }) : null;
  if (host !== null) return withoutPort(host);
  const [word, ...others] = wordsOf(text);
  if (word === undefined || others.length || isAddress) {
    throw new BadInputError("what is excluded is one word, or the name of one host");
  }
  return word;
}

/** The host of a page that counts; null: it does not. */
export function hostOf(url: string, options: { local?: boolean } = {}): string | null {
  const { local = false } = options;
  const parts = /^(https?):\/\/(?:[^/?#]*@)?(\[[^\]/?#]*\]|[^:/?#@]*)(?::([0-9]*))?(?:[/?#]|$)/i.exec(url);
  if (!parts) return null;
  const [scheme, name, port = ""] = [parts[1]!.toLowerCase(), parts[2]!.toLowerCase(), parts[3]];
  if (Number(port) > 65535) return null;
  const shown = isAddress(name) ? publicAddress(name, local) : publicName(name, local);
  if (shown === null) return null;
  return port === "" || Number(port) === DEFAULT_PORTS[scheme] ? shown : `${shown}:${Number(port)}`;
}

function publicName(whole: string, local: boolean): string | null {
  const name = whole.replace(/\.$/, "");
  if (name.length > MAX_HOST || !NAME.test(name)) return null;
  const hidden = PRIVATE.some((ending) => name.endsWith(`.${ending}`));
  if (!local && (!name.includes(".") || hidden)) return null;
  const rest = name.replace(/^www\./, "");
  return rest.includes(".") ? rest : name;
}

// ── addresses ────────────────────────────────────────────────────────────────────────────────────────────────────────

function isAddress(name: string): boolean {
  return name.startsWith("[") || bytesOfV4(name) !== null;
}

function publicAddress(name: string, local: boolean): string | null {
  const v4 = bytesOfV4(name);
  if (v4 !== null) return local || !within(v4, NOT_GLOBAL_V4) ? name : null;
  const canonical = URL.parse(`http://${name}/`)?.hostname;
  if (canonical === undefined) return null;
  return local || isGlobalV6(bytesOfV6(canonical.slice(1, -1))) ? canonical : null;
}

function bytesOfV4(name: string): number[] | null {
  const parts = name.split(".");
  const known = parts.length === 4 && parts.every((part) => /^(0|[1-9][0-9]{0,2})$/.test(part) && Number(part) < 256);
  return known ? parts.map(Number) : null;
}

/** The bytes of a canonical address, which names no IPv4 address inside. */
function bytesOfV6(canonical: string): number[] {
  const [head = "", tail] = canonical.split("::");
  const groups = (text: string) => (text ? text.split(":") : []);
  const [first, last] = [groups(head), tail === undefined ? [] : groups(tail)];
  const zeros = Array<string>(8 - first.length - last.length).fill("0");
  return [...first, ...zeros, ...last].flatMap((group) => {
    const value = Number.parseInt(group, 16);
    return [value >> 8, value & 255];
  });
}

function isGlobalV6(address: readonly number[]): boolean {
  const isV4Inside = address.slice(0, 10).every((byte) => byte === 0) && address[10] === 255 && address[11] === 255;
  return isV4Inside ? !within(address.slice(12), NOT_GLOBAL_V4) : !within(address, NOT_GLOBAL_V6);
}

/** Networks that are not global: bytes they begin with, and how many bits of them. */
type Network = readonly [readonly number[], number];

/** By the registries of special addresses (RFC 6890), and multicast. */
const NOT_GLOBAL_V4: readonly Network[] = [
  [[0], 8], [[10], 8], [[100, 64], 10], [[127], 8], [[169, 254], 16], [[172, 16], 12], [[192, 0, 0], 29],
  [[192, 0, 0, 170], 31], [[192, 0, 2], 24], [[192, 168], 16], [[198, 18], 15], [[198, 51, 100], 24],
  [[203, 0, 113], 24], [[224], 4], [[240], 4],
];
const NOT_GLOBAL_V6: readonly Network[] = [
  [Array<number>(16).fill(0), 127], [[1, 0], 64], [[0x20, 0x01], 23],
  [[0x20, 0x01, 0x0d, 0xb8], 32], [[0xfc], 7], [[0xfe, 0x80], 10], [[0xff], 8],
];

function within(address: readonly number[], networks: readonly Network[]): boolean {
  return networks.some(([start, bits]) =>
    address.every((byte, i) => {
      const kept = Math.max(0, Math.min(8, bits - 8 * i));
      return (byte ^ (start[i] ?? 0)) >> (8 - kept) === 0;
    }),
  );
}

/** Features in the order of their bytes: the order in which the protocol draws among them. */
export function inOrder(features: ReadonlyMap<string, number>): [string, number][] {
  return [...features].sort(([a], [b]) => compare(utf8(a), utf8(b)));
}
