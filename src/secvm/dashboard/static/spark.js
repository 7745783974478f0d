// A curve as small as a word: accuracy of the last rounds. Gaps are rounds without a number.

import { svg, swap } from "./parts.js";
import { percent } from "./words.js";

const WIDE = 160;
const HIGH = 36;
const EDGE = 3;

/** Draw the last rounds of a history. */
export function sparkline(place, history, stretch = 60) {
  const all = history?.columns.accuracy?.value ?? [];
  const values = all.slice(-stretch);
  const there = values.filter((value) => value !== null);
  const shown = `${history?.last} ${there.length} ${there.at(-1)}`;
  swap(place, shown, () => (there.length < 2 ? [] : draw(values, there)));
}

function draw(values, there) {
  const [least, most] = [Math.min(...there), Math.max(...there)];
  // Less than so much is noise, and shall look like it.
  const room = Math.max(most - least, 0.15);
  const low = (least + most - room) / 2;
  const x = (i) => (EDGE + (i / Math.max(1, values.length - 1)) * (WIDE - 2 * EDGE)).toFixed(1);
  const y = (value) => (HIGH - EDGE - ((value - low) / room) * (HIGH - 2 * EDGE)).toFixed(1);
  let path = "";
  let drawn = false;
  values.forEach((value, i) => {
    if (value !== null) path += `${drawn ? "L" : "M"}${x(i)} ${y(value)}`;
    drawn = value !== null;
  });
  const end = values.findLastIndex((value) => value !== null);
  const ends = `from ${percent(there[0])} to ${percent(there.at(-1))}`;
  const said = `Accuracy of the last ${values.length} rounds: ${ends}`;
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": said, preserveAspectRatio: "none" },
    svg("path", { class: "spark-line", d: path, "vector-effect": "non-scaling-stroke" }),
    // A line of no length with round ends is a dot that keeps its shape however wide the drawing is.
    svg("path", { class: "spark-end", d: `M${x(end)} ${y(values[end])}h0`, "vector-effect": "non-scaling-stroke" }),
  );
}
