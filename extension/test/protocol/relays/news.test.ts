import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { concat, hex, littleEndian, unhex, utf8 } from "../../../src/bytes.ts";
import { MalformedMessageError } from "../../../src/errors.ts";
import { linesBetween, newsPath, readNews } from "../../../src/protocol/relays/news.ts";
import { refused, vectors } from "../../vectors.ts";

test("news of the vectors are read part by part", () => {
  for (const { parts, first_line, lines, news } of vectors("news").cases) {
    const read = readNews(unhex(news));
    assert.deepEqual([read.manifest, read.opening, read.tally, read.checkpoint].map(hex), parts);
    assert.equal(read.firstLine, first_line);
    assert.deepEqual(read.lines.map(hex), lines);
  }
});

test("the bad news of the vectors are refused, and so is whatever is no news", async () => {
  await refused(vectors("news").bad, (bytes) => readNews(unhex(bytes)), MalformedMessageError);
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), (data) => {
      try {
        readNews(data);
      } catch (fault) {
        assert.ok(fault instanceof MalformedMessageError);
      }
    }),
  );
});

test("lines are there from an index up to a size, or they are not", () => {
  const lines = ["a", "b", "c"].map(utf8);
  const part = concat(littleEndian(5, 8), ...lines.flatMap((line) => [Uint8Array.of(0, line.length), line]));
  const empty = new Uint8Array(4 * 4);
  const news = readNews(concat(empty, littleEndian(part.length, 4), part));
  assert.deepEqual(linesBetween(news, 5, 8), lines);
  assert.deepEqual(linesBetween(news, 7, 8), lines.slice(2));
  assert.deepEqual(linesBetween(news, 8, 8), []);
  for (const [since, size] of [[4, 8], [5, 7], [5, 9], [9, 8]] as const) {
    assert.equal(linesBetween(news, since, size), null);
  }
  const nothing = readNews(new Uint8Array(5 * 4));
  assert.deepEqual([linesBetween(nothing, 0, 0), linesBetween(nothing, 0, 1)], [[], null]);
});

test("a first line beyond every log is nobody's", () => {
  const part = new Uint8Array(8).fill(0xff);
  const news = readNews(concat(new Uint8Array(16), littleEndian(part.length, 4), part));
  assert.equal(linesBetween(news, Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER), null);
});

test("news have one path", () => {
  assert.equal(newsPath("0".repeat(64), 12), `/v1/experiment/${"0".repeat(64)}/news/12`);
});
