// Numbers, times and states as people read them: never more digits than the data has, and words beside every colour.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const NBSP = "\u00a0";
const known = (value) => typeof value === "number" && Number.isFinite(value);

/** A count. */
export function count(value) {
  return known(value) ? WHOLE.format(value) : "–";
}

/** "1 round", "2 rounds". */
export function many(value, one, more = `${one}s`) {
  return `${count(value)}${NBSP}${value === 1 ? one : more}`;
}

/** How many there were: "about 87 (0 to 300)" where noise hides the number, and a count where there is none. */
export function estimate(given) {
  const { value, low, high } = given;
  if (!known(value) || !known(low) || !known(high) || low === high) return count(value);
  return `about ${count(value)} (${count(low)} to ${count(high)})`;
}

/** A rate: two digits are all that a second of counting supports. */
export function rate(value) {
  if (!known(value)) return "–";
  if (value === 0) return "0";
  if (value < 0.1) return "under 0.1";
  return value < 10 ? value.toFixed(1) : WHOLE.format(value);
}

/** A share may come as a number or with its interval. */
function share(given) {
  if (given === null || given === undefined) return { value: null, low: null, high: null };
  return typeof given === "number" ? { value: given, low: null, high: null } : given;
}

/** So many digits of a percentage as its interval bears. */
function digits(low, high) {
  const wide = known(low) && known(high) ? high - low : 0.02;
  return wide >= 0.01 ? 0 : wide >= 0.001 ? 1 : 2;
}

/** A percentage, as precise as its interval. */
export function percent(given) {
  const { value, low, high } = share(given);
  return known(value) ? `${(100 * value).toFixed(digits(low, high))}${NBSP}%` : "–";
}

/** Its interval in words. */
export function interval(given) {
  const { value, low, high } = share(given);
  if (!known(value) || !known(low) || !known(high)) return "";
  const places = digits(low, high);
  return `${(100 * low).toFixed(places)} to ${(100 * high).toFixed(places)}${NBSP}%`;
}

/** An AUC; certainty is never claimed. */
export function auc(value) {
  if (!known(value)) return "–";
  return value >= 0.995 ? `>${NBSP}0.99` : value.toFixed(2);
}

/** What an AUC means to the person it is about. */
export function aucWords(value) {
  if (!known(value)) return "";
  if (value < 0.505) return "no better than a coin";
  if (value <= 0.55) return "little better than a coin";
  if (value < 0.7) return "a hint";
  if (value < 0.9) return "a good guess";
  return "near certainty";
}

/** An ε. */
export function epsilon(value) {
  return known(value) ? (value < 10 ? value.toFixed(2) : WHOLE.format(value)) : "–";
}

/** Small powers, as δ is written. */
export function power(value) {
  if (!known(value)) return "–";
  if (value === 0) return "0";
  const raised = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
  const [factor, exponent] = value.toExponential(0).split("e");
  const up = [...String(Number(exponent))].map((sign) => raised[sign]).join("");
  return factor === "1" ? `10${up}` : `${factor}·10${up}`;
}

/** Bytes in the unit that suits. */
export function bytes(value) {
  if (!known(value)) return "–";
  const [size, unit] = value < 1e3 ? [value, "B"] : value < 1e6 ? [value / 1e3, "kB"] : [value / 1e6, "MB"];
  return `${size < 10 && unit !== "B" ? size.toFixed(1) : WHOLE.format(size)}${NBSP}${unit}`;
}

/** How long, in at most two units. */
export function duration(milliseconds) {
  if (!known(milliseconds)) return "–";
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = units.findIndex(([length]) => seconds >= length);
  if (first < 0) return `0${NBSP}s`;
  const [length, name] = units[first];
  const next = units[first + 1];
  const rest = next === undefined ? 0 : Math.floor((seconds % length) / next[0]);
  const whole = `${Math.floor(seconds / length)}${NBSP}${name}`;
  return rest ? `${whole} ${rest}${NBSP}${next[1]}` : whole;
}

/** A time of the day; with its date where that is another than `now`'s. */
export function clock(at, now = null) {
  if (!known(at)) return "–";
  const date = new Date(at);
  const time = date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (known(now) && date.toDateString() === new Date(now).toDateString()) return time;
  return `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" })}, ${time}`;
}

/** The zone that times are told in, by its short name. */
export function zone(at) {
  const parts = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" }).formatToParts(new Date(at));
  return parts.find(({ type }) => type === "timeZoneName")?.value ?? "";
}

/** Runs of numbers: "7, 12 to 14". At most `most` runs are named. */
export function runs(numbers, most = 6) {
  const found = [];
  for (const number of numbers) {
    const last = found[found.length - 1];
    if (last && number === last[1] + 1) last[1] = number;
    else found.push([number, number]);
  }
  const named = found.slice(-most).map(([from, to]) => {
    if (from === to) return count(from);
    return to === from + 1 ? `${count(from)}, ${count(to)}` : `${count(from)} to ${count(to)}`;
  });
  return (found.length > most ? "…, " : "") + named.join(", ");
}

/** What a server says without a capital and a full stop, with them. */
export function sentence(text) {
  const said = text.trim();
  const begun = said.charAt(0).toUpperCase() + said.slice(1);
  return /[.!?…]$/.test(begun) ? begun : `${begun}.`;
}

/** The first characters of a digest are enough to tell two apart by eye. */
export function shortened(digest, length = 12) {
  const text = String(digest ?? "");
  return text.length > length ? `${text.slice(0, length)}…` : text;
}

/** An experiment's standing: a word, and a sign that is not a colour. */
export const STANDINGS = {
  running: { word: "running", sign: "▶", says: "Rounds open by its schedule." },
  paused: { word: "paused", sign: "❚❚", says: "No round opens until the operator resumes it." },
  stopped: { word: "stopped", sign: "■", says: "The operator has stopped it; its last model stays public." },
  finished: { word: "finished", sign: "✓", says: "All is done; its last model stays public." },
};

/** What a round's state means. */
export const STATES = {
  announced: "announced: devices compute, nothing is taken yet",
  open: "open: devices send",
  closing: "closing: what was sent in time may still arrive",
  tallied: "counted: its result is not public yet",
  published: "published",
  abandoned: "abandoned: it brought no new model",
  opened: "opened: the relays' digests and the key's seed are public",
  unopened: "unopened: something of it did not come in time, or was false",
};
