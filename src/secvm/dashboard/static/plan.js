// The planner's panel beside the form: what an experiment would tell, cost and learn, as the server computes it.
//
// Hooks for tests: data-fact plan_risk, plan_per_round, plan_total, plan_relays, plan_points, plan_statement, plan_state ("refused",
// "rough", "exact", "asking"), each with its data-value.
// @ts-check

import { Chart } from "./chart.js";
import { gauge } from "./meter.js";
import { el, fact, reveal, show, swap, write } from "./parts.js";
import { auc, aucWords, bytes, count, duration, many, percent } from "./words.js";

const STATES = {
  asking: "Computing …",
  refused: "This makes no sense yet: see what is marked.",
  rough: "The guarantee is still being planned.",
  exact: "As the coordinator would plan it.",
  silent: "The planner does not answer.",
};

/** The panel; `update(plan)`, `state(name)`, `close()`. */
export function planPanel() {
  const said = fact("plan_state", "p", { class: "soft plan-state", role: "status" });
  const attacker = attackersGauge();
  const perRound = place("plan_per_round");
  const perDay = place(null);
  const total = place("plan_total");
  const points = place("plan_points");
  const relays = place("plan_relays");
  const shared = place(null);
  const row = (name, { value, remark }) => el("div", {}, el("dt", {}, name), el("dd", {}, value, remark));
  const sharedRow = row("Features that share a bin", shared);
  const relaysRow = row("Each relay adds to a round", relays);
  const rows = el(
    "dl",
    { class: "plan-rows" },
    row("A device sends in a round", perRound),
    row("In a day, at most", perDay),
    row("In all rounds", total),
    relaysRow,
    row("Accuracy it costs", points),
    sharedRow,
  );
  const brief = el("a", { class: "plan-brief", href: "#plan-title" });
  const remarks = el("ul", { class: "plan-remarks" });
  const plot = el("div", { class: "plan-plot" });
  const statement = el("div", { class: "statement", "data-fact": "plan_statement" });
  const summary = el("summary", {}, "What people will read before they join");
  const read = el("details", { class: "plan-read" }, summary, statement);
  const node = el(
    "aside",
    { class: "plan panel", "aria-labelledby": "plan-title" },
    el("h2", { id: "plan-title" }, "What that means"),
    said,
    attacker.node,
    rows,
    remarks,
    plot,
    read,
  );
  let chart = null;

  function update(plan) {
    attacker.update(plan);
    packages(plan.packages, { perRound, perDay, total });
    reveal(relaysRow, Boolean(plan.plan));
    if (plan.plan) cover(plan.plan, relays);
    accuracy(plan.accuracy, points, plan.caveat);
    reveal(sharedRow, Boolean(plan.hashing));
    if (plan.hashing) {
      const each = plan.hashing.words_per_bin;
      show(shared.value, each < 10 ? each.toFixed(1) : count(each), each);
      write(shared.remark, "on average");
    }
    write(brief, inBrief(plan));
    swap(remarks, JSON.stringify([plan.refusals, plan.warnings]), () => [
      ...plan.refusals.map((one) => el("li", { class: "notice bad" }, one.sentence)),
      ...plan.warnings.map((one) => el("li", { class: "notice fair" }, one.sentence)),
    ]);
    swap(statement, JSON.stringify(plan.statement), () => plan.statement.map((one) => el("p", {}, one)));
    reveal(read, plan.statement.length > 0);
    reveal(plot, plan.curve.length > 0);
    if (plan.curve.length) {
      const spec = figure(plan);
      if (chart) chart.update(spec);
      else chart = new Chart(plot, spec, { height: 210 });
    }
  }

  return {
    node,
    brief,
    update,
    state: (name) => show(said, STATES[name] ?? "", name),
    close: () => chart?.destroy(),
  };
}

/** For a phone, where the panel is below the form: all of it in a line that stays in sight. */
function inBrief({ refusals, attacker, packages: sent, accuracy: cost }) {
  if (refusals.length) return refusals[0].sentence;
  const points = typeof cost?.points === "number" ? `, costs ${Math.max(0, cost.points).toFixed(0)} points` : "";
  return `risk ${times(attacker)}, ${count(sent?.per_round)} packages a round${points}`;
}

/** A number and a remark below it. */
function place(name) {
  return { value: name ? fact(name, "b") : el("b", {}, "–"), remark: el("span", { class: "remark" }) };
}

/** The one risk, as devices say it, rounded up where it was computed. */
export const times = (attacker) =>
  typeof attacker?.times === "number" ? `${attacker.times.toFixed(1)} times in 10` : "–";

