/**
 * Sentences that a person is told about their data: English here, and by key and values for a page in another language.
 *
 * A `Sentence` is its English text, and remembers from which key and values it was made, so that the person's page says
 * the same in the language of its reader. Placeholders are written as Python's `str.format` has them, of which there
 * are `{n}`, `{n:,}`, `{n:.2f}`, `{n:,.1f}` and `{n:.0%}`.
 */

import { formatFixed, grouped } from "../formatting.ts";
import { ENGLISH } from "./english.ts";
import { HERE } from "./here.ts";

export type Value = string | number | Sentence;

/** As a page is given it. */
export interface SentenceContent {
  readonly key: string;
  readonly values: { readonly [name: string]: string | number | SentenceContent };
  readonly text: string;
}

const PLACEHOLDER = /\{(\w+)(?::([^}]*))?\}/g;

/** English text that knows its key and values; a sentence may stand in another. */
export class Sentence {
  readonly key: string;
  readonly values: { readonly [name: string]: Value };
  readonly #text: string;

  constructor(key: string, text: string, values: { readonly [name: string]: Value }) {
    this.key = key;
    this.values = values;
    this.#text = text;
  }

  toString(): string {
    return this.#text;
  }

  content(): SentenceContent {
    const values = Object.entries(this.values).map(([name, value]) => [
      name,
      value instanceof Sentence ? value.content() : value,
    ]);
    return { key: this.key, values: Object.fromEntries(values), text: this.#text };
  }
}

/** The sentence of this key about these values. */
export function say(key: string, values: { readonly [name: string]: Value } = {}): Sentence {
  const pattern = ENGLISH[key] ?? HERE[key];
  if (pattern === undefined) throw new RangeError(`there is no sentence '${key}'`);
  const text = pattern.replace(PLACEHOLDER, (_, name: string, format: string | undefined) => {
    const value = values[name];
    if (value === undefined) throw new RangeError(`the sentence '${key}' needs a value '${name}'`);
    return written(value, format);
  });
  return new Sentence(key, text, values);
}

function written(value: Value, format = ""): string {
  if (format === "") return String(value);
  const [, commas, digits, kind] = /^(,?)(?:\.([0-9])([f%]))?$/.exec(format) ?? [];
  if (typeof value !== "number" || commas === undefined) throw new RangeError(`no number can be written as '${format}'`);
  if (kind === undefined) return grouped(value);
  if (kind === "%") return `${formatFixed(100 * value, Number(digits))}%`;
  return formatFixed(value, Number(digits), { grouped: commas !== "" });
}

/** Sentences for a page, which says those that it knows by their key in its reader's language. */
export function contents(sentences: readonly (Sentence | string)[]): (SentenceContent | { readonly text: string })[] {
  return sentences.map((sentence) => (sentence instanceof Sentence ? sentence.content() : { text: sentence }));
}
