// All experiments: how each stands, whether enough take part, how well it does, what it has given away.

import { el, fact, reveal, show, swap, write } from "./parts.js";
import { sparkline } from "./spark.js";
import { warnings } from "./watch.js";
import { STANDINGS, auc, clock, count, epsilon, estimate, interval, many, percent, shortened } from "./words.js";

/** So many of the last rounds are in the small curve; so many experiments have one. */
const STRETCH = 60;
const CURVES = 40;
const ORDER = ["running", "paused", "finished", "stopped"];

export function open(main, page) {
  const { store } = page;
  const heading = el("h1", {}, "Experiments");
  const lead = el("p", { class: "lead" }, "Asking the server what there is …");
  const list = el("ul", { class: "experiments", "aria-label": "Experiments" });
  const empty = el("div", {});
  main.append(heading, lead, empty, list);
  const rows = new Map();
  let asked = false;

  function update() {
    const all = store.now.experiments;
    write(lead, all.length ? summed(all, store.now.coordinator.left_out ?? 0) : "");
    lead.hidden = !all.length;
    swap(empty, String(all.length === 0), () => (all.length ? [] : nothing(store.now)));
    for (const one of all) {
      if (!rows.has(one.digest)) rows.set(one.digest, row(one));
      rows.get(one.digest).update(one, store);
    }
    for (const [digest, made] of rows) {
      if (all.some((one) => one.digest === digest)) continue;
      made.node.remove();
      rows.delete(digest);
    }
    const wanted = [...all].sort((a, b) => ORDER.indexOf(a.standing) - ORDER.indexOf(b.standing));
    wanted.forEach((one, i) => {
      const { node } = rows.get(one.digest);
      if (list.children[i] !== node) list.insertBefore(node, list.children[i] ?? null);
    });
    if (!asked) {
      asked = true;
      curves(wanted.slice(0, CURVES));
    }
  }

  /** After the first paint, one experiment after the other. */
  async function curves(wanted) {
    for (const one of wanted) {
      const told = one.rounds_told ?? 0;
      if (!told) continue;
      await store.history(one.digest).reach(Math.max(1, told - STRETCH + 1)).catch(() => null);
      rounds(one.digest);
    }
  }

  function rounds(digest) {
    rows.get(digest)?.draw(store.histories.get(digest));
  }

  return { title: "Experiments", update, rounds };
}

function summed(all, leftOut) {
  const running = all.filter((one) => one.standing === "running").length;
  const others = all.length - running;
  const older = leftOut ? ` ${count(leftOut)} older ones are not shown.` : "";
  return `${many(running, "experiment")} running${others ? `, ${count(others)} not` : ""}.${older}`;
}

function nothing(now) {
  // Nobody knows whether there is one.
  const away = "Nothing is known yet: the coordinator does not answer.";
  if (!now.coordinator.reachable) return el("p", { class: "empty" }, away);
  const what = "An experiment is one question put to many devices. When the coordinator publishes one, it is here.";
  return el(
    "div",
    { class: "empty" },
    el("h2", {}, "No experiment yet"),
    el("p", {}, what),
    el("p", {}, el("a", { class: "button primary", href: "/new" }, "Plan the first one")),
  );
}

function row(one) {
  const title = el("a", { href: `/experiment/${encodeURIComponent(one.digest)}`, "data-fact": "title" });
  const standing = fact("standing", "span", { class: "standing badge" });
  const test = el("span", { class: "badge" }, "test");
  // Two may have one title.
  const known = el("span", { class: "remark" }, el("code", {}, shortened(one.digest, 8)), el("span", {}));
  const round = fact("round");
  const planned = fact("rounds_planned");
  const people = fact("participants");
  const floor = fact("floor");
  const enough = el("span", { class: "remark" });
  const accuracy = fact("accuracy");
  const band = el("span", { class: "remark" });
  const leak = fact("auc");
  const guaranteed = fact("epsilon");
  const leakRemark = el("span", { class: "remark" });
  const curve = el("div", { class: "spark" });
  const problem = fact("warning", "p", { class: "problem", hidden: true });
  const cell = (name, ...content) => el("div", {}, el("dt", {}, name), el("dd", {}, ...content));
  const node = el(
    "li",
    { class: "experiment", "data-digest": one.digest },
    el("div", { class: "naming" }, el("h2", {}, title), el("p", { class: "marks" }, known, standing, test)),
    el(
      "dl",
      { class: "at-a-glance" },
      cell("Round", el("b", {}, round), el("span", { class: "remark" }, "of ", planned)),
      cell("Trained", el("b", {}, people), enough),
      cell("Accuracy", el("b", {}, accuracy), band),
      cell("Leakage", el("b", {}, leak, guaranteed), leakRemark),
    ),
    curve,
    problem,
  );

  function update(now, store) {
    const last = now.last;
    // The most pressing one; the others are on the experiment's own page.
    const time = store.now.coordinator.reachable ? store.time : null;
    const pressing = warnings(now, store.histories.get(now.digest), time).find(({ weight }) => weight === "bad");
    show(problem, pressing ? pressing.says : "", Boolean(pressing));
    reveal(problem, Boolean(pressing));
    show(title, now.title, now.title);
    stand(standing, now.standing);
    test.hidden = !now.test;
    write(known.lastChild, now.begins_at ? ` · from ${clock(now.begins_at)}` : "");
    const number = now.running?.number ?? now.rounds_told ?? 0;
    show(round, count(number), number);
    show(planned, count(now.rounds_planned), now.rounds_planned);
    const trained = trainedIn(last);
    show(people, estimate(trained), trained.value);
    show(floor, count(now.floor), now.floor);
    if (!enough.contains(floor)) enough.append("floor ", floor);
    const right = { value: last?.accuracy ?? null, low: last?.accuracy_low ?? null, high: last?.accuracy_high ?? null };
    show(accuracy, percent(right), right.value);
    write(band, interval(right));
    // Of tallies under two relays' cover there is no number but the ε of all rounds.
    const promised = now.epsilon ?? now.epsilon_planned ?? null;
    const formal = now.formal_guarantee === true && promised !== null;
    leak.hidden = formal;
    guaranteed.hidden = !formal;
    show(leak, auc(now.auc), now.auc);
    show(guaranteed, `ε\u00a0${epsilon(promised)}`, promised);
    write(leakRemark, leakWords(now, formal));
  }

  return { node, update, draw: (history) => sparkline(curve, history) };
}

function leakWords(now, formal) {
  if (formal && now.epsilon === null) return "guaranteed, over all rounds";
  if (formal) return now.epsilon_planned === null ? "guaranteed" : `of ${epsilon(now.epsilon_planned)} planned`;
  if (now.auc === null && !now.auc_planned) return "no number";
  return now.auc_planned === null || now.auc_planned === undefined ? "AUC" : `AUC, planned ${auc(now.auc_planned)}`;
}

/** How many trained in the last round, with its interval; an older coordinator tells none. */
export function trainedIn(last) {
  return last?.trained ?? { value: together(last?.people ?? last?.participants), low: null, high: null };
}

/** All labels together; null where nothing is told. */
export function together(counts) {
  const values = Object.values(counts ?? {});
  return values.length ? Math.max(0, values.reduce((sum, one) => sum + one, 0)) : null;
}

/** A standing as a word with its sign. */
export function stand(place, standing) {
  const known = STANDINGS[standing] ?? { word: standing, sign: "" };
  place.dataset.standing = standing;
  swap(place, standing, () => [el("span", { class: "sign", "aria-hidden": "true" }, known.sign), known.word]);
  place.setAttribute("data-value", standing);
}
