// The operator's page: which view belongs to which address, what is told when something changes, and where focus goes.
//
// Addresses: /, /experiment/DIGEST[?from=N&to=M], /experiment/DIGEST/FIGURE, /new, /server. Each view is a module with
// `open(main, page)` that builds its elements once and returns { title, update(), close() }; `page` is below.
//
// Hooks for tests and other programs. `data-fact="NAME"` marks an element that shows a value of the API, `data-value`
// holds the value as the API has it ("" where it is null); `data-view` on <main> names the view; `aria-busy` is on
// <main> until the view has its data. `participants` is last.people over all labels together; `round` is the running
// one, else rounds_told.
//   every page   connection (connecting, live, lost); #trouble has as its value what it warns of: page, coordinator,
//                why, halted, quorum, relay, rounds
//   /            inside <li data-digest>: title, standing, round, rounds_planned, participants, floor, accuracy, auc,
//                epsilon, warning (whether there is one)
//   experiment   title, standing, round, rounds_planned, round_state, time_left, devices, participants, floor,
//                packages_per_s, accuracy, accuracy_low, accuracy_high, notes, abandoned, unopened, rounds, auc,
//                auc_planned, epsilon, epsilon_planned, privacy_kind, statement, budget, bins, hashes, features_per_person,
//                labels, relays, log_size, log_root, cosigned; charts are <section data-figure="NAME"> with NAME one of
//                recall, precision, participants, accuracy, leakage; [data-action="pause|resume|stop"] open
//                dialog#confirm, whose buttons are [data-action="confirm"] and [data-action="cancel"]; [data-last="N"]
//                show the last N rounds, 0: all
//   figure       one <section data-figure>
//   /server      reachable, packages_per_s, packages_total, stored_total, refused_total, log_size, log_root, cosigned,
//                quorum, audit_ok, audit_at, audit_faults, audit_warnings; each witness is <tr data-witness>,
//                backlog, commit_ms, started_at
//   operating    #admin-key (input), [data-action="forget-key"], data-fact key_held, data-fact refusal (the server's
//                sentence, with the status as its value)

import { standing, unheard } from "./banner.js";
import { el, reveal, show, swap, write } from "./parts.js";
import { Store } from "./store.js";
import { clock, zone } from "./words.js";

/** What is said aloud is said at most so often. */
const SPEAK_EVERY_MS = 8000;

const ROUTES = [
  { name: "overview", path: /^\/$/, load: () => import("./overview.js") },
  { name: "experiment", path: /^\/experiment\/([^/]+)$/, load: () => import("./experiment.js"), parts: ["digest"] },
  {
    name: "figure",
    path: /^\/experiment\/([^/]+)\/([^/]+)$/,
    load: () => import("./alone.js"),
    parts: ["digest", "figure"],
  },
  { name: "server", path: /^\/server$/, load: () => import("./server.js") },
  { name: "new", path: /^\/new$/, load: () => import("./new.js") },
];

const main = document.getElementById("main");
const store = new Store();
let view = null;
let turn = 0;
/** What is drawn, as an address. */
let place = "";

const page = { store, go, announce, retitle, params: {}, query: () => new URLSearchParams(location.search), setQuery };

/** Another address within this page. */
function go(path) {
  history.pushState(null, "", path);
  render(true);
}

/** The part of the address after "?", without a new step in the browser's history. */
function setQuery(changes) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) query.delete(name);
    else query.set(name, String(value));
  }
  history.replaceState(history.state, "", `${location.pathname}${query.size ? `?${query}` : ""}`);
  place = location.pathname + location.search;
}

/** Draw what the address asks for. `moved`: by a person, who then hears and sees its heading first. */
async function render(moved) {
  const mine = (turn += 1);
  place = location.pathname + location.search;
  const found = ROUTES.map((one) => ({ ...one, match: one.path.exec(location.pathname) })).find((one) => one.match);
  markPlace();
  main.setAttribute("aria-busy", "true");
  let module;
  try {
    module = found ? await found.load() : null;
  } catch {
    module = null;
  }
  if (mine !== turn) return;
  view?.close?.();
  main.replaceChildren();
  main.dataset.view = found?.name ?? "none";
  page.params = {};
  found?.parts?.forEach((name, i) => (page.params[name] = decodeURIComponent(found.match[i + 1])));
  view = module ? module.open(main, page) : nothingHere(found);
  retitle();
  if (store.now) update();
  if (!view.waits) main.removeAttribute("aria-busy");
  if (!moved) return;
  scrollTo(0, 0);
  const heading = main.querySelector("h1");
  heading?.setAttribute("tabindex", "-1");
  heading?.focus({ preventScroll: true });
}

function nothingHere(found) {
  const why = found ? "This part of the page could not be loaded from its server." : "Nothing has this address.";
  main.append(el("h1", {}, "Not here"), el("p", {}, why), el("p", {}, el("a", { href: "/" }, "All experiments")));
  return { title: "Not here" };
}

function retitle() {
  const title = view?.title ? `${view.title} · SecVM` : "SecVM";
  if (document.title !== title) document.title = title;
}

function markPlace() {
  for (const link of document.querySelectorAll("header nav a")) {
    const here = new URL(link.href).pathname;
    const below = here === "/" && location.pathname.startsWith("/experiment/");
    if (here === location.pathname) link.setAttribute("aria-current", "page");
    else if (below) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

function update() {
  view?.update?.();
  retitle();
  trouble();
}

function said({ says, href, more }) {
  return el("p", {}, says, href && [" ", el("a", { href }, more)]);
}

/** What is wrong between here and the coordinator, and what stands still there. */
function trouble() {
  const { now, link } = store;
  const box = document.getElementById("trouble");
  const state = document.getElementById("link-state");
  const coordinator = now?.coordinator;
  const away = unheard(store);
  const all = [...away, ...(now && !away.length ? standing(now, location.pathname) : [])];
  swap(box, JSON.stringify(all), () => all.map(said));
  reveal(box, all.length > 0);
  box.dataset.value = all.map(({ what }) => what).join(",");
  document.body.classList.toggle("stale", away.length > 0);
  const words = { connecting: "Connecting", live: away.length ? "Stale" : "Live", lost: "Not connected" };
  show(state, words[link], link);
  state.dataset.time = link === "live" ? `${clock(now?.now, now?.now)} ${zone(now?.now)}` : "";
  if (coordinator) write(document.getElementById("coordinator"), `Coordinator: ${coordinator.url}`);
}

let spoken = -SPEAK_EVERY_MS;
let waiting = 0;
let words = "";

/** For people who listen: one sentence when something happened, not every second. */
function announce(sentence) {
  words = sentence;
  if (waiting) return;
  waiting = setTimeout(() => {
    waiting = 0;
    spoken = performance.now();
    write(document.getElementById("said"), words);
  }, Math.max(150, spoken + SPEAK_EVERY_MS - performance.now()));
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (!ROUTES.some(({ path }) => path.test(link.pathname))) return;
  if (link.hash && link.pathname === location.pathname) return;
  event.preventDefault();
  go(link.pathname + link.search);
});
addEventListener("popstate", () => {
  // Of a step to an anchor on the same page nothing is to be drawn.
  if (location.pathname + location.search !== place) render(true);
});
store.addEventListener("now", update);
let lost = false;
store.addEventListener("link", () => {
  trouble();
  if (lost && store.link === "live") announce("Connected again.");
  lost ||= store.link === "lost";
});
for (const name of ["rounds", "experiment"]) {
  store.addEventListener(name, (event) => view?.[name]?.(event.detail));
}
render(false);
store.start();
