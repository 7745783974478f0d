// Experiments that ask to take part: found when the person asks, read before a yes, declined for good.
// @ts-check
import { close, show, tried } from "./dialogs.js";
import { who } from "./experiments.js";
import { said, t } from "./language.js";
import { button, el, folded, moment, sentences, size } from "./parts.js";
import { act } from "./talk.js";

/** @typedef {(said: string) => Promise<void>} Done */

/** @param {any} state @param {Done} done @returns {Node[]} */
export function offersPart(state, done) {
  const offers = state.offers;
  const invite = offers.invites ? [invitePanel(done)] : [];
  if (!offers.possible) {
    return [el("p", { class: "panel" }, t("offers.unknown-relay")), ...invite];
  }
  const list = offers.list.map((/** @type {any} */ one) => offerPanel(one, done));
  // What somebody was invited to is why they are here; looking for others comes after it.
  const first = offers.list.filter((/** @type {any} */ one) => one.invited).length;
  return [...list.slice(0, first), asking(offers, state, done), ...invite, ...list.slice(first)];
}

/** @param {any} offers @param {any} state @param {Done} done */
function asking(offers, state, done) {
  const name = el("input", { id: "digest", autocomplete: "off", spellcheck: "false", maxlength: "64" });
  const find = (/** @type {object} */ said) => tried(async () => {
    await act("find", said);
    await done(t("done.asked"));
  });
  const told = offers.asked_at === null
    ? t(offers.list.length ? "offers.never-others" : "offers.never")
    : offers.problem !== null ? said(offers.problem) : t(offers.list.length ? "offers.asked" : "offers.none",
      { when: moment(offers.asked_at, state.now) });
  return el("div", { class: "panel" },
    el("p", { id: "asked" }, told),
    el("div", { class: "ask" },
      button("find", t("offers.ask"), () => find({}), offers.list.length ? "" : "primary"),
      el("div", { class: "field" }, el("label", { for: "digest" }, t("offers.name")), name),
      button("find-one", t("offers.find"),
        () => find({ digest: /** @type {HTMLInputElement} */ (name).value.trim() }))));
}

/**
 * Where this device takes invites up itself: the line, or the file that has it.
 * @param {Done} done
 */
function invitePanel(done) {
  const line = /** @type {HTMLInputElement} */ (el("input",
    { id: "invite", autocomplete: "off", spellcheck: "false", maxlength: "600", placeholder: "secvm:…" }));
  const file = /** @type {HTMLInputElement} */ (el("input", { id: "invite-file", type: "file" }));
  file.addEventListener("change", async () => {
    line.value = (await file.files?.[0]?.slice(0, 1000).text() ?? "").trim();
  });
  return el("div", { class: "panel" },
    el("p", {}, t("invite.what")),
    el("div", { class: "ask" },
      el("div", { class: "field" }, el("label", { for: "invite" }, t("invite.line")), line),
      el("div", { class: "field" }, el("label", { for: "invite-file" }, t("invite.file")), file),
      button("take-invite", t("invite.take"), () => tried(async () => {
        await act("invite", { line: line.value.trim() });
        line.value = file.value = "";
        await done(t("done.invited"));
      }), "primary")));
}

/** @param {any} one @param {Done} done */
function offerPanel(one, done) {
  const key = one.digest.slice(0, 12);
  const [name, kind] = one.refusal === null ? ["agrees", "good"]
    : one.accept === null ? ["refuses", "bad"] : ["doubts", "fair"];
  return el("article", { class: "panel experiment", "data-offer": one.digest, "aria-labelledby": `offer-${key}` },
    el("header", {}, el("h3", { id: `offer-${key}` }, one.title),
      one.invited ? el("span", { class: "badge" }, t("offers.invited")) : null,
      one.test ? el("span", { class: "badge fair" }, t("offers.test")) : null,
      el("span", { class: `badge ${kind}` }, t(`offer.${name}`))),
    el("p", { class: "asks" }, one.asks.map(said).join(" ")),
    el("p", { class: "question" }, one.question),
    el("p", { class: "risk", "data-times": one.short[0].values.times ?? 10 }, said(one.short[0])),
    el("p", { class: "soft" }, t("offer.brief",
      { looks_at: one.looks_at, n: one.rounds_planned, size: size(one.bytes_a_round) })),
    el("div", { class: "actions" },
      button(`${key}:read`, t("offers.read"), () => statement(one, done), "primary"),
      button(`${key}:decline`, t("offers.no"), () => decline(one, done))));
}

