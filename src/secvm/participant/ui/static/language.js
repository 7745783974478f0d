// The language of the page: its own texts, and those sentences of the device that it knows by their key.
// @ts-check
const LANGUAGES = ["en", "de"];
let language = "en";
/** @type {Record<string, string | Record<string, string>>} */
let texts = {};

/** What the tab was switched to, or else the first language of the browser that there is. Kept nowhere else. */
export function preferred() {
  const asked = [location.hash.slice(1), ...navigator.languages.map((one) => one.slice(0, 2))];
  return asked.find((one) => LANGUAGES.includes(one)) ?? "en";
}

/** @param {string} wanted */
export async function speak(wanted) {
  texts = await (await fetch(`static/texts.${wanted}.json`)).json();
  language = wanted;
  document.documentElement.lang = wanted;
  for (const one of document.querySelectorAll("[data-text]")) one.textContent = t(one.getAttribute("data-text") ?? "");
}

/** The other language, for this tab. */
export async function other() {
  const next = LANGUAGES[(LANGUAGES.indexOf(language) + 1) % LANGUAGES.length];
  history.replaceState(null, "", `#${next}`);
  await speak(next);
}

/** Dates and hours are written as in Britain. */
const locale = () => (language === "en" ? "en-GB" : language);

/** @param {number} value @param {Intl.NumberFormatOptions} [as] */
export const number = (value, as = {}) => new Intl.NumberFormat(locale(), as).format(value);
/** @param {number} at @param {Intl.DateTimeFormatOptions} as */
export const date = (at, as) => new Intl.DateTimeFormat(locale(), as).format(at);

/** @param {number} value @param {string} format as Python writes it: "," ".2f" ",.1f" ".0%" */
function formatted(value, format) {
  const digits = Number(/\.(\d)/.exec(format)?.[1] ?? 0);
  const fixed = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  if (format.endsWith("%")) return number(value, { ...fixed, style: "percent" });
  return number(value, format.endsWith("f") ? fixed : {});
}

/** @param {string} template @param {Record<string, any>} values */
const filled = (template, values) => template.replace(/\{(\w+)(?::([^}]*))?\}/g, (_, name, format = "") => {
  const value = values[name];
  if (value !== null && typeof value === "object") return said(value);
  return typeof value === "number" ? formatted(value, format) : String(value);
});

/**
 * A text of the page; where it has several forms, that of ``values.n``.
 * @param {string} key @param {Record<string, any>} [values]
 */
export function t(key, values = {}) {
  const text = texts[key] ?? key;
  return filled(typeof text === "string" ? text : text[new Intl.PluralRules(language).select(values.n)], values);
}

/**
 * A sentence of the device: by its key where this language has it, else as the device says it, in English.
 * @param {string | {key?: string, values?: Record<string, any>, text: string}} sentence
 */
export function said(sentence) {
  if (typeof sentence === "string") return sentence;
  return sentence.key !== undefined && sentence.key in texts ? t(sentence.key, sentence.values) : sentence.text;
}
