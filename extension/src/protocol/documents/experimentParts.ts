/** The parts of a published experiment: what is asked of a device, how features become bins, when, by way of whom. */

import { hex, type Bytes } from "../../bytes.ts";
import { X25519 } from "../../crypto/sealing/kem.ts";
import { MalformedMessageError } from "../../errors.ts";
import { MAX_BINS, MAX_HASHES } from "../../learning/declared.ts";
import { Ratio } from "../../learning/ratio.ts";
import { ratioText } from "../canonical.ts";
import { LOG_TERMS } from "../log/policy.ts";
import {
  beside,
  DIGEST,
  FLAG,
  listed,
  nullable,
  omitted,
  part,
  record,
  SIGNER_KEY,
  text,
  whole,
  words,
  type FieldKind,
  type ValueOf,
} from "../records.ts";
import { MAX_ROUND } from "../version.ts";
import { RELAY_TIMES, ROLES } from "./terms.ts";

/** A week: who waits longer for a round has another problem. */
export const MAX_WINDOW_S = 7 * 86_400;
/** A hundred years. */
export const MAX_DAYS = 36_500;
export const MAX_KEYS = 8;
/** The gateway's KEMs by their numbers in HPKE's registry; this device has the first. */
const KEMS: readonly number[] = [X25519, 0x647a];
const URL_PATTERN = "https?://[!-~]{1,500}";
const ZONE = "[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}";
const NAME = "[a-z0-9][a-z0-9.-]*";

/** Pairs of hours of the day, ascending. */
const HOURS: FieldKind<readonly (readonly [from: number, to: number])[]> = {
  read(fields, name) {
    const pairs = fields.each(name, { shortest: 1, longest: 24 }).map((item) => item.counts("item", { longest: 2 }));
    const hours = pairs.flat();
    const ascend = hours.every((hour, i) => i === 0 || hours[i - 1]! < hour);
    if (pairs.some((pair) => pair.length !== 2) || !ascend || hours.at(-1)! > 24) {
      throw fields.refuse(name, "pairs of hours from 0 to 24, ascending");
    }
    return pairs as unknown as readonly [number, number][];
  },
  write: (hours) => hours,
};

const SALT: FieldKind<Bytes> = {
  read: (fields, name) => fields.hexadecimal(name, { shortest: 16, longest: 64 }),
  write: hex,
};

const SHARE: FieldKind<Ratio> = {
  read(fields, name) {
    const share = fields.ratio(name);
    if (share.p <= 0n || share.p > share.q) throw fields.refuse(name, `greater than 0 and at most 1, not ${share}`);
    return share;
  },
  write: ratioText,
};

const KEM: FieldKind<number> = {
  read(fields, name) {
    const kem = fields.integer(name, 0);
    if (!KEMS.includes(kem)) throw fields.refuse(name, `one of [${KEMS.join(", ")}], not ${kem}`);
    return kem;
  },
  write: (kem) => kem,
};

/** A round of a public randomness beacon that lay in the future when the experiment was published. */
export const BEACON = record({
  /** Such as "drand-quicknet" or "nist-2.0-chain-2" (`crypto/beacons/sources.ts`). */
  chain: text({ longest: 64, pattern: NAME }),
  roundNumber: whole(1, undefined, { name: "round" }),
});
export type Beacon = ValueOf<typeof BEACON>;

const HASHED_BINS = record(
  {
    bins: whole(1, MAX_BINS),
    hashes: whole(1, MAX_HASHES),
    /** Null where beacons will fix it. */
    salt: nullable(SALT),
    /** The beacon rounds that will fix the salt; empty where it stands here. */
    beacons: listed(part(BEACON), { longest: 8 }),
  },
  ({ salt, beacons }) => {
    if ((salt === null) !== beacons.length > 0) {
      throw new MalformedMessageError("an experiment's salt stands in it, or beacons will fix it");
    }
  },
);
const VOCABULARY_BINS = record({
  bins: whole(1, MAX_BINS),
  /** The list's name (docs/protocol.md §2.9), in hexadecimal. */
  digest: DIGEST,
});

/** Bins by salted hash. */
export type HashedBins = ValueOf<typeof HASHED_BINS> & { readonly kind: "hash" };
/** The words of a public list as bins; a word has one. */
export type VocabularyBins = ValueOf<typeof VOCABULARY_BINS> & { readonly kind: "vocabulary"; readonly hashes: 1 };

const BINNING: FieldKind<HashedBins | VocabularyBins> = {
  read(fields, name) {
    const inner = fields.inner(name);
    const kind = inner.oneOf("kind", ["hash", "vocabulary"]);
    if (kind === "hash") return { ...HASHED_BINS.fromFields(inner), kind };
    return { ...VOCABULARY_BINS.fromFields(inner), kind, hashes: 1 };
  },
  write: (binning) => {
    const content = binning.kind === "hash" ? HASHED_BINS.toContent(binning) : VOCABULARY_BINS.toContent(binning);
    return { ...content, kind: binning.kind };
  },
};

