// Small parts that the page is made of. Text goes in as text, never as markup.
// @ts-check

import { element as el } from "./dom.js";
import { date, number, said, t } from "./language.js";

export { el };

/** @param {(string | {key?: string, values?: Record<string, any>, text: string})[]} sentences of the device */
export const sentences = (sentences) =>
  el("ul", { class: "sentences" }, ...sentences.map((one) => el("li", {}, said(one))));

/** @param {string} key @param {string} title @param {...(Node | string | null)} children */
export const folded = (key, title, ...children) =>
  el("details", { "data-key": key }, el("summary", { "data-key": `${key}:summary` }, title), ...children);

/**
 * A button that cannot be pressed twice while it works.
 * @param {string} key @param {string} words @param {() => Promise<void> | void} work @param {string} [kind]
 */
export function button(key, words, work, kind = "") {
  const made = el("button", { type: "button", class: kind, "data-key": key }, words);
  made.addEventListener("click", async () => {
    if (made.hasAttribute("aria-disabled")) return;
    made.setAttribute("aria-disabled", "true");
    try {
      await work();
    } finally {
      made.removeAttribute("aria-disabled");
    }
  });
  return made;
}

/**
 * Put new content in place of the old; what was unfolded stays unfolded, and who stands on a button stays there.
 * @param {HTMLElement} place @param {...Node} content
 */
export function put(place, ...content) {
  const unfolded = [...place.querySelectorAll("details[open]")].map((one) => one.getAttribute("data-key"));
  const active = document.activeElement;
  const focused = active && place.contains(active) ? active.getAttribute("data-key") : null;
  // A file that was chosen cannot be chosen by a script.
  const fields = () => [...place.querySelectorAll("input")].filter((one) => one.type !== "file");
  const typed = new Map(fields().map((one) => [one.id, one.value]));
  place.replaceChildren(...content);
  for (const one of place.querySelectorAll("details")) {
    if (unfolded.includes(one.getAttribute("data-key"))) one.open = true;
  }
  for (const one of fields()) one.value = typed.get(one.id) ?? one.value;
  if (focused !== null) {
    const again = [...place.querySelectorAll("[data-key]")].find((one) => one.getAttribute("data-key") === focused);
    if (again instanceof HTMLElement) again.focus({ preventScroll: true });
  }
}

/** @param {number} bytes */
export function size(bytes) {
  if (bytes < 1000) return t("size.bytes", { n: bytes });
  const [unit, name] = bytes < 1e6 ? [1e3, "kB"] : bytes < 1e9 ? [1e6, "MB"] : [1e9, "GB"];
  return `${number(bytes / unit, { maximumFractionDigits: bytes < 10 * unit ? 1 : 0 })} ${name}`;
}

/** @param {number} at @param {number} now */
export function moment(at, now) {
  const day = (/** @type {number} */ when) => new Date(when).toDateString();
  if (day(at) === day(now)) return t("moment.today", { time: clock(at) });
  return t("moment.before", { date: date(at, { day: "numeric", month: "long", year: "numeric" }), time: clock(at) });
}

/** @param {number} at */
export const clock = (at) => date(at, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
