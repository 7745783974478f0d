/**
 * Whose log it is, and whose cosignatures count: by the experiment, and by a reader's own policy (§20).
 *
 * A coordinator has one log for all its experiments, with one origin, `name/secvm/v2`; its entries are lines
 * (`entries.ts`). `LOG_TERMS` stand in the experiment document: the log's name and key, the witnesses, and how many of
 * them are enough. Experiments of one log may name different witnesses, and never another log.
 *
 * A policy is a file, as C2SP writes it (c2sp.org/tlog-policy), that says which logs, and which witnesses are enough:
 *
 *     log coordinator.example/secvm/v2+3b2e…+AV… https://coordinator.example/secvm/v2
 *     witness w1 witness.newspaper.example+7ad9…+BD… https://witness.newspaper.example
 *     witness w2 witness.university.example+03c1…+BC…
 *     group enough 1 w1 w2
 *     quorum enough
 *
 * Its quorum comes on top of the experiment's (`quorumOf`): neither can make the other smaller. Names of witnesses and
 * groups mean nothing outside the file; a witness is its key. A file with keys of other types than 01 for logs and 04
 * for witnesses is refused as a whole, because what a quorum over unknown keys demands cannot be checked.
 */

import { hex, textOf } from "../../bytes.ts";
import { COSIGNATURE, NoteKey, PLAIN, type SignatureKind } from "../../crypto/notes.ts";
import type { VerifyKey } from "../../crypto/signing.ts";
import { BadInputError, MalformedMessageError } from "../../errors.ts";
import { listed, part, record, SIGNER_KEY, text, whole, type ValueOf } from "../records.ts";
import { LOG_ORIGIN } from "../version.ts";
import { Quorum } from "./checkpoints.ts";

export const MAX_WITNESSES = 16;
/** A week: an older view is no view. */
export const MAX_FRESHNESS_S = 7 * 86_400;
/** A host and a path, as they stand in a URL without its scheme. */
const LOG_NAME = "[a-z0-9][a-z0-9.:-]*(/[a-z0-9._-]+)*";
/** Anything that is seen, but no plus: witnesses run elsewhere have the names they have. */
const WITNESS_NAME = "[!-*,-~]+";

/** Somebody else, who cosigns what extends what they have seen. */
export const WITNESS = record({ name: text({ longest: 200, pattern: WITNESS_NAME }), key: SIGNER_KEY });

/** Whose log it is, and whose cosignatures count. Part of the experiment; never changes. */
export const LOG_TERMS = record(
  {
    /** What the log's origin begins with: host and path. */
    name: text({ longest: 200, pattern: LOG_NAME }),
    key: SIGNER_KEY,
    witnesses: listed(part(WITNESS), { shortest: 1, longest: MAX_WITNESSES }),
    /** So many of the witnesses must have cosigned: more than half, else two halves could be shown two logs. */
    quorum: whole(1),
    /** How long ago that may have been. */
    freshnessS: whole(1, MAX_FRESHNESS_S),
  },
  ({ key, witnesses, quorum }) => {
    const keys = new Set(witnesses.map((witness) => hex(witness.key.data)));
    const names = new Set(witnesses.map((witness) => witness.name));
    const count = witnesses.length;
    if (keys.size !== count || names.size !== count) {
      throw new MalformedMessageError("a witness of the log stands there twice");
    }
    const half = Math.floor(count / 2);
    if (quorum <= half || quorum > count) {
      throw new MalformedMessageError(
        `a quorum of ${quorum} of ${count} witnesses; it must be from ${half + 1} to ${count}`,
      );
    }
    if (keys.has(hex(key.data))) throw new MalformedMessageError("a log cannot be its own witness");
  },
);
export type LogTerms = ValueOf<typeof LOG_TERMS>;

/** The key of the log; its name is the log's origin. */
export function logKeyOf(terms: LogTerms): NoteKey {
  return new NoteKey(`${terms.name}/${LOG_ORIGIN}`, terms.key, PLAIN);
}

/** The witnesses' keys as they stand under checkpoints. */
export function witnessKeysOf(terms: LogTerms): NoteKey[] {
  return terms.witnesses.map(({ name, key }) => new NoteKey(name, key, COSIGNATURE));
}

export const MOST_POLICY_BYTES = 2 ** 16;
/** Logs, witnesses or groups of a file: C2SP asks for at least 32 of each. */
export const MOST_LINES = 64;
const NONE = "none";

/** A log or a witness of a policy. */
export interface Listed {
  readonly key: NoteKey;
  /** Of a witness its submission prefix, of a log what its tiles' paths begin with; null: not told. */
  readonly url: string | null;
}

/** Which logs may have signed a checkpoint, and which witnesses must have cosigned it. */
export interface LogPolicy {
  /** Any of these; none: the log is known otherwise. */
  readonly logs: readonly Listed[];
  /** Others do not count; none: those that the experiment names. */
  readonly witnesses: readonly Listed[];
  /** Null: no cosignatures are demanded, beyond what the experiment demands itself. */
  readonly quorum: Quorum | null;
}

/**
 * Who must have cosigned for a reader of an experiment: the experiment's quorum, of witnesses that count for the
 * reader, and the reader's own besides.
 *
 * Throws a `BadInputError` where its log is none of the policy's, or its witnesses can never be enough.
 */
