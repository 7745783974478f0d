/** The descent rules by name: the one place that says which there are. */

import { BadExperimentError } from "../../../errors.ts";
import { find } from "../../declared.ts";
import { Pegasos } from "./pegasos.ts";
import type { DescentRule } from "./rule.ts";
import { Swift } from "./swift.ts";

/** Rules by name, as experiments say it. */
export const RULES: ReadonlyMap<string, typeof Pegasos | typeof Swift> = new Map<string, typeof Pegasos | typeof Swift>(
  [["pegasos", Pegasos], ["swift", Swift]],
);

/** The rule that a published experiment names, with all its constants: what is published leans on no default. */
export function ruleByName(name: string, constants: { readonly [name: string]: unknown }): DescentRule {
  const kind = find(RULES, name, "descent rule");
  const required = [...kind.settings].filter(([, setting]) => !setting.optional).map(([constant]) => constant);
  const missing = required.filter((constant) => !(constant in constants));
  if (missing.length) {
    throw new BadExperimentError(`the rule ${name} is published without ${missing.join(", ")}`);
  }
  return kind === Swift ? Swift.read(constants) : Pegasos.read(constants);
}
