// Which names a drawing carries, and where.
// @ts-check

const SLIM = 4.4;
const DIGIT = 8.3;
const COMMON = 8.0;
const BROAD = 12.5;
const BOLD = 1.13;
export const SAMPLE = 34;
const AFTER = 20;
const APART = 16;
const SHIFT = 13;

/** @typedef {{name: string, kind: "curve"|"bar"|"rule"|"shade", colour: number, dashed: boolean}} Entry */

/** About how many units a text takes. @param {string} text */
export function wide(text, bold = false) {
  let width = 0;
  for (const letter of text) {
    if ("iljtfI.,:;'|!()[]- \u00a0".includes(letter)) width += SLIM;
    else if ("mwMW%@—−".includes(letter)) width += BROAD;
    else width += /[\p{Nd}⁰¹²³⁴-⁹₀-₉\p{Uppercase}]/u.test(letter) ? DIGIT : COMMON;
  }
  return width * (bold ? BOLD : 1);
}

/** A text that is no wider than this: as much of it as there is room for, and that something is missing.
 * @param {string} text @param {number} room */
export function fitted(text, room) {
  const all = [...text];
  const left = [...all];
  while (left.length > 1 && wide(left.join("")) + (left.length < all.length ? COMMON : 0) > room) left.pop();
  return left.length === all.length ? text : `${left.join("")}…`;
}

/** Rows of a legend: where each entry begins. In columns where that takes no more rows than one after another. A name
 * that is wider than a row is cut. @param {Entry[]} named @param {number} room @returns {[number, Entry][][]} */
export function laidOut(named, room) {
  const entries = named.map((entry) => ({ ...entry, name: fitted(entry.name, room - SAMPLE) }));
  const takes = entries.map((entry) => SAMPLE + wide(entry.name) + AFTER);
  /** @type {[number, Entry][][]} */
  const rows = [];
  let x = 0;
  entries.forEach((entry, i) => {
    if (!rows.length || x + takes[i] - AFTER > room) {
      rows.push([]);
      x = 0;
    }
    rows[rows.length - 1].push([x, entry]);
    x += takes[i];
  });
  let columns = Math.max(1, Math.trunc((room + AFTER) / (takes.length ? Math.max(...takes) : 1)));
  if (Math.ceil(entries.length / columns) > rows.length) return rows;
  columns = Math.max(1, Math.ceil(entries.length / Math.max(1, rows.length)));
  const starts = [0];
  for (let column = 0; column < columns; column++) {
    starts.push(starts[column] + Math.max(0, ...takes.filter((_, i) => i % columns === column)));
  }
  /** @type {[number, Entry][][]} */
  const ordered = [];
  for (let i = 0; i < entries.length; i += columns) {
    ordered.push(entries.slice(i, i + columns).map((entry, column) => [starts[column], entry]));
  }
  return ordered;
}

/** Names at the ends of all curves and rules, moved apart; nothing if they cannot all stand there.
 * @param {Entry[]} entries @param {Map<string, number>} ends @param {number} room
 * @returns {{entry: Entry, placed: number}[]} */
export function beside(entries, ends, room) {
  const end = (/** @type {Entry} */ entry) => /** @type {number} */ (ends.get(entry.name));
  const wanted = entries.filter((entry) => entry.kind !== "shade");
  if (wanted.some((entry) => !ends.has(entry.name) || wide(entry.name, true) > room)) return [];
  wanted.sort((one, other) => end(one) - end(other));
  /** @type {number[]} */
  const placed = [];
  wanted.forEach((entry, i) => placed.push(i ? Math.max(end(entry), placed[i - 1] + APART) : end(entry)));
  // A heap of names hangs below its curves: lift it by half, from the last to the first.
  let start = 0;
  for (let stop = 1; stop <= placed.length; stop++) {
    if (stop < placed.length && placed[stop] <= placed[stop - 1] + APART) continue;
    const off = wanted.slice(start, stop).map((entry, i) => placed[start + i] - end(entry));
    const lift = (Math.max(...off) + Math.min(...off)) / 2;
    const free = start ? placed[start] - (placed[start - 1] + APART) : lift;
    for (let i = start; i < stop; i++) placed[i] -= Math.min(lift, free);
    start = stop;
  }
  const near = wanted.every((entry, i) => Math.abs(placed[i] - end(entry)) <= SHIFT);
  return near ? wanted.map((entry, i) => ({ entry, placed: placed[i] })) : [];
}
