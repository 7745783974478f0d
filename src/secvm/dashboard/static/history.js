// The rounds of one experiment as columns: one run of numbers without holes, that grows at both ends in place.
//
// Charts hold on to these arrays, so growing at the end costs what is new and nothing else. Rounds that came to be
// known differently (a running one that is counted now) are written over.

/** So many rounds are asked for at once. */
const CHUNK = 2000;

/** Every array below `columns`, as paths: ["recall", "f", "low"]. */
function* paths(columns, path = []) {
  for (const [name, value] of Object.entries(columns)) {
    if (Array.isArray(value)) yield [...path, name];
    else if (value && typeof value === "object") yield* paths(value, [...path, name]);
  }
}

function at(columns, path) {
  return path.reduce((part, name) => part?.[name], columns);
}

/** An object without inherited names: a label may be called anything. */
function bare(content = {}) {
  return Object.assign(Object.create(null), content);
}

/** The array at a path, made if it is missing. */
function made(columns, path, length) {
  let part = columns;
  for (const name of path.slice(0, -1)) part = part[name] ??= bare();
  const last = path[path.length - 1];
  part[last] ??= new Array(length).fill(null);
  return part[last];
}

export class History {
  constructor(digest, ask) {
    this.digest = digest;
    this.ask = ask;
    /** As in the API, of the rounds from `first` to `last`. @type {any} */
    this.columns = bare({ number: [], state: [], opens_at: [], closes_at: [] });
    this.total = 0;
    /** Stretches of night on the axis of rounds, in order. @type {[number, number][]} */
    this.nights = [];
    this.sums = [];
    /** Another one with every change. */
    this.version = 0;
    /** Whether anything was asked for yet. */
    this.begun = false;
    /** Answers that are under way, and what was told meanwhile: an answer may be older than that. */
    this.asking = 0;
    this.meanwhile = [];
  }

  get first() {
    return this.columns.number[0] ?? null;
  }

  get last() {
    return this.columns.number[this.columns.number.length - 1] ?? null;
  }

  /** Whether it ends before the newest round that is known of: somebody looks at a stretch of the past. */
  get behind() {
    return this.last !== null && this.last < this.total;
  }

  /** Rounds `from` to `to`, fetched where they are not here. Null: as far as there are any. */
  reach(from = null, to = null) {
    return this.asked(() => this.reachOut(from, to));
  }

  /** What happened since the last round that is known, itself included: it may have been running. */
  async catchUp() {
    if (!this.begun) return;
    const first = this.last === null ? null : Math.max(1, this.last - 1);
    await this.asked(async () => this.take(await this.fetch(first, null)));
  }

  /** Ask, and then take again what was told in the meantime. */
  async asked(work) {
    this.asking += 1;
    try {
      await work();
    } finally {
      this.asking -= 1;
      if (!this.asking) for (const told of this.meanwhile.splice(0)) if (this.begun) this.take(told);
    }
  }

  /** An event: rounds that are new, or not as they were. False: they do not follow on what is here. */
  hear(told) {
    if (this.asking) this.meanwhile.push(told);
    return this.begun && this.take(told);
  }

  async reachOut(from, to) {
    if (!this.begun) {
      const told = await this.fetch(from, to);
      this.begun = true;
      this.take(told);
    }
    const wanted = Math.max(1, from ?? 1);
    while (this.first !== null && this.first > wanted) {
      const low = Math.max(wanted, this.first - CHUNK);
      const before = await this.fetch(low, this.first - 1);
      if (!this.prepend(before.columns)) break;
      this.darken(before.nights);
    }
    const until = Math.min(to ?? this.total, this.total);
    while (this.last !== null && this.last < until) {
      const before = this.last;
      const next = await this.fetch(before + 1, Math.min(until, before + CHUNK));
      this.take(next);
      if (this.last === before) break;
    }
  }

  /** An answer, or an event: rounds, how many there are, nights among them. */
  take(told) {
    if (!this.add(told.columns ?? told, told.total ?? null)) return false;
    this.darken(told.nights);
    return true;
  }

  /** Nights that are not known yet; what touches becomes one. */
  darken(found) {
    if (!found?.length) return;
    const all = [...this.nights, ...found].sort((a, b) => a[0] - b[0]);
    this.nights = [];
    for (const [low, high] of all) {
      const before = this.nights[this.nights.length - 1];
      if (before && low <= before[1]) before[1] = Math.max(before[1], high);
      else this.nights.push([low, high]);
    }
  }

  /** All labels together, round by round; kept, and only what changed is added up anew. */
  together(counts, labels) {
    const length = this.columns.number.length;
    const from = this.sums.length > length || this.sumsFrom !== this.first ? 0 : Math.max(0, this.sums.length - 3);
    this.sumsFrom = this.first;
    for (let i = from; i < length; i += 1) {
      const each = labels.map((label) => counts[label]?.[i] ?? null);
      this.sums[i] = each.includes(null) ? null : each.reduce((sum, one) => sum + one, 0);
    }
    return this.sums;
  }

  fetch(from, to) {
    const asked = new URLSearchParams();
    if (from !== null) asked.set("from", String(from));
    if (to !== null) asked.set("to", String(to));
    const query = asked.size ? `?${asked}` : "";
    return this.ask(`/api/experiments/${encodeURIComponent(this.digest)}/rounds${query}`);
  }

  /** New rounds at the end, changed ones in their place. False: they do not follow on what is here. */
  add(columns, total = null) {
    const numbers = columns?.number ?? [];
    if (total !== null) this.total = total;
    if (!numbers.length) return false;
    const start = this.first ?? numbers[0];
    const length = this.columns.number.length;
    let next = start + length;
    for (const number of numbers) {
      if (number > next) return false;
      if (number === next) next += 1;
    }
    for (const path of paths(columns)) {
      const ours = made(this.columns, path, length);
      const theirs = at(columns, path);
      // What lies before the stretch that is here was not asked for.
      for (let i = 0; i < numbers.length; i += 1) if (numbers[i] >= start) ours[numbers[i] - start] = theirs[i];
    }
    // A column that these rounds do not have grows all the same.
    for (const path of paths(this.columns)) {
      const ours = at(this.columns, path);
      for (let i = ours.length; i < this.columns.number.length; i += 1) ours.push(null);
    }
    this.total = Math.max(this.total, this.last);
    this.version += 1;
    return true;
  }

  prepend(columns) {
    const numbers = columns?.number ?? [];
    if (!numbers.length || numbers[numbers.length - 1] !== this.first - 1) return false;
    const length = this.columns.number.length;
    for (const path of paths(columns)) made(this.columns, path, length);
    for (const path of [...paths(this.columns)]) {
      const ours = at(this.columns, path);
      const theirs = at(columns, path) ?? new Array(numbers.length).fill(null);
      const whole = theirs.concat(ours);
      const parent = at(this.columns, path.slice(0, -1)) ?? this.columns;
      parent[path[path.length - 1]] = whole;
    }
    this.version += 1;
    return true;
  }
}
