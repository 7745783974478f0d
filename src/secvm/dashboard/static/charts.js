// The charts of one experiment: they share one stretch of rounds, and only those in sight are drawn anew.

import { Chart } from "./chart.js";
import { el, reveal, write } from "./parts.js";
import { TITLES, figure, has } from "./figures.js";
import { count, sentence } from "./words.js";

/** With more rounds than this a page begins with the newest. */
const MANY = 600;
const NEWEST = 500;
/** So many rounds are fetched without much thought. */
const ALL = 2000;
const CHOICES = [100, 500, 2000];

/** Figures by name, each appended to its element of `places`; the first of them also carries what concerns all. */
export class Charts {
  constructor(page, digest, places) {
    this.page = page;
    this.digest = digest;
    this.history = page.store.history(digest);
    this.drawn = new Map();
    this.seen = null;
    const section = (name) => el("section", { "data-figure": name, class: "figure", "aria-label": TITLES[name] });
    this.places = new Map(Object.keys(places).map((name) => [name, section(name)]));
    this.state = el("p", { class: "soft", role: "status" }, "Loading the rounds …");
    this.choice = el("div", { class: "row stretch", role: "group", "aria-label": "Rounds shown" });
    Object.values(places)[0].append(this.choice, this.state);
    for (const [name, made] of this.places) places[name].append(made);
    this.stretch = asked(page.query());
    this.watcher = new IntersectionObserver((entries) => this.sight(entries));
    this.inSight = new Set();
    this.dirty = new Set();
    for (const made of this.places.values()) this.watcher.observe(made);
  }

  /** Fetch what the stretch needs, then draw. `seen`: labels, floor, leakage, cover. */
  async begin(seen) {
    this.seen = { ...seen, history: this.history };
    const total = this.known();
    if (!this.stretch && total > MANY) this.stretch = { last: NEWEST };
    if (this.stretch?.from) await this.around(this.stretch.from, this.stretch.to ?? total);
    else await this.fetch(this.stretch ? Math.max(1, total - NEWEST + 1) : 1);
  }

  /** How many rounds there are, as far as is known. */
  known() {
    return Math.max(this.page.store.summary(this.digest)?.rounds_told ?? 0, this.history.total);
  }

  /** A stretch, and as much again on both sides to move into. */
  around(from, to) {
    const more = Math.max(NEWEST / 2, to - from + 1);
    const first = Math.max(1, from - more);
    // To the end, if that is not far or the figure cannot do without.
    const near = this.known() - first < ALL || (this.places.has("leakage") && this.places.size === 1);
    return this.fetch(first, near ? null : to + more);
  }

  async fetch(first, to = null) {
    this.busy = true;
    write(this.state, "Loading the rounds …");
    reveal(this.state, true);
    try {
      await this.history.reach(first, to);
      reveal(this.state, false);
    } catch (fault) {
      write(this.state, `The rounds could not be loaded. ${sentence(fault.message)}`);
      if (!this.history.begun) for (const made of this.places.values()) reveal(made, false);
    }
    this.busy = false;
    if (!this.closed) this.update(this.seen);
  }

  /** Something is new: those in sight are drawn with the next frame, the others when they come into sight. `names`:
   * which figures it concerns. */
  update(seen = null, names = [...this.places.keys()]) {
    if (seen) this.seen = { ...seen, history: this.history };
    if (!this.seen || !this.history.begun) return;
    this.choices();
    const empty = !this.history.columns.number.length;
    if (empty && !this.busy) {
      write(this.state, "No round yet: curves begin when the first one is counted.");
      reveal(this.state, true);
    }
    for (const [name, section] of this.places) {
      reveal(section, !empty && has(name, this.seen));
      if (names.includes(name)) this.dirty.add(name);
    }
    this.soon();
  }

