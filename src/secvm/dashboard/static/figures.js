// The figures of an experiment as values, in the shape that the chart component takes. Arrays are the history's own.

import { count } from "./words.js";

/** Names as they stand in addresses. */
export const FIGURES = ["recall", "precision", "participants", "accuracy", "leakage"];

export const TITLES = {
  recall: "Recall per class",
  precision: "Precision per class",
  participants: "Participants per class",
  accuracy: "Accuracy",
  leakage: "Leakage so far",
};

const KINDS = {
  recall: "Of the people who have a label, the share that the model gives it to",
  precision: "Of the people whom the model gives a label, the share that has it",
};

/** The figure of this name. `seen`: { history, labels, floor, leakage, cover }. */
export function figure(name, seen) {
  const made = { recall: perClass, precision: perClass, participants, accuracy, leakage }[name](seen, name);
  const x = seen.history.columns.number;
  return {
    name,
    title: TITLES[name],
    across: "round",
    percent: false,
    lowest: null,
    highest: null,
    log_across: false,
    bars: null,
    rules: [],
    shades: shades(seen.history),
    ...made,
    curves: made.curves.map((curve) => ({ low: null, high: null, dashed: false, ...curve, x })),
  };
}

/** Nights, where there are days between them: a shade over everything says nothing. */
function shades({ nights, first, last }) {
  if (nights.length === 1 && nights[0][0] <= first && nights[0][1] >= last) return [];
  return nights.map(([low, high]) => ({ low, high, name: "night" }));
}

/** Whether there is anything to draw: a label that is a number has neither recall nor accuracy. */
export function has(name, { history, labels, leakage: told }) {
  if (name === "leakage") {
    // All up to now is told; what it was before follows from there, so the newest rounds must be known.
    return typeof told?.d_prime === "number" && !told.formal_guarantee && history.last >= told.rounds_told;
  }
  if (name === "participants") return true;
  return labels.length > 1 && history.columns.accuracy !== undefined;
}

function perClass({ history, labels }, name) {
  const { columns } = history;
  const curves = labels.flatMap((label, colour) => {
    const found = columns[name]?.[label];
    if (!found) return [];
    return [{ name: label, y: found.value, low: found.low, high: found.high, colour }];
  });
  const guesses = labels.flatMap((label, colour) => {
    const found = columns.baseline?.[label];
    return found ? [{ name: `${label}, baseline`, y: found.value, colour, dashed: true }] : [];
  });
  return {
    description:
      `${KINDS[name]}, in every round, with 95 % intervals as bands. Dashed: the marginal baseline, what a guess by ` +
      "the labels' shares alone would reach. A gap is a round that was abandoned, is unopened or is not counted yet.",
    up: name,
    percent: true,
    lowest: 0,
    highest: 1,
    curves: [...curves, ...guesses],
  };
}

function participants({ history, labels, floor, cover }) {
  const told = (cover ? history.columns.people : null) ?? history.columns.participants ?? {};
  const curves = labels.flatMap((label, colour) => (told[label] ? [{ name: label, y: told[label], colour }] : []));
  if (curves.length > 1) curves.push({ name: "together", y: history.together(told, labels), colour: 7 });
  return {
    description:
      `How many trained in every round${cover ? ", with the mean of the cover taken off" : ""}. A round in which ` +
      `fewer than ${count(floor)} train is abandoned, and nothing of it is told: it is a gap.`,
    up: "participants",
    lowest: 0,
    curves,
    rules: floor === null ? [] : [{ name: `floor ${count(floor)}`, value: floor }],
  };
}

function accuracy({ history }) {
  const found = history.columns.accuracy;
  return {
    description: "The share of test participants whose label the model of that round told, with 95 % intervals.",
    up: "accuracy",
    percent: true,
    lowest: 0,
    highest: 1,
    curves: found ? [{ name: "accuracy", y: found.value, low: found.low, high: found.high, colour: 2 }] : [],
  };
}

function leakage({ history, leakage: told }) {
  const rules = [{ name: "a coin", value: 0.5 }];
  if (told.planned_auc !== null && told.planned_auc !== undefined) {
    rules.push({ name: "planned for all rounds", value: told.planned_auc });
  }
  return {
    description:
      "The AUC with which somebody who knows a person's features would tell the label from all tallies up to that " +
      "round, if the person took part in each. 0.5 is a coin, 1 is certainty.",
    up: "AUC",
    lowest: 0.5,
    highest: 1,
    curves: [{ name: "AUC so far", y: soFar(history, told), colour: 5 }],
    rules,
  };
}

/** AUC after each round. What all rounds up to `rounds_told` give together is told; before and after it d'² add up. */
function soFar(history, told) {
  const { number, d_prime: each = [] } = history.columns;
  const squares = each.map((value) => (value ?? 0) ** 2);
  let before = told.d_prime ** 2;
  for (let i = 0; i < squares.length; i += 1) if (number[i] <= told.rounds_told) before -= squares[i];
  let sum = Math.max(0, before);
  return squares.map((square, i) => {
    sum += square;
    return each[i] === null || each[i] === undefined ? null : 0.5 * (1 + erf(Math.sqrt(sum) / 2));
  });
}

/** The error function to 1.5e-7 (Abramowitz and Stegun 7.1.26): far finer than a pixel. */
function erf(x) {
  const t = 1 / (1 + 0.3275911 * x);
  const sum = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return 1 - sum * Math.exp(-x * x);
}
