// The form of a new experiment as values: what stands in each field, and the specification that is made of it.
//
// One specification goes to the planner and, with the admin key, to the coordinator, so that neither can be asked for
// something else. Names of fields are those of the specification ("binning.bins"), as remarks of the planner have them.
// Numbers that its parts declare come from the server (dashboard/plan.py).
// @ts-check

import { DECLARED } from "./declared.js";

/** @typedef {Record<string, string>} State */

/** @param {string} name */
const usual = (name) => DECLARED.fields[name].default;

/** Whether the rule of this state has a constant of this name. @param {string} name @param {State} state */
export const has = (name, state) => DECLARED.rules[state["descent.rule"]]?.settings.includes(name) ?? false;

/** What stands in a field before anybody has touched it; "" is nothing. @type {State} */
export const DEFAULTS = {
  title: "",
  question: "",
  operator: "",
  contact: "",
  purpose: "",
  labels: "no, yes",
  "features.source": "history-titles",
  "features.description": "",
  "features.per_participant": "100",
  "features.presence": "yes",
  vocabulary: "20000",
  "binning.bins": "500",
  "binning.hashes": usual("binning.hashes"),
  salt: "dice",
  people: "20000",
  floor: "500",
  shares: "",
  train_share: usual("train_share"),
  rounds: "",
  "windows.length_s": "50",
  "windows.grace_s": "120",
  hours_from: "0",
  hours_to: "24",
  "windows.time_zone": "UTC",
  "windows.first_opening": "",
  early_stopping: "no",
  "descent.rule": usual("descent.rule"),
  "descent.thinning": "",
  "descent.lambda": "",
  "descent.floor": "",
  budget: "",
  privacy: "relays",
  "privacy.epsilon": usual("privacy.epsilon"),
  "privacy.delta": usual("privacy.delta"),
  "relays.entry.url": "",
  "relays.entry.operator": "",
  "relays.entry.key": "",
  "relays.mix.url": "",
  "relays.mix.operator": "",
  "relays.mix.key": "",
  "relays.url": "",
  "relays.key": "",
  test: "no",
};

/** Until beacons fix the salt: time for witnesses. */
const DELAY_S = 900;
/** Rounds without better test results. */
const PATIENCE = 10;

/** The state that an address holds. @param {URLSearchParams} query @returns {State} */
export function fromQuery(query) {
  const state = { ...DEFAULTS };
  for (const name of Object.keys(DEFAULTS)) {
    const told = query.get(name);
    if (told !== null) state[name] = told.slice(0, 2000);
  }
  return state;
}

/** What of a state an address must hold; null where it is as it was before.
 * @param {State} state @param {State} before */
export function toQuery(state, before = DEFAULTS) {
  const told = (name) => (state[name] === before[name] ? null : state[name]);
  return Object.fromEntries(Object.keys(DEFAULTS).map((name) => [name, told(name)]));
}

/** A number as JSON has it, or the text itself where it is none: the planner says so. @param {string} text */
function number(text) {
  const told = text.trim().replaceAll(/[\s_]/g, "");
  return told !== "" && Number.isFinite(Number(told)) ? Number(told) : text.trim();
}

/** Per cent as an exact share: "70" is 7/10 and not 0.7. @param {string} text */
function share(text) {
  const told = text.trim();
  if (!/^[0-9]{1,6}(\.[0-9]{1,6})?$/.test(told)) return told === "" ? "" : told;
  const [whole, part = ""] = told.split(".");
  return `${Number(whole + part)}/${10 ** (2 + part.length)}`;
}

/** @param {Record<string, any>} content What is empty was not said. */
function said(content) {
  return Object.fromEntries(Object.entries(content).filter(([, value]) => value !== "" && value !== undefined));
}

/** @param {string} text */
function list(text) {
  return text.split(",").map((part) => part.trim()).filter(Boolean);
}

/** What names relays in this state: their fields begin so. @param {State} state */
function places(state) {
  return state.privacy === "relays" ? ["relays.entry", "relays.mix"] : ["relays"];
}

/** Relays as far as they are filled in. @param {State} state */
function relays(state) {
  return places(state).map((place) => {
    const role = place.split(".")[1];
    const one = { url: state[`${place}.url`].trim(), key: state[`${place}.key`].trim() };
    if (!role) return said(one);
    return said({ role, ...one, operator: state[`${place}.operator`].trim() });
  });
}