/** What a device looks at. */
export const FEATURES_WANTED = record({
  /** The source on the device by name, such as "history-titles". */
  source: text({ longest: 64, pattern: NAME }),
  /** In words, for the person. */
  description: text({ longest: 4000 }),
  /** A feature counts once, however often it occurs. */
  presence: FLAG,
  /** How many days the source may look back; null: as far as it can. */
  days: omitted<number | null>(nullable(whole(1, MAX_DAYS)), null),
});
export type FeaturesWanted = ValueOf<typeof FEATURES_WANTED>;

/** When rounds happen. */
export const WINDOWS = record({
  /** Length of every window. */
  lengthS: whole(1, MAX_WINDOW_S),
  /** How long after a window's end late capsules are still taken. */
  graceS: whole(0, MAX_WINDOW_S),
  /** The earliest opening of round 1, in milliseconds. */
  firstOpening: whole(0),
  /** [from, to) in hours of the day, ascending: windows open only then. */
  hours: HOURS,
  /** IANA name of the zone whose hours are meant. Its offset is looked up by whoever owns a time zone database. */
  timeZone: text({ longest: 64, pattern: ZONE }),
  /** How long the steps after a window take where there are two relays; else null. */
  relays: nullable(beside(RELAY_TIMES)),
});
export type Windows = ValueOf<typeof WINDOWS>;

/** Whether a window may open at this instant, where local time is `offsetS` seconds ahead of UTC. */
export function openAtHour(windows: Windows, opensAt: number, options: { offsetS: number }): boolean {
  const seconds = (Math.floor(opensAt / 1000) + options.offsetS) % 86_400;
  const hour = Math.floor(((seconds + 86_400) % 86_400) / 3600);
  return windows.hours.some(([start, end]) => start <= hour && hour < end);
}

/** A relay that devices may use. */
export const RELAY = record({
  url: text({ longest: 510, pattern: URL_PATTERN }),
  /** Signs the relay's counts. */
  key: SIGNER_KEY,
  /** What it does, and who runs it, where there are two relays; else null. */
  role: omitted<(typeof ROLES)[number] | null>(nullable(words(...ROLES)), null),
  operator: omitted<string | null>(nullable(text({ longest: 200, shortest: 1 })), null),
});
export type Relay = ValueOf<typeof RELAY>;

/** Whose it is, as far as a URL tells: host and port, and nothing that only looks like them. */
export function hostOf(relay: Relay): string {
  const behind = relay.url.slice(relay.url.indexOf("://") + 3).split(/[/?#\\]/, 1)[0]!;
  return behind.slice(behind.lastIndexOf("@") + 1);
}

/** What a published experiment says besides learning and privacy. */
export const STATED = record({
  title: text({ shortest: 1, longest: 200 }),
  /** What is asked, in words. */
  question: text({ longest: 4000 }),
  features: part(FEATURES_WANTED),
  binning: BINNING,
  windows: part(WINDOWS),
  /** Fewest train participants; below, a round is abandoned. */
  floor: whole(1),
  /** Probability with which a device trains; the others test. */
  trainShare: SHARE,
  /** T: after so many rounds the experiment is over, abandoned ones included. */
  rounds: whole(1, MAX_ROUND),
  /** Whose signatures make a manifest, and how many of them are needed. */
  coordinatorKeys: listed(SIGNER_KEY, { shortest: 1, longest: MAX_KEYS }),
  threshold: whole(1),
  relays: listed(part(RELAY), { longest: 16 }),
  /** In words: who asks, how to reach them, and what for. A test may leave them empty. */
  operator: omitted(text({ longest: 200 }), ""),
  contact: omitted(text({ longest: 400 }), ""),
  purpose: omitted(text({ longest: 1000 }), ""),
  /** In words: who runs the gateway. Its keys come with the manifests. */
  gatewayNote: text({ longest: 4000 }),
  /** Of the gateway's keys, by its number in HPKE's registry. A device that lacks it takes no part. */
  kem: omitted(KEM, X25519),
  /** SHA-256 of the client's code: what the publisher claims to have tested. Proves nothing without attestation. */
  clientCode: nullable(DIGEST),
  /** The log of its rounds; null: there is none. */
  log: nullable(part(LOG_TERMS)),
  /** Whether a submission to two relays needs an anonymous token, which the entry relay gives. */
  tokens: omitted(FLAG, false),
  /** A test experiment: no people, seeded dice allowed, http and no relay allowed. */
  test: FLAG,
});
export type Stated = ValueOf<typeof STATED>;
