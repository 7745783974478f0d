// The person's page: looks at the device every few seconds while somebody looks at the page, and shows what it is told.
// @ts-check
import { close, show, tried } from "./dialogs.js";
import { experimentPanel, rank } from "./experiments.js";
import { offersPart } from "./offers.js";
import { number, other, preferred, said, speak, t } from "./language.js";
import { button, el, folded, moment, put, sentences, size } from "./parts.js";
import { summary } from "./summary.js";
import { act, getState, Refusal } from "./talk.js";

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
  } catch (fault) {
    // It has its own sentence where it is there, and cannot say how things are.
    const speaks = fault instanceof Refusal && [409, 503].includes(fault.status);
    place("away").textContent = speaks ? [fault.message, fault.next].filter(Boolean).join(" ") : t("page.away");
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
  put(place("evidence"), ...troubles(state), ...evidence(state));
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
  badge.textContent = t(state.runs ? "runs.yes" : "runs.no");
  badge.className = `end badge ${state.runs ? "good" : ""}`;
  badge.hidden = false;
}

/** What is wrong with the device just now, and the way to allow again what was taken back. @param {any} state */
function troubles(state) {
  const told = state.troubles ?? [];
  return told.map((/** @type {any} */ one) => el("div", { class: "notice bad", "data-trouble": one.key ?? "" },
    el("p", {}, said(one)),
    one.key === "trouble.permission" ? button("allow", t("permission.again"), () => tried(async () => {
      await act("allow", {});
      await done(t("done.allowed"));
    }), "primary") : null));
}

/** @param {any} state */
function evidence(state) {
  return state.evidence.map((/** @type {any} */ one) => el("div", { class: "notice bad", "data-evidence": one.number },
    el("p", {}, el("strong", {}, t("evidence.title", { title: one.title }))),
    ...shows(one),
    el("p", { class: "small-print" }, t("evidence.proof")),
    button(`evidence:${one.number}`, t("evidence.save"), () => save(one))));
}

/** What a piece shows, and the words that are in the file where they are others. @param {any} one */
function shows(one) {
  const words = said({ key: `evidence.${one.kind}`, text: one.sentence });
  const own = words === one.sentence ? null : el("p", { class: "small-print", lang: "en" }, one.sentence);
  return [el("p", {}, words), own].filter((part) => part !== null);
}

/** @param {any} one */
function save(one) {
  show(t("evidence.ask"), [...shows(one), el("p", {}, t("evidence.warning"))],
    [button("save", t("evidence.now"), () => tried(async () => {
      const file = await (await act("evidence", { number: one.number })).blob();
      const address = URL.createObjectURL(file);
      el("a", { href: address, download: `evidence-${one.number}.json` }).click();
      URL.revokeObjectURL(address);
      close();
    }), "primary")]);
}

/** @param {any} told */
function budget(told) {
  const limit = (/** @type {number | null} */ most) => (most === null ? t("budget.free") : number(most));
  const figure = (/** @type {string} */ name) => t("budget.figure", {
    title: t(`budget.${name}.figure`),
    spent: told[name].spent === null ? t("budget.endless") : number(told[name].spent, { maximumFractionDigits: 3 }),
    limit: limit(told[name].limit),
  });
  // A device that takes no part without a guarantee has no AUC to spend.
  const known = ["epsilon", "auc"].filter((name) => told[name] !== null);
  return [
    el("div", { class: "panel wide-words", "data-budget": "risk" }, sentences(told.words),
      told.unsafe ? el("p", { class: "notice fair" }, t("budget.unsafe")) : null,
      folded("budget:figures", t("fold.figures"), sentences([...told.figures, ...known.map(figure)]))),
    ...known.map((name) => meter(name, told[name])),
    meter("bytes", told.bytes, told.bytes.limit === null ? size(told.bytes.spent)
      : `${size(told.bytes.spent)} / ${size(told.bytes.limit)}`),
  ];
}

