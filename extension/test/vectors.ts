/** The test vectors, from `vectors/v2`. */

import { readFileSync } from "node:fs";

/* Vectors are checked by what is compared, not by types. */
export type Vector = any;

export function vectors(name: string): Vector {
  return JSON.parse(readFileSync(new URL(`../../vectors/v2/${name}.json`, import.meta.url), "utf8"));
}