  /** Those in sight at once: all of them come with the next frame. Then the others one a frame, so that they are there
   * when somebody prints; of many rounds they are drawn once, and again when somebody comes to them. */
  soon() {
    if (this.closed || !this.history.begun) return;
    for (const name of this.inSight) if (this.dirty.delete(name)) this.draw(name);
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      const many = this.history.columns.number.length > MANY;
      const next = [...this.dirty].find((name) => !this.places.get(name).hidden && (!many || !this.drawn.has(name)));
      if (next === undefined) return;
      this.dirty.delete(next);
      this.draw(next);
      this.soon();
    });
  }

  draw(name) {
    const section = this.places.get(name);
    if (section.hidden) return;
    const spec = figure(name, this.seen);
    const chart = this.drawn.get(name);
    if (chart) {
      chart.update(spec);
      if (this.stretch?.last) this.range(chart);
      // This is a frame already: the next one would be a screen's turn later.
      chart.flush();
      return;
    }
    const made = new Chart(section, spec, {
      actions: true,
      link: (from, to) => address(this.digest, name, from === null ? (this.stretch ?? {}) : { from, to }),
      onRange: (from, to, settled) => this.moved(name, from, to, settled),
    });
    this.drawn.set(name, made);
    if (this.stretch) this.range(made);
  }

  sight(entries) {
    for (const { target, isIntersecting } of entries) {
      const name = target.dataset.figure;
      if (isIntersecting) this.inSight.add(name);
      else this.inSight.delete(name);
    }
    this.soon();
  }

  /** The stretch as two ends. */
  ends() {
    const { first, last } = this.history;
    if (this.stretch?.last) return [Math.max(first, last - this.stretch.last + 1), last];
    return this.stretch ? [this.stretch.from ?? first, this.stretch.to ?? last] : [null, null];
  }

  range(chart) {
    chart.setRange(...this.ends());
  }

  /** Somebody has moved one chart: the others follow; where it rests, the address says so and what is missing is
   * fetched. */
  moved(name, from, to, settled) {
    const all = from === null;
    this.stretch = all ? null : { from: Math.round(from), to: Math.round(to) };
    if (!settled) {
      // With many rounds only the one under the hand moves at once.
      if (this.history.columns.number.length > MANY) return;
      for (const [other, chart] of this.drawn) if (other !== name && this.inSight.has(other)) this.range(chart);
      return;
    }
    this.page.setQuery(this.stretch ?? { from: null, to: null });
    for (const [other, chart] of this.drawn) if (other !== name) this.range(chart);
    this.choices();
    const { first, last, total } = this.history;
    if (this.busy) return;
    if (all && (first > 1 || last < total)) this.fetch(1);
    else if (!all && ((from <= first && first > 1) || (to >= last && last < total))) this.around(from, to);
  }

  async choose(last) {
    this.stretch = last ? { last } : null;
    this.page.setQuery({ from: null, to: null });
    const { total } = this.history;
    await this.fetch(last ? Math.max(1, total - last + 1) : 1);
    for (const chart of this.drawn.values()) this.range(chart);
  }

  choices() {
    const { total } = this.history;
    const offered = [...CHOICES.filter((last) => last < total), 0];
    reveal(this.choice, offered.length > 1);
    const shown = `${offered}|${total > 0}`;
    if (this.choice.dataset.shown !== shown) {
      this.choice.dataset.shown = shown;
      this.choice.replaceChildren(
        ...offered.map((last) =>
          el("button", { type: "button", class: "little", "data-last": last, onclick: () => this.choose(last) }, ""),
        ),
      );
    }
    for (const button of this.choice.children) {
      const last = Number(button.dataset.last);
      write(button, last ? `Last ${count(last)}` : `All ${count(total)} rounds`);
      const pressed = last ? this.stretch?.last === last : this.stretch === null;
      button.setAttribute("aria-pressed", String(pressed));
    }
  }

  close() {
    this.closed = true;
    cancelAnimationFrame(this.frame);
    this.watcher.disconnect();
    for (const chart of this.drawn.values()) chart.destroy();
  }
}

/** Where one figure is alone. */
function address(digest, name, { from = null, to = null }) {
  const ends = [from !== null && `from=${Math.round(from)}`, to !== null && `to=${Math.round(to)}`].filter(Boolean);
  const stretch = ends.length ? `?${ends.join("&")}` : "";
  return `/experiment/${encodeURIComponent(digest)}/${name}${stretch}`;
}

/** The stretch that an address asks for; null: none. */
function asked(query) {
  const whole = (name) => (/^[0-9]{1,9}$/.test(query.get(name) ?? "") ? Number(query.get(name)) : null);
  const [from, to] = [whole("from"), whole("to")];
  if (from === null && to === null) return null;
  return to !== null && from !== null && to < from ? null : { from: from ?? 1, to };
}
