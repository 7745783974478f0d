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
  const ended = columns.state.filter((state) => state === "published" || state === "tallied" || state === "abandoned");
  const lost = ended.length - 1 - ended.findLastIndex((state) => state !== "abandoned");
  if (lost >= IN_A_ROW) {
    const few = summary.floor === null ? "" : ` Fewer than ${count(summary.floor)} trained in each.`;
    yield { weight: "bad", says: `It stands still: the last ${many(lost, "round")} were abandoned.${few}` };
  }
  const plateau = flat(columns);
  if (plateau) yield { weight: "", says: plateau };
}

/** A sentence if the newest mean of ten counted rounds is not above the best one before. */
function flat(columns) {
  const rounds = [];
  (columns.accuracy?.value ?? []).forEach((value, i) => value !== null && rounds.push([columns.number[i], value]));
  if (rounds.length < 3 * PATIENCE) return null;
  let sum = 0;
  let best = { mean: -1, number: 0 };
  let newest = 0;
  rounds.forEach(([number, value], i) => {
    sum += value - (i >= PATIENCE ? rounds[i - PATIENCE][1] : 0);
    if (i < PATIENCE - 1) return;
    newest = sum / PATIENCE;
    if (i < rounds.length - PATIENCE && newest > best.mean) best = { mean: newest, number };
  });
  if (newest > best.mean || rounds[rounds.length - 1][0] - best.number < PATIENCE) return null;
  return (
    `Accuracy no longer rises: over the last ten counted rounds it was ${percent(newest)} on average, ` +
    `and up to round ${count(best.number)} already ${percent(best.mean)}.`
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