/** How often a bet on somebody's answer would be right. */
function attackersGauge() {
  const value = fact("plan_risk", "b");
  const verdict = el("span", { class: "remark" });
  const whom = el("p", { class: "soft plan-whom" });
  const scale = gauge("auc", "Risk");
  const node = el(
    "div",
    { class: "meter plan-auc" },
    el("h3", {}, "The risk"),
    el("p", { class: "plan-number" }, value, verdict),
    scale.node,
    whom,
  );

  function update({ attacker, formal, rests_on: restsOn }) {
    const found = attacker?.risk ?? null;
    const known = found !== null;
    show(value, times(attacker), found);
    write(verdict, known ? "a bet on an answer is right at most; 5 is a coin toss" : "");
    scale.set(found, null, known ? `${times(attacker)}, ${aucWords(found)}` : "no number yet");
    write(whom, known ? whose(attacker, formal, restsOn) : "");
  }

  return { node, update };
}

function whose(attacker, formal, restsOn) {
  const floor = auc(attacker.auc_at_floor);
  if (formal) {
    return (
      `Of anybody who knows everything else: ${restsOn}. Devices say the same number. Without cover, public tallies ` +
      `alone would give an AUC of ${auc(attacker.auc_without_cover)}.`
    );
  }
  return (
    "Whoever chooses the weights can know every answer, so devices take part only where their people say so. In an " +
    `honest run, somebody who knows a person's features and reads all public tallies has an AUC of ` +
    `${auc(attacker.auc)}; with no more people than the floor, ${floor}.`
  );
}

function packages(told, { perRound, perDay, total }) {
  show(perRound.value, told ? count(told.per_round) : "–", told?.per_round ?? null);
  write(perRound.remark, told ? `packages, ${bytes(told.bytes_per_round)}` : "");
  show(perDay.value, told?.per_day ? count(told.per_day) : "–", told?.per_day ?? null);
  write(perDay.remark, told?.per_day ? `packages, ${bytes(told.bytes_per_day)}` : "");
  const known = typeof told?.total === "number";
  show(total.value, known ? count(told.total) : "–", told?.total ?? null);
  write(total.remark, known ? `packages in ${many(told.rounds, "round")}, ${bytes(told.bytes_total)}` : "");
}

/** What both relays take on, and what was chosen because nobody gave it. */
function cover(plan, place) {
  show(place.value, count(plan.packages), plan.packages);
  const { batch_s: batch, mix_s: mix, reveal_s: reveals, open_s: opens } = plan.times;
  const chosen = [`${many(plan.rounds, "round")}`, plan.rho && `ρ = ${plan.rho}`].filter(Boolean).join(", ");
  write(
    place.remark,
    `cover packages in ${plan.parts} parts; ${duration(1000 * (batch + mix + reveals + opens))} from a window's end ` +
      `until it is counted; ${chosen}`,
  );
}

function accuracy(told, points, caveat) {
  if (told?.forecast === false) {
    show(points.value, "–", null);
    write(points.remark, `No forecast: nothing was measured for ${told.beyond.join(" and ")}. The first rounds will tell.`);
    return;
  }
  const known = typeof told?.points === "number";
  show(points.value, known ? `about ${Math.max(0, told.points).toFixed(0)} points` : "–", told?.points ?? null);
  if (!known) {
    write(points.remark, told?.why ?? "");
    return;
  }
  const noise = told.by_noise >= 0.5 ? `, ${told.by_noise.toFixed(0)} of them by noise` : "";
  const edge = told.beyond.length
    ? ` Nothing was measured for ${told.beyond.join(" and ")}: computed at the edge of what was, so it may be better or worse.`
    : "";
  const instead = `${percent(told.expected)} instead of ${percent(told.central)} with all data in one place`;
  write(points.remark, `${instead}${noise}. ${caveat}${edge}`);
}

/** AUC against bins, as a chart. */
function figure({ curve, formal, attacker, asked_bins: bins }) {
  const x = curve.map((one) => one.bins);
  const without = { name: formal ? "without cover" : "public tallies", x, y: curve.map((one) => one.auc) };
  const held = { name: "with the guarantee", x, y: x.map(() => attacker.auc), colour: 2 };
  const here = curve.find((one) => one.bins === bins);
  const level = formal ? attacker.auc : here?.auc;
  return {
    name: "auc-bins",
    title: "The attacker's AUC against bins",
    description: "How well the label can be told, for fewer and more bins with everything else as it is.",
    across: "bins",
    up: "AUC",
    lowest: 0.5,
    highest: 1,
    log_across: true,
    curves: [
      { ...without, colour: 5, dashed: formal },
      ...(formal ? [held] : []),
      ...(here ? [{ name: "chosen", x: [bins], y: [level], colour: 0 }] : []),
    ],
    rules: [],
  };
}
