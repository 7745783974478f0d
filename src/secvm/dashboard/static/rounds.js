// The newest rounds as a table: when each opened, how it ended and why, how many trained, how well it did.

import { together } from "./overview.js";
import { el, section, swap, table } from "./parts.js";
import { because } from "./watch.js";
import { STATES, clock, count, estimate, interval, percent, zone } from "./words.js";

const NEWEST = 12;

export function roundsPart() {
  const what = el("p", { class: "soft" });
  const place = el("div", { "data-fact": "rounds" });
  const node = section("rounds", "Rounds", {}, what, place);

  function update(history, now) {
    const { number, state, end } = history.columns;
    const from = Math.max(0, number.length - NEWEST);
    const places = number.map((_, i) => i).slice(from).reverse();
    node.hidden = !places.length;
    const last = number.length < NEWEST ? "" : `The newest ${count(NEWEST)} of those that the curves show. `;
    what.textContent = `${last}Times are ${zone(now)}.`;
    place.setAttribute("data-value", places.map((i) => end?.[i] ?? state[i]).join(","));
    swap(place, JSON.stringify([history.version, number[from]]), () => rows(history, places, now));
  }

  return { node, update };
}

function rows({ columns }, places, now) {
  const { number, state, opens_at: opened, people, accuracy } = columns;
  const cells = places.map((i) => {
    const trained = Object.fromEntries(Object.entries(people ?? {}).map(([label, counts]) => [label, counts[i]]));
    const [value, low, high] = ["value", "low", "high"].map((name) => accuracy?.[name]?.[i] ?? null);
    const counted = !Object.values(trained).includes(null);
    const right = value === null ? "" : `${percent({ value, low, high })} (${interval({ value, low, high })})`;
    return [
      count(number[i]),
      clock(opened[i], now),
      how(state[i], columns.end?.[i] ?? null),
      counted ? estimate({ value: columns.trained?.value?.[i] ?? together(trained), ...bounds(columns.trained, i) }) : "",
      right,
    ];
  });
  const heads = ["Round", "Opened", "How it ended", "Trained", "Accuracy"];
  const kinds = ["", "", "reason", "number", "number"];
  const attributes = (at) => ({ "data-round": number[places[at]], "data-end": columns.end?.[places[at]] ?? "" });
  return table("The newest rounds", heads, cells, { kinds, attributes });
}

function bounds(told, i) {
  return { low: told?.low?.[i] ?? null, high: told?.high?.[i] ?? null };
}

/** A round that is over by its reason, one that runs by its state. */
function how(state, end) {
  if (["announced", "open", "closing"].includes(state)) return el("span", { class: "soft" }, STATES[state]);
  const lost = end === null ? ["abandoned", "unopened"].includes(state) : end !== "counted";
  if (!lost) return el("span", { class: "yes" }, "counted");
  return el("span", { class: "no" }, state === "opened" ? because(end) : `${state}: ${because(end)}`);
}
