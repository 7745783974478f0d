/**
 * Icons as PNG, drawn from the path of an SVG of one colour. Chromium takes no SVG for an icon.
 *
 * A pixel is how much of it the shape covers. Nothing is compressed, so the bytes are the same with every zlib.
 */

import { crc32 } from "node:zlib";

type Point = readonly [x: number, y: number];

/** Points in each pixel, in either direction, at which it is looked whether the shape is there. */
const LOOKS = 8;
const STEPS_OF_A_CURVE = 16;
const SIDE_OF_VIEW = 16;

/** The square icon of this side. */
export function icon(svg: string, side: number): Buffer {
  const [, colour, path] = /fill="#([0-9a-f]{6})" d="([^"]+)"/.exec(svg) ?? [];
  if (colour === undefined || path === undefined) throw new Error("the icon's SVG has no path of one colour");
  const outline = outlineOf(path).map(([x, y]): Point => [(x * side) / SIDE_OF_VIEW, (y * side) / SIDE_OF_VIEW]);
  const rows: number[] = [];
  for (let y = 0; y < side; y++) {
    rows.push(0);
    for (let x = 0; x < side; x++) rows.push(coverage(outline, x, y));
  }
  const shades = Array.from({ length: 256 }, (_, shade) => shade);
  return Buffer.concat([
    Buffer.from("\x89PNG\r\n\x1a\n", "latin1"),
    chunk("IHDR", Buffer.concat([bigEndian(side), bigEndian(side), Buffer.of(8, 3, 0, 0, 0)])),
    chunk("PLTE", Buffer.concat(shades.map(() => Buffer.from(colour, "hex")))),
    chunk("tRNS", Buffer.from(shades)),
    chunk("IDAT", stored(Buffer.from(rows))),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

/** How much of a pixel is inside, 0 to 255. */
function coverage(outline: readonly Point[], x: number, y: number): number {
  let inside = 0;
  for (let i = 0; i < LOOKS * LOOKS; i++) {
    const look: Point = [x + ((i % LOOKS) + 0.5) / LOOKS, y + (Math.floor(i / LOOKS) + 0.5) / LOOKS];
    if (isInside(outline, look)) inside += 1;
  }
  return Math.round((inside * 255) / (LOOKS * LOOKS));
}

function isInside(outline: readonly Point[], [x, y]: Point): boolean {
  let inside = false;
  outline.forEach(([x1, y1], i) => {
    const [x2, y2] = outline[(i + 1) % outline.length]!;
    if (y1 > y !== y2 > y && x < x1 + ((y - y1) * (x2 - x1)) / (y2 - y1)) inside = !inside;
  });
  return inside;
}

/** The corners of a path of the commands M, l, v, c, V and z. */
function outlineOf(path: string): Point[] {
  const outline: Point[] = [];
  let [x, y] = [0, 0];
  const go = (to: Point): void => {
    [x, y] = to;
    outline.push(to);
  };
  for (const [, command, rest] of path.matchAll(/([A-Za-z])([^A-Za-z]*)/g)) {
    const given = (rest!.match(/-?[0-9.]+/g) ?? []).map(Number);
    const [a = 0, b = 0] = given;
    if (command === "M") go([a, b]);
    else if (command === "l") go([x + a, y + b]);
    else if (command === "v") go([x, y + a]);
    else if (command === "V") go([x, a]);
    else if (command === "c") {
      for (let i = 0; i < given.length; i += 6) curve([x, y], given.slice(i, i + 6)).forEach(go);
    } else if (command !== "z") throw new Error(`the icon's path has the command ${command}, which is not drawn`);
  }
  return outline;
}

/** Points of a cubic curve that begins here. */
function curve([x, y]: Point, given: readonly number[]): Point[] {
  const [x1, y1, x2, y2, x3, y3] = given as [number, number, number, number, number, number];
  const at = (t: number, a: number, b: number, c: number): number =>
    3 * (1 - t) ** 2 * t * a + 3 * (1 - t) * t ** 2 * b + t ** 3 * c;
  return Array.from({ length: STEPS_OF_A_CURVE }, (_, i) => {
    const t = (i + 1) / STEPS_OF_A_CURVE;
    return [x + at(t, x1, x2, x3), y + at(t, y1, y2, y3)] as const;
  });
}

/** Bytes as zlib writes them that compresses nothing. */
function stored(data: Buffer): Buffer {
  const blocks: Buffer[] = [Buffer.of(0x78, 0x01)];
  for (let at = 0; at < data.length; at += 0xffff) {
    const block = data.subarray(at, at + 0xffff);
    const head = Buffer.alloc(5);
    head.writeUInt8(at + block.length === data.length ? 1 : 0);
    head.writeUInt16LE(block.length, 1);
    head.writeUInt16LE(block.length ^ 0xffff, 3);
    blocks.push(head, block);
  }
  let [low, high] = [1, 0];
  for (const byte of data) {
    low = (low + byte) % 65_521;
    high = (high + low) % 65_521;
  }
  return Buffer.concat([...blocks, bigEndian(high * 65_536 + low)]);
}

function chunk(kind: string, content: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(kind, "latin1"), content]);
  return Buffer.concat([bigEndian(content.length), named, bigEndian(crc32(named))]);
}

function bigEndian(value: number): Buffer {
  const written = Buffer.alloc(4);
  written.writeUInt32BE(value);
  return written;
}
