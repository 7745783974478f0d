// The person's page: looks at the device every few seconds while somebody looks at the page, and shows what it is told.
// @ts-check
import { close, show, tried } from "./dialogs.js";
import { experimentPanel, rank } from "./experiments.js";
import { offersPart } from "./offers.js";
import { atMost, button, counted, el, moment, put, sentences, size } from "./parts.js";
import { act, getState } from "./talk.js";

const EVERY_MS = 3000;
/** @type {number | undefined} */
let timer;
let shown = "";

const place = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** Says something to who listens instead of looking, and looks again. @param {string} said */
async function done(said) {
  place("said").textContent = said;
  await look();
}

async function look() {
  clearTimeout(timer);
  try {
    const state = await getState();
    place("away").hidden = true;
    draw(state);
    place("main").dataset.now = String(state.now);
  } catch {
    place("away").hidden = false;
  }
  if (!document.hidden) timer = setTimeout(look, EVERY_MS);
}

/** @param {any} state */
function draw(state) {
  // The clock alone moves a line by a pixel: that is no reason to draw everything anew.
  const { now, ...rest } = state;
  const news = JSON.stringify([rest, Math.floor(now / 60_000)]);
  if (news === shown) return;
  shown = news;
  const left = state.experiments.filter((/** @type {any} */ one) => one.status === "forgotten");
  const here = state.experiments.filter((/** @type {any} */ one) => one.status !== "forgotten")
    .sort((/** @type {any} */ a, /** @type {any} */ b) => rank(a) - rank(b));
  runs(state);
  place("summary").textContent = summary(state, here);
  put(place("evidence"), ...evidence(state));
  put(place("experiments"), ...here.map((/** @type {any} */ one) => experimentPanel(one, state, done)));
  put(place("offers"), ...offersPart(state, done));
  put(place("budget"), ...budget(state.budget));
  put(place("vault"), ...vault(state));
  put(place("past"), past(state, left));
  place("taking-part").hidden = here.length === 0;
  place("before").hidden = left.length + state.declined.length === 0;
  for (const id of ["asking", "told", "here"]) place(id).hidden = false;
}

/** @param {any} state */
function runs(state) {
  const badge = place("runs");
  badge.textContent = state.runs ? "running" : "not running";
  badge.className = `end badge ${state.runs ? "good" : ""}`;
  badge.hidden = false;
}

/** @param {any} state @param {any[]} here */
function summary(state, here) {
  const going = here.filter((one) => !one.ended && !one.convicted).length;
  if (going === 0) return "It takes part in nothing now. Nothing is sent.";
  const what = `It takes part in ${counted(going, "experiment")}.`;
  if (!state.runs) return `${what} It does not run now, so nothing is fetched or sent.`;
  const waiting = here.reduce((sum, one) => sum + one.waiting, 0);
  return `${what} ${waiting ? `${counted(waiting, "sealed package")} will leave it soon.` : "Nothing waits."}`;
}

/** @param {any} state */
function evidence(state) {
  return state.evidence.map((/** @type {any} */ one) => el("div", { class: "notice bad", "data-evidence": one.number },
    el("p", {}, el("strong", {}, `A server cheated: ${one.title}`)),
    el("p", {}, one.sentence),
    el("p", { class: "small-print" }, "Your device sends nothing more there. The file below proves it to anybody."),
    button(`evidence:${one.number}`, "Save the proof …", () => save(one, state))));
}

/** @param {any} one @param {any} state */
function save(one, state) {
  show("Save the proof?", [el("p", {}, one.sentence), el("p", {}, state.evidence_warning)],
    [button("save", "Save the file", () => tried(async () => {
      const file = await (await act("evidence", { number: one.number })).blob();
      const address = URL.createObjectURL(file);
      el("a", { href: address, download: `evidence-${one.number}.json` }).click();
      URL.revokeObjectURL(address);
      close();
    }), "primary")]);
}

