/**
 * How the parts of an experiment declare their settings: once, each with name, kind, default and range.
 *
 * A part (a descent rule, a loss, thinning, robustness) is a class on top of `declared`:
 *
 *     class Brake extends declared({ strength: number("1/2", { above: 0, atMost: 1 }) }) {}
 *     new Brake({ strength: 0.25 }).content()    // { strength: "1/4" }
 */

import { BadExperimentError, BadInputError } from "../errors.ts";
import { exact } from "./arithmetic.ts";
import { Ratio } from "./ratio.ts";

/** A number as whoever sets one may say it. */
export type Given = Ratio | number | string | null;

interface Bounds {
  readonly atLeast?: number | string;
  readonly above?: number | string;
  readonly atMost?: number | string;
  readonly below?: number | string;
  /** The name in documents, where it is not the attribute's. */
  readonly name?: string;
  /** The default where the label is a number instead of a class, if that is another one. */
  readonly forNumbers?: number | string;
}

/** One number that somebody may set; `T` is what it is read as. */
export interface Setting<T> extends Bounds {
  readonly default: T;
  readonly isWhole: boolean;
  /** Whether null is a value. */
  readonly optional: boolean;
  /** The value; throws a `BadExperimentError` beyond the range. */
  read(name: string, value: unknown): T;
}

/** A setting that is a rational. */
export function number(otherwise: null, bounds: Bounds): Setting<Ratio | null>;
export function number(otherwise: number | string, bounds: Bounds): Setting<Ratio>;
export function number(otherwise: number | string | null, bounds: Bounds): Setting<Ratio | null> {
  const value = otherwise === null ? null : exact(otherwise);
  const read = (name: string, given: unknown): Ratio | null =>
    given === null && value === null ? null : readNumber(name, given, bounds, false);
  return { ...bounds, default: value, isWhole: false, optional: value === null, read };
}

/** A setting that is an integer. */
export function whole(otherwise: number, bounds: Bounds): Setting<number> {
  const read = (name: string, given: unknown): number => Number(readNumber(name, given, bounds, true).p);
  return { ...bounds, default: otherwise, isWhole: true, optional: false, read };
}

function readNumber(name: string, given: unknown, bounds: Bounds, isWhole: boolean): Ratio {
  const { atLeast, above, atMost, below } = bounds;
  let value: Ratio;
  try {
    value = exact(given as Ratio);
  } catch (fault) {
    if (!(fault instanceof BadInputError)) throw fault;
    throw new BadExperimentError(`${name} must be ${limitsOf(bounds, isWhole)}`);
  }
  const inside =
    (atLeast === undefined || value.compare(exact(atLeast)) >= 0) &&
    (above === undefined || value.compare(exact(above)) > 0) &&
    (atMost === undefined || value.compare(exact(atMost)) <= 0) &&
    (below === undefined || value.compare(exact(below)) < 0) &&
    !(isWhole && value.q !== 1n);
  if (!inside) throw new BadExperimentError(`${name} must be ${limitsOf(bounds, isWhole)}, not ${shown(value)}`);
  return value;
}

/** The range in words. */
function limitsOf({ atLeast, above, atMost, below }: Bounds, isWhole: boolean): string {
  const bounds = [["at least", atLeast], ["greater than", above], ["at most", atMost], ["less than", below]] as const;
  const words = bounds.flatMap(([word, bound]) => (bound === undefined ? [] : [`${word} ${shown(exact(bound))}`]));
  return [isWhole ? "a whole number" : "a number", ...(words.length ? [words.join(" and ")] : [])].join(", ");
}

/** Longest number that an error quotes. */
const QUOTED = 40;

/** A number for people: a decimal where that is short and exact, else a ratio, and never a long text. */
export function shown(value: Ratio): string {
  const text = value.toString();
  if (text.length > QUOTED) return `${text.slice(0, QUOTED)}…`;
  if (value.q === 1n) return text;
  const decimal = String(Number(value.toNumber().toPrecision(6))).replace("e-0", "e-");
  return exact(decimal).equals(value) ? decimal : text;
}

export type Settings = { readonly [attribute: string]: Setting<any> };
export type GivenOf<S extends Settings> = { readonly [A in keyof S]?: Given };
type ValuesOf<S extends Settings> = { readonly [A in keyof S]: S[A] extends Setting<infer T> ? T : never };

/** What documents say of a part: rationals as text. */
export type PartContent = Record<string, string | number | null>;

interface Declared {
  /** All values by name, as JSON has them. */
  content(): PartContent;
}

export interface DeclaredClass<S extends Settings, P = ValuesOf<S> & Declared> {
  new (given?: GivenOf<S>): P;
  /** What can be set, by the name that documents use, in the order of the declaration. */
  readonly settings: ReadonlyMap<string, Setting<any> & { readonly attribute: string }>;
  /** The part with these values by name; what is missing has its default, and other names are refused. */
  read<T>(
    this: (new (given?: GivenOf<S>) => T) & Pick<DeclaredClass<S>, "settings">,
    content: { readonly [name: string]: unknown },
    options?: { numbers?: boolean },
  ): T;
}

/** The base class of a part with these settings. */
export function declared<const S extends Settings>(shape: S): DeclaredClass<S> {
  const settings = new Map(
    Object.entries(shape).map(([attribute, setting]) => [
      setting.name ?? attribute.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      { ...setting, attribute },
    ]),
  );
  class Part {
    static readonly settings = settings;

    constructor(given: GivenOf<S> = {}) {
      for (const [name, setting] of settings) {
        const value = given[setting.attribute];
        const read = value === undefined ? setting.default : setting.read(name, value);
        Object.defineProperty(this, setting.attribute, { value: read, enumerable: true });
      }
    }

    content(): PartContent {
      const values = [...settings].map(([name, { attribute }]) => {
        const value = (this as unknown as Record<string, Ratio | number | null>)[attribute]!;
        return [name, value instanceof Ratio ? value.toString() : value];
      });
      return Object.fromEntries(values) as PartContent;
    }

    static read(content: { readonly [name: string]: unknown }, options: { numbers?: boolean } = {}): unknown {
      const given: Record<string, unknown> = {};
      for (const { attribute, forNumbers } of settings.values()) {
        if (options.numbers && forNumbers !== undefined) given[attribute] = forNumbers;
      }
      for (const [name, value] of Object.entries(content)) {
        const setting = settings.get(name);
        if (!setting) {
          const names = [...settings.keys()].join(", ") || "no settings";
          throw new BadExperimentError(`${name.slice(0, QUOTED)} is not a setting here; there is ${names}`);
        }
        given[setting.attribute] = value;
      }
      return new this(given as GivenOf<S>);
    }
  }
  return Part as unknown as DeclaredClass<S>;
}

/** The class of a name; throws a `BadExperimentError` where there is none. */
export function find<T>(kinds: ReadonlyMap<string, T>, name: string, noun: string): T {
  const kind = kinds.get(name);
  if (kind === undefined) {
    throw new BadExperimentError(`unknown ${noun} '${name.slice(0, 64)}'; known are ${[...kinds.keys()].join(", ")}`);
  }
  return kind;
}

/** The range reduction uses 32 bits of the hash: at 2^24 bins the likeliest bin is 0.4 % likelier than the rarest. */
export const MAX_BINS = 2 ** 24;
/** An update has one unit per hash; more than a handful only blurs. */
export const MAX_HASHES = 16;
/** Packages of one participant in one round. */
export const MAX_BUDGET = 2 ** 16;
