// One experiment: the round that runs, how well it does per class, what it gives away, what is asked, and its controls.

import { askedPart } from "./asked.js";
import { Charts } from "./charts.js";
import { el, fact, reveal, section, show, swap, write } from "./parts.js";
import { FIGURES } from "./figures.js";
import { operatePart } from "./operate.js";
import { stand, trainedIn } from "./overview.js";
import { privacyPart } from "./privacy.js";
import { runningPart } from "./running.js";
import { roundsPart } from "./rounds.js";
import { ended, endedWords, isLate, warnings } from "./watch.js";
import { STANDINGS, count, estimate, percent } from "./words.js";

/** When to ask again for what is still being computed. */
const LATER_MS = 8000;

export function open(main, page) {
  const { store } = page;
  const { digest } = page.params;
  const title = fact("title");
  const standing = fact("standing", "span", { class: "standing badge" });
  const test = el("span", { class: "badge", hidden: true }, "test");
  const says = el("span", { class: "soft" });
  const question = el("p", { class: "lead" });
  const asker = el("p", { class: "soft" });
  const notes = el("div", { "data-fact": "notes" });
  const reading = el(
    "p",
    { class: "soft" },
    "Bands are 95 % intervals. Dashed: the marginal baseline, what a guess by the labels' shares alone would reach.",
  );
  const [lost, unopened] = ["abandoned", "unopened"].map((state) => fact(state, "p", { class: "soft" }));
  const curves = el("div", { class: "figures" });
  const operate = operatePart(page, digest);
  const [running, newest, privacy, asked] = [runningPart(), roundsPart(), privacyPart(), askedPart()];
  const body = el(
    "div",
    { hidden: true },
    el("div", { class: "row between" }, el("p", { class: "marks" }, standing, test, says), operate.node),
    asker,
    question,
    notes,
    running.node,
    section("curves", "How well it does", {}, reading, curves, lost, unopened),
    newest.node,
    privacy.node,
    asked.node,
  );
  const waiting = el("p", { class: "soft" }, "Loading the experiment …");
  const back = el("p", { class: "back" }, el("a", { href: "/" }, "← All experiments"));
  main.append(back, el("h1", {}, title), waiting, body);
  const places = Object.fromEntries(FIGURES.map((name) => [name, name === "leakage" ? privacy.curve : curves]));
  const charts = new Charts(page, digest, places);
  const view = { title: "Experiment", waits: true, update, rounds, experiment, close };
  let detail = null;
  let failed = false;
  let remarked = "";
  let before = null;
  let gone = false;
  const ticking = setInterval(() => {
    const summary = store.summary(digest);
    if (summary && !document.hidden) running.tick(store, summary.running);
  }, 1000);
  load();

  async function load() {
    try {
      detail = await store.detail(digest);
    } catch (fault) {
      if (gone) return;
      failed = true;
      write(waiting, fault.message);
      write(title, "Not here");
      main.removeAttribute("aria-busy");
      return;
    }
    if (gone) return;
    reckoned();
    update();
    await charts.begin(seen());
    if (gone) return;
    view.waits = false;
    main.removeAttribute("aria-busy");
    update();
  }

  /** A statement with cover takes its time; until it is there it is asked for again. */
  function reckoned() {
    if (detail.privacy?.kind || !detail.bins) return;
    setTimeout(() => gone || store.takeChange(digest), LATER_MS);
  }

  function seen() {
    const summary = store.summary(digest) ?? detail.summary;
    return {
      labels: detail.labels ?? summary.labels,
      floor: summary.floor ?? detail.floor ?? null,
      cover: summary.privacy_kind !== "plain",
      leakage: detail.leakage,
    };
  }

  function update() {
    const summary = store.summary(digest) ?? detail?.summary;
    if (!summary) return;
    view.title = summary.title;
    page.retitle();
    show(title, summary.title, summary.title);
    if (failed) {
      // It was not known when this page was opened, and is now.
      failed = false;
      load();
    }
    if (!detail) return;
    reveal(waiting, false);
    reveal(body, true);
    stand(standing, summary.standing);
    reveal(test, Boolean(summary.test));
    write(says, STANDINGS[summary.standing]?.says ?? "");
    write(asker, detail.operator ? `Asked by ${detail.operator}` : "");
    write(question, detail.question ?? "");
    reveal(reading, summary.labels.length > 1);
    running.update(store, summary, detail);
    // Of an experiment whose document cannot be read nothing is claimed.
    const read = Boolean(detail.privacy);
    reveal(privacy.node, read);
    reveal(asked.node, read);
    if (read) {
      privacy.update(summary, detail);
      asked.update(summary, detail);
    }
    operate.update(summary);
    remarks(summary);
    speak(summary);
  }

  function remarks(summary) {
    const { standing, notes: told, problem, in_vain: inVain } = summary;
    const time = store.now.coordinator.reachable ? store.time : null;
    const key = JSON.stringify([charts.history.version, standing, told, problem, inVain, isLate(summary.running, time)]);
    // All rounds are looked through for this: not every second.
    if (key === remarked) return;
    remarked = key;
    const found = warnings(summary, charts.history, time);
    const words = { bad: "Warning: ", fair: "Note: ", "": "" };
    notes.setAttribute("data-value", String(found.length));
    swap(notes, JSON.stringify(found), () =>
      found.map(({ weight, says: said }) =>
        el("div", { class: `notice ${weight}` }, el("p", {}, el("strong", {}, words[weight]), said)),
      ),
    );
    for (const [place, state] of [[lost, "abandoned"], [unopened, "unopened"]]) {
      show(place, endedWords(charts.history, state), ended(charts.history, state).length);
    }
    newest.update(charts.history, store.now.now);
  }

  /** Aloud: a round that was counted, another standing. Never a number that changes every second. */
  function speak(summary) {
    const now = { standing: summary.standing, last: summary.last?.number ?? null };
    if (before && before.standing !== now.standing) page.announce(`The experiment is ${now.standing}.`);
    else if (before && before.last !== now.last && summary.last) {
      const trained = `${estimate(trainedIn(summary.last))} trained`;
      const right = summary.last.accuracy === null ? "" : `, accuracy ${percent(summary.last.accuracy)}`;
      page.announce(`Round ${count(now.last)} is counted: ${trained}${right}.`);
    }
    before = now;
  }

  function rounds(changed) {
    if (changed !== digest || !detail) return;
    charts.update();
    const summary = store.summary(digest);
    if (summary) remarks(summary);
  }

  function experiment(changed) {
    // While it is being loaded, what is loaded is as new.
    if (changed !== digest || !detail) return;
    detail = store.details.get(digest);
    reckoned();
    if (charts.history.begun) charts.update(seen(), ["leakage"]);
    else charts.begin(seen());
    update();
  }

  function close() {
    gone = true;
    clearInterval(ticking);
    charts.close();
    operate.close();
  }

  return view;
}
