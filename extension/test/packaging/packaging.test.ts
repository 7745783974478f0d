import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { inflateSync } from "node:zlib";

import { icon } from "../../packaging/icon.ts";
import { zip } from "../../packaging/zip.ts";

const SQUARE = '<svg viewBox="0 0 16 16"><path fill="#102030" d="M4 4l8 0v8l-8 0z"/></svg>';

/** Width, and a row of shades for each line of a picture that `icon` has drawn. */
function shades(png: Buffer): number[][] {
  const side = png.readUInt32BE(16);
  const at = png.indexOf("IDAT");
  const rows = inflateSync(png.subarray(at + 4, at + 4 + png.readUInt32BE(at - 4)));
  assert.equal(rows.length, side * (side + 1));
  return Array.from({ length: side }, (_, y) => [...rows.subarray(y * (side + 1) + 1, (y + 1) * (side + 1))]);
}

test("an icon covers what its path encloses", () => {
  const rows = shades(icon(SQUARE, 8));
  rows.forEach((row, y) => {
    row.forEach((shade, x) => assert.equal(shade, x >= 2 && x < 6 && y >= 2 && y < 6 ? 255 : 0));
  });
  const drawing = readFileSync(`${import.meta.dirname}/../../../src/secvm/participant/ui/static/person.svg`, "utf8");
  const shield = shades(icon(drawing, 128));
  assert.deepEqual([shield[64]![64], shield[2]![2], shield[126]![30]], [255, 0, 0]);
  assert.throws(() => icon(SQUARE.replace("v8", "q8"), 8), /command q/);
});

test("a zip file has its files in order, whatever the order they came in", () => {
  const files: [string, Uint8Array][] = [["b/ü.txt", Buffer.from("two")], ["a.txt", Buffer.from("one")]];
  const packed = zip(new Map(files));
  assert.deepEqual(packed, zip(new Map(files.reverse())));
  assert.equal(packed.indexOf("a.txt") < packed.indexOf("b/ü.txt"), true);
  assert.equal(packed.readUInt16LE(packed.length - 12), 2);
});
