// What this page knows: the latest word of the server, details and rounds of experiments that somebody looks at.
//
// Changes come as server-sent events; a connection that fails or falls silent is opened again, later each time. Times
// are the server's: its clock may be steered, so this page's own clock is used only to bridge the seconds between two
// words of a clock that runs at the common speed.

import { History } from "./history.js";

/** Silence after which a connection is taken for lost: the server speaks every 5 s. */
const SILENCE_MS = 16_000;
const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 15_000;

/** A refusal, with the server's own sentence. */
export class Refusal extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** An answer of the API as JSON, or a `Refusal` in one sentence. */
export async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", credentials: "omit", ...options });
  } catch {
    throw new Refusal(0, "The server of this page does not answer.");
  }
  const told = await answer.json().catch(() => null);
  if (answer.ok) return told;
  throw new Refusal(answer.status, told?.detail || told?.title || `The server answers ${answer.status}.`);
}

/** Events: `now`, `link`, and with the digest as their detail `rounds` and `experiment`. */
export class Store extends EventTarget {
  constructor() {
    super();
    /** The object of /api/now. @type {any} */
    this.now = null;
    /** "connecting", "live" or "lost". */
    this.link = "connecting";
    /** @type {Map<string, any>} */
    this.details = new Map();
    /** Experiments of which somebody wants to know all. @type {Set<string>} */
    this.wanted = new Set();
    /** @type {Map<string, History>} */
    this.histories = new Map();
    this.retry = FIRST_RETRY_MS;
    this.heard = performance.now();
    this.pace = 0;
    /** When something is known at all. @type {Promise<void>} */
    this.ready = new Promise((known) => this.addEventListener("now", () => known(), { once: true }));
    /** Of the last event that was heard: what came since is told on a new connection. */
    this.number = "";
  }

  start() {
    this.connect();
    ask("/api/now").then((now) => this.now === null && this.take(now)).catch(() => this.lose());
    setInterval(() => this.link !== "lost" && performance.now() - this.heard > SILENCE_MS && this.again(), 2000);
    // A laptop that wakes, or a network that is back, need not wait for the next try.
    addEventListener("online", () => this.hurry());
    document.addEventListener("visibilitychange", () => !document.hidden && this.hurry());
  }

  connect() {
    const source = new EventSource(`/api/events${this.number ? `?after=${encodeURIComponent(this.number)}` : ""}`);
    this.source = source;
    const hear = (name, use) =>
      source.addEventListener(name, (event) => {
        this.number = event.lastEventId;
        use.call(this, JSON.parse(event.data));
      });
    hear("now", (now) => this.take(now, true));
    hear("rounds", this.takeRounds);
    hear("experiment", ({ digest }) => this.takeChange(digest));
    // Away for so long that what was missed is not kept: all is asked for anew.
    hear("reset", this.refresh);
    source.addEventListener("error", () => {
      if (source !== this.source) return;
      this.lose();
      // Otherwise the browser comes again by itself, and says what it heard last.
      if (source.readyState === EventSource.CLOSED) this.again();
    });
  }

  /** The connection is gone for good: say so, and open another one after a while. */
  again() {
    this.source?.close();
    this.source = null;
    this.lose();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.connect(), this.retry);
    this.retry = Math.min(LAST_RETRY_MS, 2 * this.retry);
  }

  hurry() {
    if (this.link !== "lost") return;
    this.retry = FIRST_RETRY_MS;
    this.again();
  }

  lose() {
    if (this.link === "lost") return;
    this.link = "lost";
    this.tell("link");
  }

  /** The latest word; `live`: it came as an event, so more will follow. */
  take(now, live = false) {
    const heard = performance.now();
    if (this.now) {
      const pace = (now.now - this.now.now) / (heard - this.heard);
      // A clock that is steered jumps or stands; then nothing is bridged.
      this.pace = pace > 0.8 && pace < 1.25 ? 1 : 0;
    }
    this.now = now;
    this.heard = heard;
    if (live && this.link !== "live") {
      this.link = "live";
      this.retry = FIRST_RETRY_MS;
      this.tell("link");
    }
    this.tell("now");
  }

  takeRounds(told) {
    const history = this.histories.get(told.digest);
    if (!history) return;
    const before = history.last;
    const { behind } = history;
    const fits = history.hear(told);
    if (!history.begun) return;
    // What is new is no part of a stretch of the past.
    if (!fits && behind) return;
    if (fits) this.tell("rounds", told.digest);
    // Rounds between were missed, or it is not told whether a new one is of the night.
    if (fits && (history.last === before || told.nights)) return;
    const nights = history.nights.length;
    history.catchUp().then(() => {
      if (!fits || history.nights.length !== nights) this.tell("rounds", told.digest);
    }, () => null);
  }

  async takeChange(digest) {
    if (!this.wanted.has(digest)) return;
    const told = await ask(`/api/experiments/${encodeURIComponent(digest)}`).catch(() => null);
    if (told === null) return;
    this.details.set(digest, told);
    this.tell("experiment", digest);
  }

  async refresh() {
    for (const digest of [...this.details.keys()]) await this.takeChange(digest);
    for (const [digest, history] of this.histories) {
      if (history.behind) continue;
      await history.catchUp().catch(() => null);
      this.tell("rounds", digest);
    }
  }

  /** The server's time now, as well as it can be known here. */
  get time() {
    if (!this.now) return null;
    return this.now.now + this.pace * Math.min(6000, performance.now() - this.heard);
  }

  summary(digest) {
    return this.now?.experiments.find((one) => one.digest === digest) ?? null;
  }

  /** All of one experiment but its rounds. */
  async detail(digest) {
    await this.ready;
    if (!this.summary(digest)) {
      const away = !this.now.coordinator.reachable;
      const what = "There is no experiment of this digest here.";
      throw new Refusal(404, away ? "Nothing is known of it yet: the coordinator does not answer." : what);
    }
    if (!this.details.has(digest)) {
      this.wanted.add(digest);
      const told = await ask(`/api/experiments/${encodeURIComponent(digest)}`);
      // It may have changed meanwhile, and been asked for again.
      if (!this.details.has(digest)) this.details.set(digest, told);
    }
    return this.details.get(digest);
  }

  history(digest) {
    if (!this.histories.has(digest)) this.histories.set(digest, new History(digest, ask));
    return this.histories.get(digest);
  }

  tell(name, digest = null) {
    this.dispatchEvent(new CustomEvent(name, { detail: digest }));
  }
}