/** The specification. @param {State} state */
export function specification(state) {
  const guaranteed = state.privacy === "relays";
  const opens = state["windows.first_opening"] && new Date(state["windows.first_opening"]).getTime();
  const named = relays(state).filter((one) => one.role || one.url || one.key);
  const length = number(state["windows.length_s"]);
  return said({
    title: state.title.trim(),
    question: state.question.trim(),
    operator: state.operator.trim(),
    contact: state.contact.trim(),
    purpose: state.purpose.trim(),
    labels: list(state.labels),
    people: number(state.people),
    floor: number(state.floor),
    rounds: number(state.rounds),
    budget: guaranteed ? undefined : number(state.budget),
    train_share: share(state.train_share),
    features: said({
      source: state["features.source"].trim(),
      description: state["features.description"].trim(),
      presence: state["features.presence"] === "yes",
      per_participant: number(state["features.per_participant"]),
    }),
    binning: said({
      bins: number(state["binning.bins"]),
      hashes: number(state["binning.hashes"]),
      beacon_delay_s: state.salt === "beacons" ? DELAY_S : undefined,
    }),
    windows: said({
      // The form has minutes, as people plan; a round is told in seconds.
      length_s: typeof length === "number" ? Math.round(60 * length) : length,
      grace_s: number(state["windows.grace_s"]),
      hours: [[number(state.hours_from), number(state.hours_to)]],
      time_zone: state["windows.time_zone"].trim(),
      first_opening: opens || undefined,
    }),
    descent: said({
      rule: state["descent.rule"],
      thinning: number(state["descent.thinning"]),
      lambda: has("lambda", state) ? number(state["descent.lambda"]) : undefined,
      floor: has("floor", state) && guaranteed ? number(state["descent.floor"]) : undefined,
    }),
    early_stopping: state.early_stopping === "yes" ? { patience: PATIENCE } : undefined,
    relays: named.length ? named : undefined,
    privacy: guaranteed
      ? said({ epsilon: number(state["privacy.epsilon"]), delta: number(state["privacy.delta"]) })
      : "none",
    test: state.test === "yes" ? true : undefined,
  });
}

/** What the planner is asked. A relay counts whose address is to come later.
 * @param {State} state @param {"quick"|"guarantee"} part @param {boolean} logged */
export function planRequest(state, part, logged) {
  const labels = list(state.labels);
  const shares = list(state.shares).map((one) => Number(one) / 100);
  const asked = specification(state);
  asked.relays ??= state.test === "yes" ? undefined : [{}];
  return said({
    specification: asked,
    vocabulary: state.vocabulary.trim() === "" ? undefined : number(state.vocabulary),
    shares: shares.length && shares.every(Number.isFinite)
      ? Object.fromEntries(labels.map((label, i) => [label, shares[i] ?? 0]))
      : undefined,
    logged,
    part,
  });
}

/** What must be there before anything is created, though no plan needs it: [field, sentence]. @param {State} state */
export function missing(state) {
  const found = [];
  if (!state.title.trim()) found.push(["title", "People see this first: give it a title."]);
  if (!state["features.source"].trim()) found.push(["features.source", "Say what devices look at."]);
  const test = state.test === "yes";
  const asker = [["operator", "who asks them"], ["contact", "how to reach you"], ["purpose", "what for"]];
  for (const [name, what] of asker) {
    if (!test && !state[name].trim()) found.push([name, `People are told ${what}; only a test may leave it out.`]);
  }
  const begins = test ? /^https?:\/\/\S+$/ : /^https:\/\/\S+$/;
  for (const place of places(state)) {
    const [url, key, operator] = ["url", "key", "operator"].map((name) => state[`${place}.${name}`]?.trim());
    if (operator === undefined && test && !url && !key) continue;
    if (!begins.test(url)) found.push([`${place}.url`, "A relay's address begins with https; only a test's may not."]);
    if (operator === "") found.push([`${place}.operator`, "Say who runs it: people decide by that."]);
    if (!/^[0-9a-f]{64}$/i.test(key)) {
      found.push([`${place}.key`, "A relay's key has 64 hexadecimal digits: secvm relay key shows it."]);
    }
  }
  return found;
}
