// Fields of the form for a new experiment: label, help, input and room for one refusal each, in groups.
// @ts-check

import { DECLARED } from "./declared.js";
import { has } from "./new_specification.js";
import { el, reveal, write } from "./parts.js";

/** @typedef {{name: string, label: string, hint?: string, kind?: string, unit?: string, options?: [string, string][],
 *   step?: string, min?: string, wide?: boolean, when?: (state: Record<string, string>) => boolean}} Asked */

const hint = (name) => DECLARED.fields[name].hint;
const guaranteed = (state) => state.privacy === "relays";
const plain = (state) => !guaranteed(state);

const ROLES = {
  entry: ["Entry relay", "Takes packages in: it knows who sends, and cannot open."],
  mix: ["Mixing relay", "Opens the outer layer: it knows neither who sends nor what."],
};

/** What is asked of one of two relays. @param {string} role @returns {Asked[]} */
function ofRole(role) {
  const [label, hint] = ROLES[role];
  return [
    { name: `relays.${role}.url`, label: `${label}: address`, kind: "url", wide: true, when: guaranteed, hint },
    { name: `relays.${role}.operator`, label: `${label}: who runs it`, wide: true, when: guaranteed,
      hint: "Neither you nor who runs the other: it holds as long as one of them is honest." },
    { name: `relays.${role}.key`, label: `${label}: its key`, wide: true, when: guaranteed,
      hint: "64 hexadecimal digits." },
  ];
}

/** All groups in their order. @type {{title: string, fields: Asked[]}[]} */
export const GROUPS = [
  {
    title: "The question",
    fields: [
      { name: "title", label: "Title", hint: "People see it when they are asked to take part.", wide: true },
      { name: "question", label: "Question to the person", hint: "Their answer is the label.", wide: true },
      { name: "operator", label: "Who asks", hint: "The name of who runs this experiment. People see it first." },
      { name: "contact", label: "How to reach you", hint: "An address for questions and complaints." },
      { name: "purpose", label: "What for", hint: "In a sentence: what the answer is used for.", wide: true },
      { name: "labels", label: "Labels", hint: "Two or more, with commas between them.", wide: true },
      { name: "features.source", label: "Devices look at", hint: "A source on the device, such as history-titles." },
      { name: "features.description", label: "In words", hint: "What that is, for the person.", wide: true },
    ],
  },
  {
    title: "Privacy",
    fields: [
      {
        name: "privacy",
        label: "Protection",
        kind: "radio",
        options: [
          ["relays", "A formal guarantee (ε, δ), by two relays' cover"],
          ["none", "None: the paper's own system, in which whoever chooses the weights can tell every label"],
        ],
        wide: true,
      },
      { name: "privacy.epsilon", label: "ε", kind: "number", step: "any", when: guaranteed,
        hint: hint("privacy.epsilon") },
      { name: "privacy.delta", label: "δ", kind: "number", step: "any", when: guaranteed,
        hint: hint("privacy.delta") },
    ],
  },
  {
    title: "People",
    fields: [
      { name: "people", label: "Participants expected", kind: "number", min: "1",
        hint: "In a round, those who test included." },
      { name: "floor", label: "Floor", kind: "number", min: "1",
        hint: "From fewer who train no step is taken." },
      { name: "train_share", label: "Share that trains", kind: "number", unit: "%", step: "any",
        hint: "The others test the model." },
      { name: "shares", label: "Shares of the labels", unit: "%",
        hint: "In the order of the labels, with commas, if you know them. Rare labels hide less." },
    ],
  },
  {
    title: "Features and bins",
    fields: [
      { name: "binning.bins", label: "Bins", kind: "number", min: "1", hint: hint("binning.bins") },
      { name: "features.per_participant", label: "Features per person", kind: "number", min: "1",
        hint: "F: at most so many of a person, drawn once. Empty: all." },
      { name: "binning.hashes", label: "Hashes of a feature", kind: "number", min: "1" },
      { name: "vocabulary", label: "Different features", kind: "number", min: "1",
        hint: "That there are, for the planner alone: how many share a bin." },
      { name: "features.presence", label: "A feature counts once, however often it occurs", kind: "checkbox" },
      { name: "salt", label: "Salt of the hash", kind: "select",
        options: [["dice", "by the coordinator"], ["beacons", "by public beacons"]],
        hint: "Who draws it. Beacons, 15 minutes from now, need a log; nobody can have chosen them." },
    ],
  },
  {
    title: "Rounds",
    fields: [
      { name: "rounds", label: "Rounds", kind: "number", min: "1",
        hint: "Each of them tells something: take few. Empty, with a guarantee: as many as fit the noise." },
      { name: "windows.length_s", label: "Window", kind: "number", unit: "minutes", step: "any",
        hint: "In it devices send, each package at a random instant." },
      { name: "windows.grace_s", label: "Grace", kind: "number", unit: "seconds", min: "0",
        hint: "For what was sent in time and arrives late." },
      { name: "windows.first_opening", label: "First window opens", kind: "datetime-local", hint: "Empty: at once." },
      { name: "hours_from", label: "Open from", kind: "number", unit: "hour", min: "0" },
      { name: "hours_to", label: "Open until", kind: "number", unit: "hour", min: "1" },
      { name: "windows.time_zone", label: "Time zone", hint: "Of these hours, such as Europe/Berlin." },
      { name: "early_stopping", label: "End early when test results no longer get better", kind: "checkbox" },
    ],
  },
  {
    title: "Learning",
    fields: [
      { name: "descent.rule", label: "Descent", kind: "select",
        options: Object.entries(DECLARED.rules).map(([name, { about }]) => [name, `${name}: ${about}`]) },
      { name: "descent.thinning", label: "Thinning",
        hint: "A number is ρ: about ρ·√F packages are sent; q=1/10 a share, or none. Empty: as it fits." },
      { name: "descent.lambda", label: "λ", hint: hint("descent.lambda"),
        when: (state) => has("lambda", state) },
      { name: "descent.floor", label: "Floor of the popularity", hint: "Empty: as it fits the noise.",
        when: (state) => has("floor", state) && guaranteed(state) },
      { name: "budget", label: "Packages per round (B)", kind: "number", min: "2",
        hint: "Empty: as many as are needed. Everybody sends exactly so many.", when: plain },
    ],
  },
  {
    title: "Relays",
    fields: [
      ...["entry", "mix"].flatMap(ofRole),
      { name: "relays.url", label: "Address", kind: "url", wide: true, when: plain,
        hint: "Run by somebody else. It holds what devices send until a round's window is over." },
      { name: "relays.key", label: "Its key", hint: "64 hexadecimal digits.", wide: true, when: plain },
      { name: "test", label: "This is a test, without people", kind: "checkbox" },
    ],
  },
];

