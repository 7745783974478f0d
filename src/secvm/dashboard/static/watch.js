// What somebody should know who only looks at the curves: swings, standstills, abandoned and unopened rounds, in words.

import { ENDS } from "./ends.js";
import { clock, count, many, percent, runs, sentence } from "./words.js";

/** Rounds in each of the means that are compared, as the coordinator's own watcher does it. */
const PATIENCE = 10;
/** So many rounds in a row without a new model are no chance any more. */
const IN_A_ROW = 3;

/** Two unopened rounds of so many end a device's part. */
const AMONG = 10;

/** After all that was sent in time has arrived, a round is counted within so long. */
const LATE_MS = 600_000;
/** A note of the coordinator about a two-cycle, and the last round that it is about. */
const SWING = /^rounds? (?:[0-9]+ to )?([0-9]+) swing/;

/** Sentences with their weight, the most pressing first: [{ weight: "bad" | "fair" | "", says }]. `now`: the time, or
 * null where nobody knows how things stand now. */
export function warnings(summary, history, now) {
  const found = [];
  if (summary.problem) found.push({ weight: "bad", says: sentence(summary.problem) });
  found.push(...late(summary.running, now), ...swings(summary));
  for (const note of summary.notes ?? []) if (!SWING.test(note)) found.push({ weight: "fair", says: sentence(note) });
  found.push(...standstill(summary));
  if (history?.begun && summary.standing === "running") found.push(...stalls(history));
  const order = ["bad", "fair", ""];
  return found.sort((one, other) => order.indexOf(one.weight) - order.indexOf(other.weight));
}

/** Whether a round's time is over and it is still not counted: whoever drives the coordinator does not. */
export function isLate(running, now) {
  return Boolean(running) && now !== null && now - running.accept_until >= LATE_MS;
}

function* late(running, now) {
  if (!isLate(running, now)) return;
  const [which, due] = [count(running.number), clock(running.accept_until, now)];
  yield { weight: "bad", says: `It stands still: round ${which} was to be counted at ${due}, and is not.` };
}

/** The newest spell of a two-cycle, as the coordinator tells it; of those before it, how many. */
function* swings({ notes = [], rounds_told: told }) {
  const all = notes.filter((note) => SWING.test(note));
  if (!all.length) return;
  const newest = all[all.length - 1];
  const over = told - Number(SWING.exec(newest)[1]) >= PATIENCE;
  const before = all.length > 1 ? ` So it did ${many(all.length - 1, "time")} before.` : "";
  yield { weight: over ? "fair" : "bad", says: sentence(newest) + before };
}

/** Of an experiment that runs, that its last rounds brought no new model; "" where that is not so. */
export function standsStill({ standing, in_vain: lost }) {
  if (standing !== "running" || !lost || lost.rounds < IN_A_ROW) return "";
  return `the last ${many(lost.rounds, "round")} brought no new model`;
}

function* standstill(summary) {
  const lost = standsStill(summary);
  if (lost) yield { weight: "bad", says: `It stands still: ${lost} (${summary.in_vain.ends.map(because).join("; ")}).` };
}

/** A round's end in words; null where the coordinator does not say. */
export function because(end) {
  if (end === null || end === undefined) return "why is not told";
  return ENDS[end] ?? end.replaceAll("-", " ");
}

function* stalls({ columns }) {
  yield* unopenedNow(columns);
  const plateau = flat(columns);
  if (plateau) yield { weight: "", says: plateau };
}

/** Of the rounds that devices judge by, those that were unopened. */
function* unopenedNow({ number, state }) {
  const lost = number.slice(-AMONG).filter((_, i) => state.slice(-AMONG)[i] === "unopened");
  if (!lost.length) return;
  const leave = lost.length > 1 ? " A device that sent in two of them takes part no more." : "";
  const says = `Of the last ${many(Math.min(AMONG, number.length), "round")} ${runs(lost)} ${were(lost)} unopened.${leave}`;
  yield { weight: lost.length > 1 ? "bad" : "fair", says };
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

/** Which of the rounds that are loaded ended so: abandoned, or unopened. */
export function ended(history, state) {
  return history.columns.number.filter((_, i) => history.columns.state[i] === state);
}

/** The same in words, by why they ended so; "" where there are none. */
export function endedWords(history, state) {
  const numbers = ended(history, state);
  if (!numbers.length) return "";
  const { number, end } = history.columns;
  const reasons = new Map();
  for (const one of numbers) {
    const why = because(end?.[one - number[0]]);
    reasons.set(why, [...(reasons.get(why) ?? []), one]);
  }
  const since = history.first > 1 ? ` since round ${count(history.first)}` : "";
  const each = [...reasons].map(([why, those]) => `${runs(those)}: ${why}`).join("; ");
  return (
    `${many(numbers.length, "round")}${since} ${were(numbers)} ${state} (${each}). ` +
    "Nothing of such a round is told, and the model stays as it was: it is a gap in the curves."
  );
}

function were(numbers) {
  return numbers.length === 1 ? "was" : "were";
}
