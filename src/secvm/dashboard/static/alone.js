// One figure alone, large: what a link to a plot shows.

import { Charts } from "./charts.js";
import { el, write } from "./parts.js";
import { FIGURES, TITLES, figure as spec } from "./figures.js";

export function open(main, page) {
  const { store } = page;
  const { digest, figure } = page.params;
  const back = `/experiment/${encodeURIComponent(digest)}`;
  const known = FIGURES.includes(figure);
  const name = el("a", { href: back }, "The experiment");
  const heading = el("h1", {}, known ? TITLES[figure] : "Not here");
  main.append(el("p", { class: "back" }, "← ", name), heading);
  if (!known) {
    main.append(el("p", {}, "There is no figure of this name. There are: "), others(back, figure));
    return { title: "Not here" };
  }
  const place = el("div", { class: "figures alone" });
  const waiting = el("p", { class: "soft" }, "");
  main.append(waiting, place, el("nav", { "aria-label": "Other figures" }, others(back, figure)));
  const charts = new Charts(page, digest, { [figure]: place });
  const view = { title: TITLES[figure], waits: true, update, rounds, experiment, close };
  let detail = null;
  load();

  async function load() {
    try {
      detail = await store.detail(digest);
      update();
      await charts.begin(seen());
      write(waiting, spec(figure, { ...seen(), history: charts.history }).description);
    } catch (fault) {
      write(waiting, fault.message);
    }
    view.waits = false;
    main.removeAttribute("aria-busy");
  }

  function seen() {
    const summary = store.summary(digest) ?? detail.summary;
    const cover = summary.privacy_kind === "cover";
    return { labels: detail.labels ?? summary.labels, floor: summary.floor, cover, leakage: detail.leakage };
  }

  function update() {
    const summary = store.summary(digest) ?? detail?.summary;
    if (!summary) return;
    write(name, summary.title);
    view.title = `${TITLES[figure]} · ${summary.title}`;
    page.retitle();
  }

  function rounds(changed) {
    if (changed === digest && detail) charts.update();
  }

  function experiment(changed) {
    if (changed !== digest || !store.details.has(digest)) return;
    detail = store.details.get(digest);
    if (charts.history.begun) charts.update(seen(), ["leakage"]);
    else charts.begin(seen());
  }

  function close() {
    charts.close();
  }

  return view;
}

function others(back, figure) {
  const names = FIGURES.filter((one) => one !== figure);
  const link = (one) => el("li", {}, el("a", { href: `${back}/${one}` }, TITLES[one]));
  return el("ul", { class: "plain row" }, names.map(link));
}
