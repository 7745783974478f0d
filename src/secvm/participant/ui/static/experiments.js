// Experiments that this device takes part in: what was sent, what will be, what was checked, and what can be done.
// @ts-check
import { dayStrip } from "./day.js";
import { close, show, tried } from "./dialogs.js";
import { atMost, button, counted, el, folded, sentences, size } from "./parts.js";
import { act } from "./talk.js";

/** @typedef {(said: string) => Promise<void>} Done says what was done, and looks again */

/** @param {any} one @returns {[string, string]} words and kind of its badge */
export function standing(one) {
  if (one.convicted) return ["stopped: it cheated", "bad"];
  if (one.status === "forgotten") return ["left", ""];
  if (one.ended) return ["over", ""];
  if (one.status === "paused") return ["paused", "fair"];
  return one.distrust === null ? ["taking part", "good"] : ["waiting for you", "fair"];
}

/** What goes on comes first. @param {any} one */
export const rank = (one) => ["taking part", "waiting for you", "paused"].indexOf(standing(one)[0]) >>> 0;

/** @param {any} one @param {any} state @param {Done} done */
export function experimentPanel(one, state, done) {
  const [words, kind] = standing(one);
  const key = one.digest.slice(0, 12);
  return el("article", { class: "panel experiment", "data-experiment": one.digest, "aria-labelledby": `title-${key}` },
    el("header", {}, el("h3", { id: `title-${key}` }, one.title), el("span", { class: `badge ${kind}` }, words)),
    el("p", { class: "asks soft" }, one.asks.join(" ")),
    el("p", { class: "question soft" }, one.question),
    el("p", { class: "means" }, one.means),
    el("div", { class: "counts" },
      count(one.rounds.length, `of ${counted(one.rounds_planned, "round")} joined`, "rounds"),
      count(one.acknowledged, "packages sent, and arrived", "acknowledged"),
      count(one.waiting, "packages waiting to be sent", "waiting"),
      count(one.lost, "given up when time ran out", "lost")),
    words === "taking part" ? dayStrip(one, state.now) : null,
    actions(one, state, done, key),
    rounds(one, key),
    folded(`${key}:leaves`, "What leaves your device, and what it tells", sentences([...one.leaves, ...spent(one)])),
    folded(`${key}:risk`, "The risk, as your device calculates it", sentences(one.risk)),
    folded(`${key}:checked`, "What your device has checked of the server", sentences(one.checked)),
    folded(`${key}:who`, "What it looks at, and who carries it", who(one)));
}

/** @param {number} number @param {string} words @param {string} name */
const count = (number, words, name) =>
  el("div", { "data-count": name }, el("b", {}, number.toLocaleString("en")), el("span", {}, words));

/** @param {any} one @param {any} state @param {Done} done @param {string} key */
function actions(one, state, done, key) {
  const made = [];
  const over = one.ended || one.status === "forgotten";
  if (!over && one.status === "joined" && one.distrust === null && !one.convicted) {
    made.push(button(`${key}:pause`, "Pause", () => tried(async () => {
      await act("pause", { digest: one.digest });
      await done(`Paused: ${one.title}`);
    })));
  }
  if (!over && !one.convicted && (one.status === "paused" || one.distrust !== null)) {
    made.push(button(`${key}:resume`, "Go on", () => tried(async () => {
      await act("resume", { digest: one.digest });
      await done(`Your device goes on with: ${one.title}`);
    }), "primary"));
  }
  if (one.model_round !== null && one.status !== "forgotten") {
    made.push(button(`${key}:predict`, "What does it say about me?", () => tried(async () => predict(one))));
  }
  if (one.status !== "forgotten") {
    made.push(button(`${key}:forget`, "Leave and forget …", () => forget(one, state, done), "danger"));
  }
  return el("div", { class: "actions" }, ...made);
}

/** @param {any} one */
async function predict(one) {
  const found = await (await act("predict", { digest: one.digest })).json();
  show("What the model says about you", [
    el("p", {}, `By the newest model that your device believes (after round ${found.round}):`),
    el("p", { class: "answer" }, found.label),
    found.margin === null ? null : el("p", { class: "soft" },
      found.margin >= 1 ? "It says so clearly." : "It is not sure: it says so by a narrow margin."),
    el("p", { class: "small-print" }, "Computed here, from your own features. Nothing was sent."),
  ]);
}

/** @param {any} one @param {any} state @param {Done} done */
function forget(one, state, done) {
  show(`Leave “${one.title}”?`, [
    el("p", {}, "Your device will take no part any more, and forget what it knows of you for this experiment."),
    sentences(state.forgetting),
  ], [button("forget-now", "Leave and forget", () => tried(async () => {
    await act("forget", { digest: one.digest });
    close();
    await done(`Left and forgotten: ${one.title}`);
  }), "danger primary")]);
}

/** @param {any} one @param {string} key */
function rounds(one, key) {
  if (!one.rounds.length && !one.abstentions.length) return null;
  const head = ["round", "packages", "arrived", "given up"];
  const cell = (/** @type {number} */ number) => el("td", { class: "number" }, String(number));
  const rows = [...one.rounds].reverse().slice(0, 200).map((/** @type {any} */ row) => el("tr", {},
    ...[row.round, row.packages, row.acknowledged, row.lost].map(cell), el("td", {}, row.unopened ? "unopened" : "")));
  const ended = (/** @type {string} */ text) => (/[.!?]$/.test(text) ? text : `${text}.`);
  const left = one.abstentions.map((/** @type {any} */ was) => `Round ${was.round}: ${ended(was.sentence)}`);
  return folded(`${key}:rounds`, "Round by round",
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Packages by round" },
      el("table", {},
        el("thead", {}, el("tr", {}, ...head.map((name) => el("th", { scope: "col", class: "number" }, name)),
          el("td", {}))),
        el("tbody", {}, ...rows))),
    left.length ? el("p", {}, "Rounds in which your device took no part, and why:") : null,
    left.length ? sentences(left) : null);
}

/** @param {any} one */
function spent(one) {
  if (one.spent === null) return ["So far your device has told nothing in this experiment."];
  const rounds = counted(one.spent.rounds, "round");
  const epsilon = one.spent.epsilon;
  if (epsilon !== null) return [`So far it has spent ε = ${atMost(epsilon, 2)} for your label here, in ${rounds}.`];
  if (one.spent.auc === null) return [`So far it has taken part in ${rounds}; the risk has no number.`];
  return [`So far, in ${rounds}: an AUC of ${atMost(one.spent.auc, 2)} for somebody who knows your features.`];
}

/** @param {any} one */
export function who(one) {
  const list = (/** @type {string[]} */ names) => (names.length ? names.join(", ") : "none");
  return el("dl", { class: "facts who" },
    el("dt", {}, "Looks at"), el("dd", {}, `${one.looks_at} (${one.source})`),
    el("dt", {}, "Each round"), el("dd", {}, `${counted(one.packages_a_round, "package")}, ${size(one.bytes_a_round)}`),
    el("dt", {}, "Relays"), el("dd", {}, list(one.who.relays)),
    el("dt", {}, "Witnesses"), el("dd", {}, list(one.who.witnesses)),
    el("dt", {}, "Log"), el("dd", {}, one.who.log ?? "none"),
    el("dt", {}, "Coordinator’s key"), el("dd", {}, list(one.who.coordinator)),
    one.who.note ? el("dt", {}, "Note") : null, one.who.note ? el("dd", {}, one.who.note) : null,
    el("dt", {}, "Name"), el("dd", {}, el("code", {}, one.digest)));
}
