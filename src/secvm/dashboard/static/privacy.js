// What an experiment gives away: the meter, and the statement in plain words with what it rests on.

import { el, fact, reveal, section, show, swap } from "./parts.js";
import { NO_PROTECTION, meter } from "./meter.js";
import { bytes, count, percent, power } from "./words.js";

export function privacyPart() {
  const formal = meter("epsilon", "Privacy loss so far, epsilon");
  const label = meter("auc", "Leakage of the label so far, as AUC");
  const kind = fact("privacy_kind", "p", { class: "lead" });
  const formalBox = el("div", { hidden: true }, el("h3", {}, "The guarantee"), formal.node);
  const labelHeading = el("h3", {}, "The label");
  const labelWords = el("p", { class: "soft" });
  const labelBox = el("div", {}, labelHeading, labelWords, label.node);
  const none = el("p", { hidden: true }, "For a label that is a number there is no law yet, so there is no meter.");
  const statement = el("div", { class: "statement", "data-fact": "statement" });
  const curve = el("div", { class: "curve" });
  const node = section(
    "privacy",
    "What it gives away",
    { class: "privacy" },
    kind,
    el(
      "div",
      { class: "columns" },
      el("div", {}, el("div", { class: "panel meters" }, formalBox, labelBox, none), curve),
      statement,
    ),
  );

  function update(summary, detail) {
    const { privacy = null, leakage } = detail;
    const covered = summary.formal_guarantee === true;
    // Too little noise guarantees nothing: then there is no ε.
    const guaranteed = covered && (summary.epsilon_planned ?? null) !== null;
    show(kind, worth(covered, guaranteed, privacy, leakage), summary.privacy_kind);
    reveal(formalBox, guaranteed);
    const planned = summary.auc_planned ?? null;
    reveal(labelBox, summary.auc !== null || planned !== null);
    reveal(none, labelBox.hidden && !covered && summary.labels.length === 1);
    formal.update(summary.epsilon ?? null, summary.epsilon_planned ?? null);
    label.update(summary.auc ?? null, planned);
    const without = "If there were no cover, somebody who knows a person's features would tell the label like this.";
    const plain =
      "How well somebody who knows a person's features tells the label, if the person took part in every round so far.";
    labelWords.textContent = covered ? without : plain;
    swap(statement, JSON.stringify([privacy?.statement, privacy?.assumptions]), () => said(privacy));
  }

  return { node, update, curve };
}

/** Whether there is a guarantee, and whether it deserves the name. */
function worth(covered, guaranteed, privacy, leakage) {
  if (!covered) return "There is no formal guarantee. What the public tallies give away is measured instead.";
  if (!guaranteed) return "There is cover, and it guarantees nothing: so little noise is not enough.";
  const known = Array.isArray(privacy?.assumptions);
  if (known && (privacy.epsilon === null || privacy.epsilon >= NO_PROTECTION)) {
    return "There is a guarantee by name alone: its ε is so large that it protects nobody.";
  }
  const delta = `δ\u00a0=\u00a0${power(privacy?.delta ?? leakage?.delta)}`;
  return `There is a guarantee, under assumptions: (ε, δ)-differential privacy with ${delta}.`;
}

function said(privacy) {
  const sentences = privacy?.statement ?? [];
  const assumed = (privacy?.assumptions ?? []).filter((one) => !sentences.includes(one));
  return [
    el("h3", {}, "In plain words, to the person with the device"),
    sentences.length ? sentences.map((one) => el("p", {}, one)) : el("p", {}, "The statement is being computed."),
    assumed.length > 0 && [el("h3", {}, "It rests on"), el("ul", {}, assumed.map((one) => el("li", {}, one)))],
  ].flat(2);
}
