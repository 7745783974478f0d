// The round that runs, and the last one that was counted: time left, enough people or not, how well it did.

import { el, fact, reveal, section, show, tile, write } from "./parts.js";
import { trainedIn } from "./overview.js";
import { STATES, clock, count, duration, estimate, interval, percent, rate } from "./words.js";

export function runningPart() {
  const round = fact("round");
  const planned = fact("rounds_planned");
  const state = fact("round_state", "span", { class: "remark" });
  const left = fact("time_left");
  const leftWhat = el("span", { class: "remark" });
  const course = el("progress", { max: 1, "aria-label": "How much of the window is over" });
  const devices = fact("devices");
  const devicesWhat = el("span", { class: "remark" });
  const sofar = against();
  const people = fact("participants");
  const floor = fact("floor");
  const enough = el("span", { class: "remark" }, el("span", {}), " floor ", floor);
  const level = against();
  const speed = fact("packages_per_s");
  const speedWhat = el("span", { class: "remark" });
  const accuracy = fact("accuracy");
  const low = fact("accuracy_low", "span", { hidden: true });
  const high = fact("accuracy_high", "span", { hidden: true });
  const band = el("span", { class: "remark" });
  // What only a running experiment has.
  const live = [
    tile("Time left", el("b", {}, left), leftWhat, course),
    tile("Packages per second", el("b", {}, speed), speedWhat),
    tile("Sending in this round", el("b", {}, devices), devicesWhat, sofar.node),
  ];
  const tiles = el(
    "dl",
    { class: "tiles" },
    tile("Round", el("b", {}, round, el("small", {}, " of ", planned)), state),
    ...live,
    tile("Trained in the last round", el("b", {}, people), enough, level.node),
    tile("Accuracy", el("b", {}, accuracy), band, [low, high]),
  );
  const node = section("now", "Now", {}, tiles);

  function update(store, summary, detail) {
    const { running, last } = summary;
    const over = !running && (summary.standing === "finished" || summary.standing === "stopped");
    write(node.firstChild, over ? "At the end" : "Now");
    for (const one of live) reveal(one, !over);
    const number = running?.number ?? summary.rounds_told ?? 0;
    show(round, count(number), number);
    show(planned, count(summary.rounds_planned), summary.rounds_planned);
    show(state, running ? (STATES[running.state] ?? running.state) : idle(summary), running?.state ?? "");
    timeLeft(store, running);
    show(devices, about(running?.devices), running?.devices);
    // The others test, and the floor is about those who train.
    const train = typeof running?.devices === "number" ? running.devices * (detail.train_share ?? 1) : null;
    write(devicesWhat, sending(running, summary, train));
    sofar.update(train, summary.floor);
    const trained = trainedIn(last);
    show(people, estimate(trained), trained.value);
    show(floor, count(summary.floor), summary.floor);
    write(enough.firstChild, last ? `round ${count(last.number)};` : "no round is counted yet;");
    level.update(trained.value, summary.floor);
    const pace = store.now.server?.packages_per_s ?? null;
    show(speed, rate(pace), pace);
    write(speedWhat, "at the coordinator, in all experiments");
    const right = { value: last?.accuracy ?? null, low: last?.accuracy_low ?? null, high: last?.accuracy_high ?? null };
    show(accuracy, percent(right), right.value);
    show(low, "", right.low);
    show(high, "", right.high);
    const where = last ? `, round ${count(last.number)}` : "";
    const none = summary.labels.length === 1 ? "none: the label is a number" : "nobody has tested yet";
    write(band, right.value === null ? none : `${interval(right)} (95\u00a0% interval)${where}`);
  }

  function timeLeft(store, running) {
    const now = store.time;
    const [until, what] = ends(running);
    const rest = until === null ? null : Math.max(0, until - now);
    show(left, rest === null ? "–" : duration(rest), rest === null ? null : Math.round(rest));
    write(leftWhat, rest === null ? "no round runs" : `${what} ${clock(until, now)}`);
    const open = running?.state === "open" && running.closes_at > running.opens_at;
    reveal(course, open);
    if (open) {
      const share = (now - running.opens_at) / (running.closes_at - running.opens_at);
      course.value = Math.round(100 * Math.min(1, Math.max(0, share))) / 100;
    }
  }

  return { node, update, tick: timeLeft };
}

/** Packages over the budget: an estimate, so no more than two digits of it. */
function about(value) {
  if (value === null || value === undefined) return "–";
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(Math.max(1, value))) - 1);
  return `≈ ${count(unit * Math.round(value / unit))}`;
}

function sending(running, summary, train) {
  if (!running) return "no round runs";
  if (train === null) {
    return running.why_unknown ? `not known: ${running.why_unknown}` : "told when the round is counted";
  }
  return `devices, by their packages so far; ${about(train)} train, floor ${count(summary.floor)}`;
}

function ends(running) {
  if (!running) return [null, ""];
  if (running.state === "announced") return [running.opens_at, "opens at"];
  if (running.state === "open") return [running.closes_at, "closes at"];
  if (running.state === "closing") return [running.accept_until, "takes late packages until"];
  return [null, ""];
}

function idle(summary) {
  if (summary.standing === "running") return "no round runs: the next waits for its hours, its salt or its witnesses";
  return summary.rounds_told ? "the last one that is over" : "there was none";
}

/** A bar against a mark: how many there were, and how many there must be. */
function against() {
  const fill = el("span", { class: "against-fill" });
  const mark = el("span", { class: "against-mark" });
  const node = el("div", { class: "against", "aria-hidden": "true" }, fill, mark);
  return {
    node,
    update(value, least) {
      reveal(node, value !== null && least !== null);
      if (node.hidden) return;
      const whole = 1.15 * Math.max(value, least, 1);
      fill.style.width = `${(100 * value) / whole}%`;
      mark.style.left = `${(100 * least) / whole}%`;
      node.classList.toggle("below", value < least);
    },
  };
}