/** @param {string} name @param {any} one @param {string} [words] */
function meter(name, one, words) {
  const share = one.left === null ? null : Math.floor(100 * one.left + 1e-9) / 100;
  const left = share === null ? t("budget.free") : t("budget.left", { share });
  const kind = share === null || share > .2 ? "good" : share > 0 ? "fair" : "bad";
  const bar = share === null ? null
    : el("progress", { max: "100", value: Math.round(100 * share), class: kind,
      "aria-label": `${t(`budget.${name}`)}: ${left}` });
  return el("div", { class: "panel meter", "data-meter": name }, el("h3", {}, t(`budget.${name}`)),
    el("div", { class: "left" }, words ?? left), bar, el("p", {}, t(`budget.${name}.words`)));
}

/** @param {any} state */
function vault(state) {
  const held = state.vault;
  if (!held.features && !held.labels) return [el("p", {}, t("vault.nothing"))];
  const rows = held.sources.map((/** @type {any} */ one) => el("tr", {},
    el("th", { scope: "row" }, one.name), el("td", { class: "number" }, number(one.features)),
    el("td", {}, one.read === null ? "" : t(one.read.days === null ? "vault.all" : "vault.days",
      { when: moment(one.read.at, Date.now()), n: one.read.days ?? 0 })),
    el("td", {}, button(`show:${one.name}`, t("vault.show"), () => tried(() => examples(one.name)), "little"),
      button(`remove:${one.name}`, t("vault.forget"), () => forgetSource(one.name), "little"))));
  const changed = held.changed_at === null ? null : t("vault.changed", { when: moment(held.changed_at, Date.now()) });
  return [
    el("p", {}, [t("vault.features", { n: held.features }),
      t("vault.rest", { labels: held.labels, size: size(held.bytes) }), changed].filter(Boolean).join(" ")),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("vault.region") },
      el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, t("vault.source")),
        el("th", { scope: "col", class: "number" }, t("vault.count")), el("th", { scope: "col" }, t("vault.read")),
        el("th", { scope: "col" }, t("vault.look")))),
      el("tbody", {}, ...rows))),
    el("p", { class: "small-print" }, t(held.locked ? "vault.locked" : "vault.open")),
  ];
}

/** @param {string} source */
async function examples(source) {
  const found = (await (await act("examples", { source })).json()).examples;
  show(t("examples.title", { source }), [
    el("p", { class: "soft" }, t("examples.careful")),
    el("ul", { class: "own-words" }, ...found.map((/** @type {any} */ one) => el("li", {},
      el("span", {}, one.value === 1 ? one.feature : `${one.feature} × ${one.value}`),
      button(`exclude:${one.feature}`, t("examples.exclude"), () => tried(async () => {
        await act("exclude", { feature: one.feature });
        await examples(source);
      }), "little"))))]);
}

/** @param {string} source */
function forgetSource(source) {
  show(t("remove.title", { source }), [el("p", {}, t("remove.means"))], [
    button("remove-now", t("vault.forget"), () => tried(async () => {
      await act("remove", { source });
      close();
      await done(t("done.removed", { source }));
    }), "primary")]);
}

/** @param {any} state @param {any[]} left */
function past(state, left) {
  return el("ul", { class: "past-list" },
    ...left.map((one) => el("li", { "data-left": one.digest },
      el("span", {}, t("past.left", { title: one.title, n: one.acknowledged })))),
    ...state.declined.map((/** @type {any} */ one) => el("li", { "data-declined": one.digest },
      el("span", {}, t("past.declined", { title: one.title })),
      state.offers.possible ? button(`again:${one.digest}`, t("past.again"), () => tried(async () => {
        await act("reconsider", { digest: one.digest });
        await done(t("done.again", { title: one.title }));
      }), "little") : null)));
}

place("language").addEventListener("click", async () => {
  close();
  await other();
  shown = "";
  await look();
});
document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : look()));
await speak(preferred());
await look();
