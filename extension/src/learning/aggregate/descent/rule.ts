/** What a descent rule is, and the state that all rules share. */

import { bytesOfWords, concat, equal, textOf, utf8, type Bytes } from "../../../bytes.ts";
import { BadInputError } from "../../../errors.ts";
import type { PublishedRule } from "../../experiment.ts";
import { Ratio } from "../../ratio.ts";
import { Weights } from "../../weights.ts";
import type { Direction } from "../direction.ts";
import type { Counts } from "../tally.ts";

const MAGIC = utf8("secvm-state-v1\n");
const LINE_FEED = 10;

export type Floats = Float64Array<ArrayBuffer>;
/** Models × (bins + 1) each, by name. */
export type Vectors = { readonly [name: string]: readonly Counts[] | readonly Floats[] };

interface StateFields {
  /** Name of the rule that made it. */
  readonly rule: string;
  /** Steps taken so far; the weights of this state are those of round `step + 1`. */
  readonly step: number;
  readonly vectors: Vectors;
}

/**
 * All that a rule needs to go on: the number of steps taken and named vectors.
 *
 * Its bytes are one magic line, one line of JSON (rule, step, names, kinds, shape), then the vectors little-endian in
 * the order of their names. Equal states have equal bytes.
 */
export class State implements StateFields {
  readonly rule: string;
  readonly step: number;
  readonly vectors: Vectors;

  constructor({ rule, step, vectors }: StateFields) {
    this.rule = rule;
    this.step = step;
    this.vectors = vectors;
  }

  /** The canonical encoding. */
  toBytes(): Bytes {
    const names = Object.keys(this.vectors).sort();
    const rows = names.map((name) => this.vectors[name]!);
    const header = {
      kinds: rows.map(([first]) => (first instanceof BigInt64Array ? "i8" : "f8")),
      names,
      rule: this.rule,
      shape: [rows[0]!.length, rows[0]![0]!.length],
      step: this.step,
    };
    return concat(MAGIC, utf8(`${JSON.stringify(header)}\n`), ...rows.flatMap((each) => each.map(bytesOfWords)));
  }

  /** The state of an encoding; anything but a whole canonical encoding is refused. */
  static fromBytes(data: Uint8Array): State {
    const state = read(data);
    if (state === null || !equal(state.toBytes(), data)) throw new BadInputError("these bytes are not a state");
    return state;
  }
}

interface Header {
  readonly kinds: readonly unknown[];
  readonly names: readonly string[];
  readonly rule: string;
  readonly shape: readonly [number, number];
  readonly step: number;
}

/** The state of these bytes, or null; whether they are canonical is not looked at. */
function read(data: Uint8Array): State | null {
  const end = data.indexOf(LINE_FEED, MAGIC.length);
  if (end < 0) return null;
  let header: unknown;
  try {
    header = JSON.parse(textOf(data.subarray(MAGIC.length, end)));
  } catch {
    return null;
  }
  if (!isHeader(header)) return null;
  const { kinds, names, rule, shape, step } = header;
  const [models, bins] = shape;
  const body = data.slice(end + 1).buffer;
  if (body.byteLength !== models * bins * 8 * names.length || kinds.length !== names.length) return null;
  const vectors = names.map((name, i) => {
    const Kind = kinds[i] === "i8" ? BigInt64Array : Float64Array;
    const rows = Array.from({ length: models }, (_, model) => new Kind(body, 8 * bins * (i * models + model), bins));
    return [name, rows];
  });
  return new State({ rule, step, vectors: Object.fromEntries(vectors) as Vectors });
}

function isHeader(value: unknown): value is Header {
  const { kinds, names, rule, shape, step } = (value ?? {}) as { readonly [key: string]: unknown };
  return (
    Array.isArray(kinds) && kinds.every((kind) => kind === "i8" || kind === "f8") &&
    Array.isArray(names) && names.length > 0 && names.every((name) => typeof name === "string") &&
    Array.isArray(shape) && shape.length === 2 && shape.every((n) => Number.isSafeInteger(n) && n >= 1) &&
    typeof rule === "string" && Number.isSafeInteger(step) && (step as number) >= 0
  );
}

/**
 * A first-order method on public tallies.
 *
 * A rule is a class on top of `declared` that says `name` and declares its constants (`declared.ts`).
 */
export interface DescentRule extends PublishedRule {
  /** The state before round 1; its weights are zero. */
  start(nModels: number, nBins: number): State;
  /** The next state. Never changes the one given. */
  step(state: State, direction: Direction): State;
  /** The weights that decide who violates in the next round. */
  trainingWeights(state: State): Weights;
  /** The weights that test packages and predictions use. */
  evaluationWeights(state: State): Weights;
}

/** The weights of round 1: zero; everybody violates. */
export function firstWeights(like: readonly ArrayLike<unknown>[], normalised: boolean): Weights {
  const mantissas = like.map(({ length }) => new Int32Array(length));
  return new Weights({ mantissas, unit: new Ratio(1), normalised, first: true });
}