/** One field; `take(name, value)` hears every change. */
export class Field {
  /** @param {Asked} asked @param {(name: string, value: string, settled: boolean) => void} take */
  constructor(asked, take) {
    this.asked = asked;
    this.id = `new-${asked.name.replaceAll(".", "-")}`;
    this.error = el("p", { class: "error", id: `${this.id}-error`, hidden: true });
    this.hint = asked.hint ? el("p", { class: "hint", id: `${this.id}-hint` }, asked.hint) : null;
    this.take = (value, settled) => take(asked.name, value, settled);
    this.node = asked.kind === "radio" ? this.#radios() : this.#single();
    this.node.classList.toggle("wide", Boolean(asked.wide));
  }

  #described() {
    return [this.hint && this.hint.id, this.error.id].filter(Boolean).join(" ");
  }

  #single() {
    const { name, label, kind = "text", unit, options, step, min } = this.asked;
    const common = { id: this.id, name, "aria-describedby": this.#described(), "data-field": name };
    if (kind === "select") {
      this.input = el("select", common, ...options.map(([value, text]) => el("option", { value }, text)));
    } else {
      const mode = kind === "number" ? { inputmode: step ? "decimal" : "numeric", step: step ?? "1", min } : {};
      this.input = el("input", { ...common, type: kind, autocomplete: "off", spellcheck: "false", ...mode });
    }
    const box = kind === "checkbox";
    const value = () => (box ? (this.input.checked ? "yes" : "no") : this.input.value);
    this.input.addEventListener("input", () => this.take(value(), false));
    this.input.addEventListener("change", () => this.take(value(), true));
    this.inputs = [this.input];
    const text = el("label", { for: this.id }, label, unit ? el("span", { class: "unit" }, ` (${unit})`) : null);
    const body = box ? [el("div", { class: "choice" }, this.input, text)] : [text, this.input];
    return el("div", { class: "field" }, ...body, this.hint, this.error);
  }

  #radios() {
    const { name, label, options } = this.asked;
    this.inputs = options.map(([value]) =>
      el("input", { type: "radio", name, value, id: `${this.id}-${value}`, "data-field": name,
        "aria-describedby": this.#described(), onchange: () => this.take(value, true) }));
    this.input = this.inputs[0];
    const rows = options.map(([, text], i) =>
      el("div", { class: "choice" }, this.inputs[i], el("label", { for: this.inputs[i].id }, text)));
    return el("div", { class: "field", role: "radiogroup", "aria-label": label }, ...rows, this.hint, this.error);
  }

  /** Put a value in, and say whether the field has a place now. @param {Record<string, string>} state */
  fill(state) {
    const value = state[this.asked.name];
    for (const input of this.inputs) {
      if (input.type === "radio") input.checked = input.value === value;
      else if (input.type === "checkbox") input.checked = value === "yes";
      else if (input.value !== value) input.value = value;
    }
    this.apply(state);
  }

  /** @param {Record<string, string>} state */
  apply(state) {
    reveal(this.node, this.asked.when?.(state) ?? true);
  }

  /** One sentence of what is wrong; "" is nothing. @param {string} sentence */
  refuse(sentence) {
    write(this.error, sentence);
    reveal(this.error, sentence !== "");
    for (const input of this.inputs) {
      if (sentence) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    }
  }
}
