import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { ENGLISH } from "../../src/privacy/english.ts";
import { HERE } from "../../src/privacy/here.ts";

const texts = (language: string): Record<string, string> =>
  JSON.parse(readFileSync(new URL(`../../pages/texts.${language}.json`, import.meta.url), "utf8"));
const placeholders = (text: string): string[] => [...text.matchAll(/\{(\w+)/g)].map(([, name]) => name!).sort();

test("every sentence that only a browser says has German words, about the same values", () => {
  const german = texts("de");
  for (const [key, text] of Object.entries(HERE)) {
    assert.ok(!(key in ENGLISH), key);
    assert.deepEqual(placeholders(german[key] ?? "missing"), placeholders(text), key);
  }
});

test("what the page says here in place of Python's words it says in both languages", () => {
  const [english, german] = [texts("en"), texts("de")];
  for (const [key, text] of Object.entries(english)) {
    assert.deepEqual(placeholders(german[key] ?? "missing"), placeholders(text), key);
    assert.ok(!`${text} ${german[key]}`.includes("secvm participant"), key);
  }
  assert.deepEqual(Object.keys(german).filter((key) => !(key in english) && !(key in HERE)), []);
});
