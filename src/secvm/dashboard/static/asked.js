// What an experiment asks of devices, as its signed document has it.

import { el, section, swap } from "./parts.js";
import { bytes, clock, count, duration, many, percent, shortened } from "./words.js";

const ROLES = { entry: "the entry relay", mix: "the mixing relay" };

export function askedPart() {
  const body = el("div", {});
  const node = section("asked", "What is asked", {}, body);
  return { node, update: (summary, detail) => swap(body, JSON.stringify(detail), () => facts(summary, detail)) };
}

function told(name, value, text = String(value)) {
  return el("span", { "data-fact": name, "data-value": value ?? "" }, text);
}

function facts(summary, one) {
  const most = one.features_per_person ?? null;
  const rows = [
    ["Asked by", one.operator ? told("operator", one.operator) : null],
    ["Contact", one.contact ? told("contact", one.contact) : null],
    ["Invite", one.invite ? invite(one.invite) : null],
    ["Purpose", one.purpose ? told("purpose", one.purpose) : null],
    ["Features", one.features?.description ?? one.features?.source ?? null],
    ["Labels", told("labels", (one.labels ?? []).join(","), (one.labels ?? []).join(" · "))],
    ["Bins", told("bins", one.bins, count(one.bins)), hashes(one.hashes)],
    ["Features per person", told("features_per_person", most, most === null ? "all" : `at most ${count(most)}`)],
    ["Packages per round", told("budget", summary.budget, count(summary.budget)), size(one)],
    ["Floor", `${count(one.floor ?? summary.floor)} who train`],
    ["Who trains", one.train_share ? `${percent(one.train_share)} of devices; the others test` : null],
    ["Windows", one.windows ? windows(one.windows) : null],
    ["Relays", told("relays", (one.relays ?? []).length, ""), relays(one.relays ?? [])],
    ["Descent", [one.descent, one.lambda ? `λ = ${one.lambda}` : null, one.loss].filter(Boolean).join(", ") || null],
    ["Log", one.log ? log(one.log) : "none: nobody can be held to having told everybody the same"],
    ["Digest", el("code", {}, summary.digest)],
  ];
  const list = el("dl", { class: "facts" });
  for (const [name, ...values] of rows) {
    if (values[0] === null || values[0] === undefined) continue;
    list.append(el("dt", {}, name), el("dd", {}, ...values.filter((value) => value !== null)));
  }
  return list;
}

/** The line for people, and a button that copies it. @param {string} line */
function invite(line) {
  const button = el("button", { type: "button", "data-action": "copy-invite", onclick: async () => {
    // Without TLS a browser may have no clipboard for us: then the line is selected, to be copied by hand.
    try {
      await navigator.clipboard.writeText(line);
      button.textContent = "Copied";
    } catch {
      getSelection()?.selectAllChildren(code);
    }
  } }, "Copy");
  const code = el("code", { "data-fact": "invite", "data-value": line }, line);
  return el("span", {}, code, " ", button);
}

function hashes(number) {
  if (!number) return ", from a public list of words";
  return el("span", {}, ", ", told("hashes", number), number === 1 ? " hash" : " hashes");
}

function size(one) {
  const all = one.privacy?.bytes_per_round;
  return all ? `, ${bytes(all)}` : null;
}

function windows(told) {
  const long = duration(1000 * told.length_s);
  const always = (told.hours ?? []).every(([from, to]) => from === 0 && to === 24);
  const hours = (told.hours ?? []).map(([from, to]) => `${from} to ${to} o'clock`).join(", ");
  const when = always ? "at any hour" : `opening from ${hours} (${told.time_zone})`;
  const late = `late packages are taken for ${duration(1000 * (told.grace_s ?? 0))}`;
  return `${long} each, ${when}; ${late}; the first not before ${clock(told.first_opening)}`;
}

function relays(all) {
  if (!all.length) return "none: devices send unsafely, direct";
  const line = ({ url, role, operator }) =>
    el("li", {}, el("code", {}, url), role ? `, ${ROLES[role] ?? role}, run by ${operator}` : "");
  return el("ul", { class: "lines" }, all.map(line));
}

function log(one) {
  const asked = many((one.witnesses ?? []).length, "witness", "witnesses");
  const quorum = one.quorum ? `, ${count(one.quorum)} of ${asked} must cosign` : "";
  const names = one.cosigned ?? [];
  return el(
    "div",
    {},
    el("div", {}, `${one.name ?? ""}${quorum}`),
    one.size !== undefined &&
      el(
        "div",
        {},
        told("log_size", one.size, many(one.size, "entry", "entries")),
        ", cosigned by ",
        told("cosigned", names.join(","), names.join(", ") || "nobody yet"),
        ", root ",
        el("code", {}, told("log_root", one.root, shortened(one.root, 16))),
      ),
  );
}