export function quorumOf(terms: LogTerms, policy: LogPolicy | null): Quorum {
  const witnesses = terms.witnesses.map((witness) => witness.key);
  if (policy === null) return new Quorum(terms.quorum, witnesses);
  const log = logKeyOf(terms).toText();
  if (policy.logs.length && !policy.logs.some((party) => party.key.toText() === log)) {
    throw new BadInputError("this experiment's log is none of those that the policy names");
  }
  const listed = new Set(policy.witnesses.map((party) => hex(party.key.key.data)));
  const known = witnesses.filter((key) => !listed.size || listed.has(hex(key.data)));
  if (known.length < terms.quorum) {
    throw new BadInputError("too few of this experiment's witnesses are ones that this device knows");
  }
  const own = new Quorum(terms.quorum, known);
  if (policy.quorum === null) return own;
  if (!policy.quorum.metBy(known.map((key) => hex(key.data)))) {
    throw new BadInputError("this experiment's witnesses are not enough for the policy's quorum");
  }
  return new Quorum(2, [own, policy.quorum]);
}

/** The policy in a file; throws a `BadInputError` with the number of the line where it is none. */
export function readPolicy(data: Uint8Array): LogPolicy {
  if (data.length > MOST_POLICY_BYTES) throw new BadInputError(`a policy has at most ${MOST_POLICY_BYTES} bytes`);
  // Octets above 7f mean nothing here, and stay what they are: a letter each.
  const file = Array.from(data, (octet) => String.fromCharCode(octet)).join("");
  if (!/^[\t\n\x20-\x7e\x80-\xff]*$/.test(file)) {
    throw new BadInputError("a policy has no control characters but tabs and line feeds");
  }
  if (file && !file.endsWith("\n")) {
    throw new BadInputError("the last line of a policy is not whole: it ends without a line feed");
  }
  const reading = new Reading();
  file.split("\n").forEach((line, i) => {
    const words = line.match(/[^ \t]+/g) ?? [];
    if (!words.length || words[0]!.startsWith("#")) return;
    try {
      reading.take(words);
    } catch (fault) {
      if (!(fault instanceof MalformedMessageError)) throw fault;
      throw new BadInputError(`${fault.message} (line ${i + 1} of the policy)`);
    }
  });
  return reading.policy();
}

type Rule = VerifyKey | Quorum;

/** A policy file, line by line. */
class Reading {
  readonly #logs = new Map<string, Listed>();
  readonly #witnesses = new Map<string, Listed>();
  readonly #rules = new Map<string, Rule>();
  readonly #members = new Set<string>();
  readonly #quorum: (Quorum | null)[] = [];
  #groups = 0;

  /** What the lines say together. */
  policy(): LogPolicy {
    const [quorum, ...more] = this.#quorum;
    if (quorum === undefined || more.length) {
      throw new BadInputError(`a policy has one line quorum, and this one ${this.#quorum.length}`);
    }
    return { logs: [...this.#logs.values()], witnesses: [...this.#witnesses.values()], quorum };
  }

  take([word, ...rest]: readonly string[]): void {
    const [first, second, ...more] = rest;
    if (word === "log" && (rest.length === 1 || rest.length === 2)) {
      this.#list(this.#logs, first!, second, PLAIN);
    } else if (word === "witness" && (rest.length === 2 || rest.length === 3)) {
      this.#define(first!, this.#list(this.#witnesses, second!, more[0], COSIGNATURE));
    } else if (word === "group" && rest.length > 2) {
      this.#groups += 1;
      if (this.#groups > MOST_LINES) throw new MalformedMessageError(`there are more than ${MOST_LINES} groups`);
      this.#define(first!, this.#group(second!, more));
    } else if (word === "quorum" && rest.length === 1) {
      const rule = first === NONE ? null : this.#known(first!);
      this.#quorum.push(rule === null || rule instanceof Quorum ? rule : new Quorum(1, [rule]));
    } else {
      throw new MalformedMessageError("this is no log, witness, group or quorum with what belongs to it");
    }
  }

  #list(known: Map<string, Listed>, text: string, url: string | undefined, kind: SignatureKind): VerifyKey {
    const key = keyFrom(text);
    if (key.kind !== kind) {
      throw new MalformedMessageError(
        `a key of type ${typeText(key.kind)} stands where one of type ${typeText(kind)} belongs`,
      );
    }
    const name = hex(key.key.data);
    if (known.has(name) || known.size === MOST_LINES) {
      throw new MalformedMessageError(`a key stands there twice, or there are more than ${MOST_LINES}`);
    }
    known.set(name, { key, url: url ?? null });
    return key.key;
  }

  #define(name: string, rule: Rule): void {
    if (name === NONE || this.#rules.has(name)) throw new MalformedMessageError("this name has a meaning already");
    this.#rules.set(name, rule);
  }

  #group(least: string, names: readonly string[]): Quorum {
    const members = names.map((name) => this.#known(name));
    if (new Set(names).size !== names.length || names.some((name) => this.#members.has(name))) {
      throw new MalformedMessageError("a witness or group is a member of one group, once");
    }
    names.forEach((name) => this.#members.add(name));
    const number = least === "all" ? `${names.length}` : least === "any" ? "1" : least;
    if (!/^[1-9][0-9]{0,3}$/.test(number) || Number(number) > names.length) {
      throw new MalformedMessageError("how many are enough is all, any, or a number from 1 to that of the members");
    }
    return new Quorum(Number(number), members);
  }

  #known(name: string): Rule {
    const rule = this.#rules.get(name);
    if (rule === undefined) {
      throw new MalformedMessageError("a name stands there that no line before it defines");
    }
    return rule;
  }
}

/** A key as people hand it to each other; its name is UTF-8, of which `text` has an octet in each letter. */
function keyFrom(text: string): NoteKey {
  try {
    return NoteKey.fromText(textOf(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
  } catch {
    throw new MalformedMessageError("this is no Ed25519 key written name+id+key");
  }
}

function typeText(kind: SignatureKind): string {
  return kind.toString(16).padStart(2, "0");
}
