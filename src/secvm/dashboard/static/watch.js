// What somebody should know who only looks at the curves: swings, standstills, abandoned rounds, in words.

import { clock, count, many, percent, runs, sentence } from "./words.js";

/** Rounds in each of the means that are compared, as the coordinator's own watcher does it. */
const PATIENCE = 10;
/** So many abandoned rounds in a row are no chance any more. */
const IN_A_ROW = 3;

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
  if (history?.begun && summary.standing === "running") found.push(...stalls(summary, history));
  const order = ["bad", "fair", ""];
  return found.sort((one, other) => order.indexOf(one.weight) - order.indexOf(other.weight));
}

/** A round whose time is over and that is still not counted: whoever drives the coordinator does not. */
function* late(running, now) {
  if (!running || now === null || now - running.accept_until < LATE_MS) return;
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
  const since = history.first > 1 ? ` since round ${count(history.first)}` : "";
  const were = numbers.length === 1 ? "was" : "were";
  const few = floor === null || floor === undefined ? "too few" : `fewer than ${count(floor)}`;
  return (
    `${many(numbers.length, "round")}${since} ${were} abandoned (${runs(numbers)}): ${few} trained. ` +
    "Nothing of such a round is told, and the model stays as it was: it is a gap in the curves."
  );
}
