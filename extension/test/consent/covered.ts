/** Experiments with two relays whose noise is worth something, and less of it. */

import type { Bytes } from "../../src/bytes.ts";
import type { ExperimentDocument } from "../../src/protocol/documents/experiment.ts";
import { published } from "../person/world.ts";

interface Changes {
  readonly odds?: string;
  readonly epsilon?: string;
  readonly delta?: string;
  readonly [field: string]: unknown;
}

/** One round of it comes to an ε of about a third. */
export function covered({ odds = "3", epsilon = "4", delta = "1/1000000", ...more }: Changes = {}): [ExperimentDocument, Bytes] {
  const noise = { odds, shape: "100" };
  const privacy = {
    ...{ delta, epsilon, kind: "relays", packages: 40_000, parts: 4 },
    ...{ participation: noise, test: noise, train: noise },
  };
  return published({ privacy, rounds: 20, ...more });
}
