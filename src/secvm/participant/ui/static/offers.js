// Experiments that ask to take part: found when the person asks, read before a yes, declined for good.
// @ts-check
import { close, show, tried } from "./dialogs.js";
import { who } from "./experiments.js";
import { button, counted, el, moment, sentences, size } from "./parts.js";
import { act } from "./talk.js";

/** @typedef {(said: string) => Promise<void>} Done */

/** @param {any} state @param {Done} done @returns {Node[]} */
export function offersPart(state, done) {
  const offers = state.offers;
  if (!offers.possible) {
    return [el("p", { class: "panel" }, "Your device knows no relay yet. With an invite, run: secvm participant init"
      + " INVITE, and start this page again.")];
  }
  return [asking(offers, state, done), ...offers.list.map((/** @type {any} */ one) => offerPanel(one, done))];
}

/** @param {any} offers @param {any} state @param {Done} done */
function asking(offers, state, done) {
  const name = el("input", { id: "digest", autocomplete: "off", spellcheck: "false", maxlength: "64" });
  const find = (/** @type {object} */ said) => tried(async () => {
    await act("find", said);
    await done("Asked for experiments.");
  });
  const told = offers.asked_at === null
    ? "You have not looked for experiments yet. Asking goes through a relay: the coordinator does not learn who asks."
    : offers.problem ?? (offers.list.length ? `Asked ${moment(offers.asked_at, state.now)}.`
      : `Asked ${moment(offers.asked_at, state.now)}: no other experiment wants you now.`);
  return el("div", { class: "panel" },
    el("p", { id: "asked" }, told),
    el("div", { class: "ask" },
      button("find", "Ask which there are", () => find({}), "primary"),
      el("div", { class: "field" }, el("label", { for: "digest" }, "Or one that you were told of, by its name"), name),
      button("find-one", "Find it", () => find({ digest: /** @type {HTMLInputElement} */ (name).value.trim() }))));
}

/** @param {any} one @param {Done} done */
function offerPanel(one, done) {
  const key = one.digest.slice(0, 12);
  const [words, kind] = one.refusal === null ? ["your device agrees", "good"]
    : one.accept === null ? ["your device refuses", "bad"] : ["tells more than your device likes", "fair"];
  return el("article", { class: "panel experiment", "data-offer": one.digest, "aria-labelledby": `offer-${key}` },
    el("header", {}, el("h3", { id: `offer-${key}` }, one.title),
      one.invited ? el("span", { class: "badge" }, "you were invited") : null,
      el("span", { class: `badge ${kind}` }, words)),
    el("p", { class: "asks" }, one.asks.join(" ")),
    el("p", { class: "question" }, one.question),
    el("p", { class: "soft" }, `It looks at: ${one.looks_at}. ${counted(one.rounds_planned, "round")}, each`
      + ` ${counted(one.packages_a_round, "package")} (${size(one.bytes_a_round)}).`
      + (one.guarantee ? " It adds noise, for a formal guarantee." : " It has no formal guarantee.")),
    el("div", { class: "actions" },
      button(`${key}:read`, "Read what it means …", () => statement(one, done), "primary"),
      button(`${key}:decline`, "No", () => decline(one, done))));
}

/** @param {any} one @param {Done} done */
const decline = (one, done) => tried(async () => {
  await act("decline", { digest: one.digest });
  close();
  await done(`You said no to: ${one.title}`);
});

/** @param {any} one @param {Done} done */
function statement(one, done) {
  const answer = answerField(one);
  const accept = /** @type {HTMLInputElement | null} */ (one.accept === null ? null
    : el("input", { type: "checkbox", id: "accept" }));
  const missing = one.features_here === 0;
  const bringIn = (/** @type {string} */ profile) =>
    button(`import-${profile}`, `Read it from ${profile}`, () => tried(async () => {
      const made = await (await act("import", { digest: one.digest, profile })).json();
      close();
      await done(`Your device has ${counted(made.features, "word")} now. Nothing was sent.`);
    }));
  const possible = !missing && (one.refusal === null || one.accept !== null);
  const join = button("join", "Take part", () => tried(async () => {
    const field = /** @type {HTMLInputElement | HTMLSelectElement | null} */ (document.getElementById("answer"));
    await act("join", {
      digest: one.digest,
      answer: field === null || field.value === "" ? null : field.value,
      accept: accept === null ? null : one.accept,
    });
    close();
    await done(`You take part in: ${one.title}`);
  }), "primary");
  const ready = () => {
    const field = /** @type {HTMLInputElement | HTMLSelectElement | null} */ (document.getElementById("answer"));
    const answered = one.answered || (field !== null && field.value.trim() !== "");
    join.toggleAttribute("disabled", !answered || (accept !== null && !accept.checked));
  };
  show(one.title, [
    el("h3", {}, "Who asks"), sentences(one.asks),
    el("p", { class: "question" }, one.question),
    one.test ? el("p", { class: "notice fair" }, "It is marked as a test: it is not for people’s own data.") : null,
    el("h3", {}, "In short"),
    sentences(one.short),
    el("h3", {}, "What taking part means, in full"),
    sentences(one.leaves),
    el("h3", {}, "What it looks at, and who carries it"), who(one),
    refusal(one),
    missing ? el("div", { class: "notice fair" },
      el("p", {}, `Your device has nothing of the source “${one.source}” yet.`),
      el("div", { class: "actions" }, one.profiles.map(bringIn)),
      el("p", { class: "small-print" }, "It stays on this machine. Anything else: secvm participant import")) : null,
    possible ? answer : null,
    possible && accept !== null ? el("label", { class: "choice" }, accept,
      el("span", {}, `I accept this risk, for this experiment only: ${acceptWords(one.accept)}`)) : null,
  ], [button("decline-here", "No, and do not ask again", () => decline(one, done)), ...(possible ? [join] : [])]);
  ready();
  const open = document.getElementById("dialog");
  if (open !== null) open.oninput = ready;
}

/** @param {{auc: number | null, epsilon: number | null}} accept */
const acceptWords = (accept) => accept.auc === null ? `ε up to ${accept.epsilon}.`
  : accept.auc >= 1 ? "somebody may be certain of your answer."
    : `somebody who knows your features may guess your answer with an AUC of ${accept.auc} (1 is certainty), and a`
      + " coordinator that chooses the weights with one of 1.00.";

/** @param {any} one */
function refusal(one) {
  if (one.refusal === null) return null;
  const help = one.accept === null && one.next_step ? el("p", { class: "small-print" }, one.next_step) : null;
  return el("div", { class: one.accept === null ? "notice bad" : "notice fair" },
    el("p", {}, `By what you have set, your device would say no: ${one.refusal}.`), help);
}

/** @param {any} one */
function answerField(one) {
  const hint = one.answered ? "Your device has your answer already; leave this as it is to keep it."
    : "It stays on this device, and decides what your packages say.";
  const field = one.labels === null
    ? el("input", { id: "answer", inputmode: "decimal", autocomplete: "off", "aria-describedby": "answer-hint" })
    : el("select", { id: "answer", autocomplete: "off", "aria-describedby": "answer-hint" },
      el("option", { value: "" }, one.answered ? "as I said before" : "choose …"),
      ...one.labels.map((/** @type {string} */ label) => el("option", { value: label }, label)));
  return el("div", { class: "field" }, el("label", { for: "answer" }, "Your own answer"), field,
    el("p", { class: "hint", id: "answer-hint" }, hint));
}
