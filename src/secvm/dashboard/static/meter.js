// The leakage meter: one scale, what was given away so far, what all rounds were planned for, and words for both ends.

import { el, fact, show, write } from "./parts.js";
import { auc, aucWords, epsilon } from "./words.js";

/** ε from which on a guarantee is one by name alone (docs/protocol.md, privacy statements). */
export const NO_PROTECTION = 8;

const SCALES = {
  auc: {
    low: 0.5,
    high: 1,
    ticks: [0.5, 0.6, 0.7, 0.8, 0.9, 1],
    write: (value) => auc(value),
    tick: (value) => value.toFixed(1),
    ends: ["a coin", "certainty"],
    name: "AUC",
  },
  epsilon: {
    low: 0,
    high: NO_PROTECTION,
    ticks: [0, 1, 2, 4, 6, 8],
    write: (value) => `ε\u00a0${epsilon(value)}`,
    tick: (value) => String(value),
    ends: ["nothing is told", "no protection"],
    name: "ε",
  },
};

/** A scale with a needle, and a mark for what it is compared with; `set(now, goal, said)`, null where there is none. */
export function gauge(kind, label) {
  const scale = SCALES[kind];
  const { low, high } = scale;
  const place = (value) => `${(100 * (Math.min(high, Math.max(low, value)) - low)) / (high - low)}%`;
  const fill = el("span", { class: "meter-fill" });
  const goal = el("span", { class: "meter-goal" });
  const needle = el("span", { class: "meter-needle" });
  const track = el("div", { class: "meter-track", "aria-hidden": "true" }, fill, goal, needle);
  const ticks = el("div", { class: "meter-ticks", "aria-hidden": "true" });
  for (const tick of scale.ticks) {
    const mark = el("span", {}, scale.tick(tick));
    mark.style.left = place(tick);
    ticks.append(mark);
  }
  const ends = scale.ends.map((end) => el("span", {}, end));
  const about = { "aria-label": label, "aria-valuemin": low, "aria-valuemax": high };
  const node = el(
    "div",
    { class: "meter-scale", role: "meter", ...about, "aria-valuenow": low, "aria-valuetext": "no number yet" },
    track,
    ticks,
    el("div", { class: "meter-ends", "aria-hidden": "true" }, ...ends),
  );

  function set(now, compared, said) {
    fill.style.width = now === null ? "0" : place(now);
    needle.hidden = now === null;
    goal.hidden = compared === null;
    if (now !== null) needle.style.left = place(now);
    if (compared !== null) goal.style.left = place(compared);
    node.setAttribute("aria-valuenow", String(now === null ? low : Math.min(high, now)));
    node.setAttribute("aria-valuetext", said);
  }

  return { node, set };
}

/** A meter on one of the two scales; `update(now, planned)`. */
export function meter(kind, label) {
  const scale = SCALES[kind];
  const value = fact(kind, "b");
  const verdict = el("span", { class: "remark" });
  const planned = fact(`${kind}_planned`, "b");
  const plannedVerdict = el("span", { class: "remark" });
  const shown = gauge(kind, label);
  const legend = (sign, name, ...rest) => {
    const key = el("span", { class: `meter-key ${sign}`, "aria-hidden": "true" });
    return el("div", {}, el("dt", {}, key, name), el("dd", {}, ...rest));
  };
  const node = el(
    "div",
    { class: "meter", "data-meter": kind },
    el(
      "dl",
      { class: "meter-values" },
      legend("now", "so far", value, verdict),
      legend("goal", "planned", planned, plannedVerdict),
    ),
    shown.node,
  );

  function update(now, all) {
    const known = (number) => typeof number === "number";
    show(value, known(now) ? scale.write(now) : "–", now);
    show(planned, known(all) ? scale.write(all) : "–", all);
    write(verdict, words(now));
    write(plannedVerdict, words(all));
    const said = known(now) ? `${scale.write(now)} so far, ${words(now)}` : "no number yet";
    const whole = known(all) ? `${said}; ${scale.write(all)} planned` : said;
    shown.set(known(now) ? now : null, known(all) ? all : null, whole);
  }

  function words(number) {
    if (typeof number !== "number") return "";
    if (kind === "auc") return aucWords(number);
    if (number >= NO_PROTECTION) return "no protection, whatever its name";
    return `the odds of anything change by a factor of at most ${factor(Math.exp(number))}`;
  }

  return { node, update };
}

/** Never below the true one: it is said to be the most. */
function factor(value) {
  const up = Math.ceil(10 * value - 1e-9) / 10;
  return up < 10 ? up.toFixed(1) : Math.ceil(value).toLocaleString("en");
}
