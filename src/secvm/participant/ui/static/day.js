// The 24 hours of the person's day: when packages are still to leave, and in which hours rounds may begin.
// @ts-check
import { svgElement as draw } from "./dom.js";
import { t } from "./language.js";
import { clock, el } from "./parts.js";

const HOUR = 3_600_000;
const HIGH = 44, TOP = 18;

/** Which hour a zone has at an instant; null where the browser does not know the zone. */
function hourIn(/** @type {number} */ at, /** @type {string} */ zone) {
  try {
    const said = new Intl.DateTimeFormat("en", { hour: "numeric", hourCycle: "h23", timeZone: zone });
    const parts = said.formatToParts(at);
    return Number(parts.find((part) => part.type === "hour")?.value);
  } catch {
    return null;
  }
}

/**
 * Packages by hour of the person's own day.
 * @param {{at: number, packages: number}[]} times
 */
export function byHour(times) {
  const hours = Array(24).fill(0);
  for (const one of times) hours[new Date(one.at).getHours()] += one.packages;
  return hours;
}

/** @param {any} one an experiment @param {number} now */
export function dayStrip(one, now) {
  const hours = byHour(one.times);
  // Drawn for the width that there is, so that words keep their size.
  const WIDE = window.matchMedia("(max-width: 40rem)").matches ? 14 : 30;
  const edge = WIDE / 10;
  const most = Math.max(1, ...hours);
  const start = new Date(now).setHours(0, 0, 0, 0);
  const svg = draw("svg", { viewBox: `-2 0 ${24 * WIDE + 4} ${TOP + HIGH + 20}`, role: "img" });
  for (let hour = 0; hour < 24; hour++) {
    const there = hourIn(start + hour * HOUR, one.time_zone);
    const open = there !== null && one.hours.some((/** @type {number[]} */ [a, b]) => a <= there && there < b);
    const x = hour * WIDE;
    const kind = open ? "hour open" : "hour";
    svg.append(draw("rect", { x, y: TOP, width: WIDE - 2, height: HIGH, rx: edge, class: kind }));
    if (hours[hour]) {
      const height = Math.max(4, (hours[hour] / most) * HIGH);
      const bar = { x: x + edge, y: TOP + HIGH - height, width: WIDE - 2 - 2 * edge, height, rx: edge };
      svg.append(draw("rect", { ...bar, class: "packages" }));
      svg.append(draw("text", { x: x + WIDE / 2 - 1, y: TOP - 5, "text-anchor": "middle", class: "count" },
        String(hours[hour])));
    }
    if (hour % 6 === 0) svg.append(draw("text", { x, y: TOP + HIGH + 15 }, `${String(hour).padStart(2, "0")}:00`));
  }
  const at = ((now - start) / HOUR) * WIDE;
  svg.append(draw("line", { x1: at, x2: at, y1: TOP - 4, y2: TOP + HIGH + 4, class: "now" }));
  const words = inWords(one, now);
  svg.setAttribute("aria-label", t("day.strip", { words }));
  return el("div", { class: "day" }, el("h4", {}, t("day.title")), svg,
    el("p", { class: "small-print" }, `${words} ${t("day.forgotten")}`));
}

/** @param {any} one @param {number} now */
export function inWords(one, now) {
  const whole = one.hours.length === 1 && one.hours[0][0] === 0 && one.hours[0][1] === 24;
  const hour = (/** @type {number} */ h) => `${String(h).padStart(2, "0")}:00`;
  const spans = one.hours.map((/** @type {number[]} */ [a, b]) => t("day.span", { from: hour(a), to: hour(b) }));
  const listed = new Intl.ListFormat(document.documentElement.lang).format(spans);
  const may = whole ? t("day.any") : t("day.spans", { spans: listed, zone: one.time_zone });
  const window = one.window;
  const wait = one.times.reduce((/** @type {number} */ sum, /** @type {any} */ part) => sum + part.packages, 0);
  if (!wait) return `${t("day.idle")} ${may}`;
  const until = window && window.closes_at > now;
  const told = { n: wait, ...(until ? { time: clock(window.closes_at) } : {}) };
  // To two relays all packages of a round leave at one moment.
  const waits = one.guarantee ? t(until ? "day.once-until" : "day.once", told)
    : t(until ? "day.until" : "day.waiting", told);
  return `${waits} ${may}`;
}
