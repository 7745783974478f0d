/**
 * A zip file whose bytes follow from its content alone: names in order, no time, nothing compressed.
 *
 * Both stores compress a package anew. Stored files make it the same with every version of zlib.
 */

import { crc32 } from "node:zlib";

const UTF8_NAMES = 0x0800;
const VERSION = 20;
/** 1980-01-01, the first day that a zip file knows. */
const [TIME, DATE] = [0, 0x21];

/** The zip file of these files, by name. */
export function zip(files: ReadonlyMap<string, Uint8Array>): Buffer {
  const [parts, directory]: [Buffer[], Buffer[]] = [[], []];
  let offset = 0;
  for (const [name, content] of [...files].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const path = Buffer.from(name);
    const common = numbers([VERSION, 2], [UTF8_NAMES, 2], [0, 2], [TIME, 2], [DATE, 2], [crc32(content), 4]);
    const sizes = numbers([content.length, 4], [content.length, 4], [path.length, 2], [0, 2]);
    const local = Buffer.concat([numbers([0x04034b50, 4]), common, sizes, path, content]);
    const rest = numbers([0, 2], [0, 2], [0, 2], [0, 4], [offset, 4]);
    directory.push(numbers([0x02014b50, 4], [VERSION, 2]), common, sizes, rest, path);
    parts.push(local);
    offset += local.length;
  }
  const index = Buffer.concat(directory);
  const counts = numbers([0, 2], [0, 2], [files.size, 2], [files.size, 2]);
  const end = numbers([index.length, 4], [offset, 4], [0, 2]);
  return Buffer.concat([...parts, index, numbers([0x06054b50, 4]), counts, end]);
}

/** Numbers of so many bytes each, the least significant first. */
function numbers(...values: readonly (readonly [value: number, size: number])[]): Buffer {
  const written = Buffer.alloc(values.reduce((sum, [, size]) => sum + size, 0));
  let at = 0;
  for (const [value, size] of values) at = written.writeUIntLE(value, at, size);
  return written;
}
