// Experiments that this device takes part in: what was sent, what will be, what was checked, and what can be done.
// @ts-check
import { dayStrip } from "./day.js";
import { close, show, tried } from "./dialogs.js";
import { number, said, t } from "./language.js";
import { button, el, folded, sentences, size } from "./parts.js";
import { act } from "./talk.js";

/** @typedef {(said: string) => Promise<void>} Done says what was done, and looks again */

/** @param {any} one @returns {[string, string]} name and kind of its badge */
export function standing(one) {
  if (one.convicted) return ["convicted", "bad"];
  if (one.status === "forgotten") return ["left", ""];
  if (one.ended) return ["over", ""];
  if (one.status === "paused") return ["paused", "fair"];
  return one.distrust === null ? ["taking", "good"] : ["waiting", "fair"];
}

/** What goes on comes first. @param {any} one */
export const rank = (one) => ["taking", "waiting", "paused"].indexOf(standing(one)[0]) >>> 0;

/** @param {any} one @param {any} state @param {Done} done */
export function experimentPanel(one, state, done) {
  const [name, kind] = standing(one);
  const key = one.digest.slice(0, 12);
  return el("article", { class: "panel experiment", "data-experiment": one.digest, "aria-labelledby": `title-${key}` },
    el("header", {}, el("h3", { id: `title-${key}` }, one.title),
      el("span", { class: `badge ${kind}` }, t(`standing.${name}`))),
    el("p", { class: "asks soft" }, one.asks.map(said).join(" ")),
    el("p", { class: "question soft" }, one.question),
    el("p", { class: "means" }, said(one.means)),
    one.trouble ? el("p", { class: "notice fair", "data-trouble": one.trouble.key }, said(one.trouble)) : null,
    el("p", { class: "risk", "data-times": one.risk.values.times ?? 10 }, said(one.risk)),
    el("div", { class: "counts" },
      count(one.rounds.length, t("count.rounds", { n: one.rounds_planned }), "rounds"),
      count(one.acknowledged, t("count.acknowledged"), "acknowledged"),
      count(one.waiting, t("count.waiting"), "waiting"),
      count(one.lost, t("count.lost"), "lost")),
    name === "taking" ? dayStrip(one, state.now) : null,
    actions(one, state, done, key),
    rounds(one, key),
    folded(`${key}:leaves`, t("fold.leaves"), sentences(one.leaves)),
    folded(`${key}:figures`, t("fold.figures"), sentences(one.figures)),
    folded(`${key}:checked`, t("fold.checked"), sentences(one.checked)),
    folded(`${key}:who`, t("fold.who"), who(one)));
}

/** @param {number} value @param {string} words @param {string} name */
const count = (value, words, name) =>
  el("div", { "data-count": name }, el("b", {}, number(value)), el("span", {}, words));

/** @param {any} one @param {any} state @param {Done} done @param {string} key */
function actions(one, state, done, key) {
  const made = [];
  const over = one.ended || one.status === "forgotten";
  if (!over && one.status === "joined" && one.distrust === null && !one.convicted) {
    made.push(button(`${key}:pause`, t("act.pause"), () => tried(async () => {
      await act("pause", { digest: one.digest });
      await done(t("done.paused", { title: one.title }));
    })));
  }
  if (!over && !one.convicted && (one.status === "paused" || one.distrust !== null)) {
    made.push(button(`${key}:resume`, t("act.resume"), () => tried(async () => {
      await act("resume", { digest: one.digest });
      await done(t("done.resumed", { title: one.title }));
    }), "primary"));
  }
  if (one.model_round !== null && one.status !== "forgotten") {
    made.push(button(`${key}:predict`, t("act.predict"), () => tried(async () => predict(one))));
  }
  if (one.status !== "forgotten") {
    made.push(button(`${key}:forget`, t("act.forget"), () => forget(one, state, done), "danger"));
  }
  return el("div", { class: "actions" }, ...made);
}

/** @param {any} one */
async function predict(one) {
  const found = await (await act("predict", { digest: one.digest })).json();
  show(t("predict.title"), [
    el("p", {}, t("predict.model", { round: found.round })),
    el("p", { class: "answer" }, found.label),
    found.margin === null ? null : el("p", { class: "soft" },
      t(found.margin >= 1 ? "predict.clear" : "predict.unsure")),
    el("p", { class: "small-print" }, t("predict.here")),
  ]);
}

/** @param {any} one @param {any} state @param {Done} done */
function forget(one, state, done) {
  show(t("forget.title", { title: one.title }), [
    el("p", {}, t("forget.means")),
    sentences(["sent", "ledger", "gone", "stays"].map((name) => t(`forget.${name}`))),
  ], [button("forget-now", t("forget.now"), () => tried(async () => {
    await act("forget", { digest: one.digest });
    close();
    await done(t("done.forgotten", { title: one.title }));
  }), "danger primary")]);
}

/** @param {any} one @param {string} key */
function rounds(one, key) {
  if (!one.rounds.length && !one.abstentions.length) return null;
  const head = ["round", "packages", "arrived", "lost"].map((name) => t(`rounds.${name}`));
  const cell = (/** @type {number} */ value) => el("td", { class: "number" }, number(value));
  const rows = [...one.rounds].reverse().slice(0, 200).map((/** @type {any} */ row) => el("tr", {},
    ...[row.round, row.packages, row.acknowledged, row.lost].map(cell),
    el("td", {}, row.unopened ? t("rounds.unopened") : "")));
  const ended = (/** @type {string} */ text) => (/[.!?]$/.test(text) ? text : `${text}.`);
  const left = one.abstentions.map((/** @type {any} */ was) => t("rounds.why", { round: was.round, why: ended(said(
    { key: `why.${was.reason}`, values: { sentence: was.sentence }, text: was.sentence })) }));
  return folded(`${key}:rounds`, t("fold.rounds"),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("rounds.region") },
      el("table", {},
        el("thead", {}, el("tr", {}, ...head.map((name) => el("th", { scope: "col", class: "number" }, name)),
          el("td", {}))),
        el("tbody", {}, ...rows))),
    left.length ? el("p", {}, t("rounds.without")) : null,
    left.length ? sentences(left) : null);
}

/** @param {any} one */
export function who(one) {
  const list = (/** @type {string[]} */ names) => (names.length ? names.join(", ") : t("who.none"));
  const row = (/** @type {string} */ name, /** @type {Node | string} */ value) =>
    [el("dt", {}, t(`who.${name}`)), el("dd", {}, value)];
  return el("dl", { class: "facts who" },
    ...row("looks", t("who.looks.at", one)),
    ...row("each", t("who.packages", { n: one.packages_a_round, size: size(one.bytes_a_round) })),
    ...row("relays", list(one.who.relays)),
    ...row("witnesses", list(one.who.witnesses)),
    ...row("log", one.who.log ?? t("who.none")),
    ...row("key", list(one.who.coordinator)),
    ...(one.who.note ? row("note", one.who.note) : []),
    ...row("name", el("code", {}, one.digest)));
}