/** @param {any} one @param {Done} done */
const decline = (one, done) => tried(async () => {
  await act("decline", { digest: one.digest });
  close();
  await done(t("done.declined", { title: one.title }));
});

/** @param {any} one @param {Done} done */
function statement(one, done) {
  const answer = answerField(one);
  const accept = /** @type {HTMLInputElement | null} */ (one.accept === null ? null
    : el("input", { type: "checkbox", id: "accept" }));
  const missing = one.features_here === 0 || one.further === true;
  const bringIn = (/** @type {string} */ profile) =>
    button(`import-${profile}`, t("offer.read-from", { profile }), () => tried(async () => {
      const made = await (await act("import", { digest: one.digest, profile })).json();
      close();
      await done(t("done.imported", { n: made.features }));
    }));
  const possible = !missing && (one.refusal === null || one.accept !== null);
  const join = button("join", t("offer.join"), () => tried(async () => {
    const field = /** @type {HTMLInputElement | HTMLSelectElement | null} */ (document.getElementById("answer"));
    await act("join", {
      digest: one.digest,
      answer: field === null || field.value === "" ? null : field.value,
      accept: accept === null ? null : one.accept,
    });
    close();
    await done(t("done.joined", { title: one.title }));
  }), "primary");
  const ready = () => {
    const field = /** @type {HTMLInputElement | HTMLSelectElement | null} */ (document.getElementById("answer"));
    const answered = one.answered || (field !== null && field.value.trim() !== "");
    join.toggleAttribute("disabled", !answered || (accept !== null && !accept.checked));
  };
  show(one.title, [
    el("h3", {}, t("offer.asks")), sentences(one.asks),
    el("p", { class: "question" }, one.question),
    one.test ? el("p", { class: "notice fair" }, t("offer.test")) : null,
    el("h3", {}, t("offer.short")),
    sentences(one.short),
    folded("offer:full", t("offer.full"), sentences(one.leaves)),
    folded("offer:figures", t("fold.figures"), sentences(one.figures)),
    folded("offer:who", t("fold.who"), who(one)),
    refusal(one),
    missing ? el("div", { class: "notice fair" },
      el("p", {}, t(one.further ? "offer.further" : "offer.missing", { source: one.source })),
      el("div", { class: "actions" }, one.profiles.map(bringIn)),
      el("p", { class: "small-print" }, t("offer.import", { command: one.import_with ?? "" }))) : null,
    possible ? answer : null,
    possible && accept !== null ? el("label", { class: "choice" }, accept,
      el("span", {}, t("offer.accept", { risk: said(one.short[0]) }))) : null,
  ], [button("decline-here", t("offer.decline"), () => decline(one, done)), ...(possible ? [join] : [])]);
  ready();
  const open = document.getElementById("dialog");
  if (open !== null) open.oninput = ready;
}

/** @param {any} one */
function refusal(one) {
  if (one.refusal === null) return null;
  const help = one.accept === null && one.next_step ? el("p", { class: "small-print" }, one.next_step) : null;
  return el("div", { class: one.accept === null ? "notice bad" : "notice fair" },
    el("p", {}, t("offer.refusal", { why: said(one.refusal) })), help);
}

/** @param {any} one */
function answerField(one) {
  const hint = t(one.answered ? "answer.kept" : "answer.stays");
  const field = one.labels === null
    ? el("input", { id: "answer", inputmode: "decimal", autocomplete: "off", "aria-describedby": "answer-hint" })
    : el("select", { id: "answer", autocomplete: "off", "aria-describedby": "answer-hint" },
      el("option", { value: "" }, t(one.answered ? "answer.before" : "answer.choose")),
      ...one.labels.map((/** @type {string} */ label) => el("option", { value: label }, label)));
  return el("div", { class: "field" }, el("label", { for: "answer" }, t("answer.label")), field,
    el("p", { class: "hint", id: "answer-hint" }, hint));
}
