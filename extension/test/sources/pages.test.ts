import assert from "node:assert/strict";
import { test } from "node:test";

import { BadInputError } from "../../src/errors.ts";
import { asExcluded, featuresOf, hostOf, inOrder, wordsOf, type Page } from "../../src/sources/pages.ts";
import { vectors } from "../vectors.ts";

const known = vectors("pages");

test("titles are cut into the same words as by the Python device", () => {
  for (const { text, words } of known.words) assert.deepEqual(wordsOf(text), words, text.slice(0, 80));
});

test("hosts are those of the Python device", () => {
  for (const { url, public: shown, local } of known.hosts) {
    assert.equal(hostOf(url), shown, url);
    assert.equal(hostOf(url, { local: true }), local, url);
  }
});

test("features of pages, without what is excluded", () => {
  const pages: Page[] = known.pages.map(([url, title]: [string, string | null]) => ({ url, title }));
  for (const { features, excluded, ...wanted } of known.features) {
    const counted = featuresOf(pages, { ...wanted, excluded: new Set(excluded) });
    assert.deepEqual(Object.fromEntries(counted), features);
  }
});

test("a word or a host is excluded, and nothing else", () => {
  for (const { text, as } of known.excluded) assert.equal(asExcluded(text), as);
  for (const text of ["", "two words", "https://", "!"]) assert.throws(() => asExcluded(text), BadInputError);
});

test("features stand in the order of their bytes", () => {
  const features = new Map([["😀", 1], ["\uffee", 1], ["b", 1], ["ab", 1], ["a", 2]]);
  assert.deepEqual(inOrder(features).map(([name]) => name), ["a", "ab", "b", "\uffee", "😀"]);
});
