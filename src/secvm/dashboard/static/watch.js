// What somebody should know who only looks at the curves: swings, standstills, abandoned rounds, in words.

import { count, many, percent, runs, sentence } from "./words.js";

/** Rounds in each of the means that are compared, as the coordinator's own watcher does it. */
const PATIENCE = 10;
/** So many abandoned rounds in a row are no chance any more. */
const IN_A_ROW = 3;

/** Sentences with their weight, the most pressing first: [{ weight: "bad" | "fair" | "", says }]. */
export function warnings(summary, history) {
  const found = [];
  if (summary.problem) found.push({ weight: "bad", says: sentence(summary.problem) });
  for (const note of summary.notes ?? []) {
    found.push({ weight: /swing|two-cycle/.test(note) ? "bad" : "fair", says: sentence(note) });
  }
  if (history?.begun && summary.standing === "running") found.push(...stalls(summary, history));
  return found;
}

function* stalls(summary, { columns }) {
  const lost = abandonedLast(columns.state);
  if (lost >= IN_A_ROW) {
    const few = summary.floor === null ? "" : ` Fewer than ${count(summary.floor)} trained in each.`;
    yield { weight: "bad", says: `It stands still: the last ${many(lost, "round")} were abandoned.${few}` };
  }
  const plateau = flat(columns);
  if (plateau) yield { weight: "", says: plateau };
}

/** How many rounds at the end were abandoned; one that still runs does not count. */
function abandonedLast(states) {
  let lost = 0;
  for (let i = states.length - 1; i >= 0; i -= 1) {
    if (states[i] === "abandoned") lost += 1;
    else if (states[i] === "published" || states[i] === "tallied") break;
  }
  return lost;
}

/** A sentence if the newest mean of ten counted rounds is not above the best one before. */
function flat(columns) {
  const values = columns.accuracy?.value ?? [];
  // Places of counted rounds: means are over those alone.
  const counted = [];
  for (let i = 0; i < values.length; i += 1) if (values[i] !== null) counted.push(i);
  if (counted.length < 3 * PATIENCE) return null;
  let [sum, newest, best, bestAt] = [0, 0, -1, 0];
  for (let i = 0; i < counted.length; i += 1) {
    sum += values[counted[i]] - (i >= PATIENCE ? values[counted[i - PATIENCE]] : 0);
    newest = sum / PATIENCE;
    if (i >= PATIENCE - 1 && i < counted.length - PATIENCE && newest > best) [best, bestAt] = [newest, counted[i]];
  }
  if (newest > best) return null;
  return (
    `Accuracy no longer rises: over the last ten counted rounds it was ${percent(newest)} on average, ` +
    `and up to round ${count(columns.number[bestAt])} already ${percent(best)}.`
  );
}

/** Which of the rounds that are loaded were abandoned. */
export function abandoned(history) {
  return history.columns.number.filter((_, i) => history.columns.state[i] === "abandoned");
}

/** The same in words; "" where there are none. */
export function abandonedWords(history, floor) {
  const numbers = abandoned(history);
  if (!numbers.length) return "";
  const [which, were] = numbers.length === 1 ? ["ound", "was"] : ["ounds", "were"];
  const begins = history.first > 1 ? `Since round ${count(history.first)}, r` : "R";
  const few = floor === null || floor === undefined ? "too few" : `fewer than ${count(floor)}`;
  return (
    `${begins}${which} ${runs(numbers)} ${were} abandoned: ${few} trained. ` +
    "Nothing of such a round is told, and the model stays as it was: it is a gap in the curves."
  );
}