/** @param {any} told */
function budget(told) {
  return [
    meter("auc", "Without a guarantee", told.auc, (spent) => atMost(spent, 3),
      "How well somebody who knows your features could guess your answers, from all that your device ever told: 0.50 is"
      + " a coin, 1 is certainty."),
    meter("epsilon", "Under guarantees", told.epsilon, (spent) => atMost(spent, 2),
      "ε for your label, of all experiments that add noise, together. The smaller, the less anybody can learn of you,"
      + " whatever they know."),
    meter("bytes", "Traffic today", told.bytes, size, "A round that would go beyond this is not begun."),
    el("div", { class: "panel wide-words" }, sentences(told.words),
      told.unsafe ? el("p", { class: "notice fair" }, "The settings agree to anything. That is for made-up people.")
        : null),
  ];
}

/**
 * @param {string} name @param {string} title @param {any} one @param {(n: number) => string} as
 * @param {string} words
 */
function meter(name, title, one, as, words) {
  const spent = one.spent === null ? "more than any number" : as(one.spent);
  const limit = one.limit === null ? "no limit is set" : `of ${as(one.limit)}`;
  const left = one.left === null ? null : Math.floor(100 * one.left + 1e-9);
  const bar = left === null ? null
    : el("progress", { max: "100", value: left, class: left > 20 ? "good" : left > 0 ? "fair" : "bad",
      "aria-label": `${title}: ${left} percent left` });
  return el("div", { class: "panel meter", "data-meter": name }, el("h3", {}, title),
    el("div", { class: "left" }, `${spent} ${limit}`), bar,
    el("p", {}, `${left === null ? "" : `${left} % left. `}${words}`));
}

/** @param {any} state */
function vault(state) {
  const held = state.vault;
  if (!held.features && !held.labels) {
    return [el("p", {}, "Nothing yet. Bring in features of your own with: secvm participant import")];
  }
  const rows = held.sources.map((/** @type {any} */ one) => el("tr", {},
    el("th", { scope: "row" }, one.name), el("td", { class: "number" }, one.features.toLocaleString("en")),
    el("td", {}, button(`show:${one.name}`, "Show some", () => tried(() => examples(one.name)), "little"))));
  return [
    el("p", {}, `${counted(held.features, "feature")} from ${counted(held.sources.length, "source")}, and your answers`
      + ` to ${counted(held.labels, "question")}: ${size(held.bytes)}`
      + `${held.changed_at === null ? "" : `, last changed ${moment(held.changed_at, Date.now())}`}. None of it ever`
      + " leaves this device as it is."),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Features by source" },
      el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "source"),
        el("th", { scope: "col", class: "number" }, "features"), el("th", { scope: "col" }, "look"))),
      el("tbody", {}, ...rows))),
    el("p", { class: "small-print" }, held.locked ? "It is under your passphrase."
      : "It is under no passphrase: whoever can read your files can read it. See: secvm participant protect-keys"),
  ];
}

/** @param {string} source */
async function examples(source) {
  const found = (await (await act("examples", { source })).json()).examples;
  show(`Some of “${source}”`, [
    el("p", { class: "soft" }, "Shown on this screen only. Check who can see it; it goes when you close this."),
    el("ul", { class: "own-words" }, ...found.map((/** @type {any} */ one) => el("li", {},
      one.value === 1 ? one.feature : `${one.feature} × ${one.value}`)))]);
}

/** @param {any} state @param {any[]} left */
function past(state, left) {
  return el("ul", { class: "past-list" },
    ...left.map((one) => el("li", { "data-left": one.digest },
      el("span", {}, `${one.title}: left. ${counted(one.acknowledged, "package")} had been sent.`))),
    ...state.declined.map((/** @type {any} */ one) => el("li", { "data-declined": one.digest },
      el("span", {}, `${one.title}: you said no.`),
      state.offers.possible ? button(`again:${one.digest}`, "Look at it again", () => tried(async () => {
        await act("reconsider", { digest: one.digest });
        await done(`Shown again: ${one.title}`);
      }), "little") : null)));
}

document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : look()));
look();
