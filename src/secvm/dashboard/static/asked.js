// What an experiment asks of devices, as its signed document has it.

import { el, swap } from "./parts.js";
import { bytes, clock, count, duration, many, percent, shortened } from "./words.js";

const MODES = {
  round: "shuffles each round as a whole",
  interval: "holds back and shuffles for a while",
  forward: "hands on at once",
};

export function askedPart() {
  const body = el("div", {});
  const node = el(
    "section",
    { "aria-labelledby": "asked-title" },
    el("h2", { id: "asked-title" }, "What is asked"),
    body,
  );
  return { node, update: (summary, detail) => swap(body, JSON.stringify(detail), () => facts(summary, detail)) };
}

function told(name, value, text = String(value)) {
  return el("span", { "data-fact": name, "data-value": value ?? "" }, text);
}

function facts(summary, one) {
  const rows = [
    ["Features", one.features?.description ?? one.features?.source ?? null],
    ["Labels", told("labels", (one.labels ?? []).join(","), (one.labels ?? []).join(" · "))],
    ["Bins", told("bins", one.bins, count(one.bins)), one.hashes ? el("span", {}, ", ", told("hashes", one.hashes), one.hashes === 1 ? " hash" : " hashes") : ", from a public list of words"],
    ["Features per person", one.features_per_person === null ? "all" : told("features_per_person", one.features_per_person, `at most ${count(one.features_per_person)}`)],
    ["Packages per round", told("budget", one.budget ?? summary.budget, count(one.budget ?? summary.budget)), size(one)],
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

function size(one) {
  const all = one.privacy?.bytes_per_round ?? one.privacy?.cover?.bytes_per_round;
  return all ? `, ${bytes(all)}` : null;
}

function windows(told) {
  const long = duration(1000 * told.length_s);
  const always = (told.hours ?? []).every(([from, to]) => from === 0 && to === 24);
  const hours = (told.hours ?? []).map(([from, to]) => `${from} to ${to} o'clock`).join(", ");
  const when = always ? "at any hour" : `opening from ${hours} (${told.time_zone})`;
  return `${long} each, ${when}; late packages are taken for ${duration(1000 * (told.grace_s ?? 0))}; the first not before ${clock(told.first_opening)}`;
}

function relays(all) {
  if (!all.length) return "none: devices send unsafely, direct";
  return el("ul", { class: "lines" }, all.map((one) => el("li", {}, el("code", {}, one.url), one.mode ? `, ${MODES[one.mode] ?? one.mode}` : "")));
}

function log(one) {
  const quorum = one.quorum ? `, ${count(one.quorum)} of ${many((one.witnesses ?? []).length, "witness", "witnesses")} must cosign` : "";
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
