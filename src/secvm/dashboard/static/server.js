// How the coordinator itself is: what it takes in and refuses, its log and who cosigns it, and the last audit.

import { el, fact, reveal, section, show, swap, table, tile, write } from "./parts.js";
import { keyState } from "./operate.js";
import { clock, count, duration, many, rate, sentence, shortened } from "./words.js";

export function open(main, page) {
  const { store } = page;
  const [ingest, log, audit] = [ingestPart(), logPart(), auditPart()];
  const reach = fact("reachable", "p", { class: "lead" });
  const waiting = el("p", { class: "soft" }, "Asking the server what there is …");
  const right = el("div", { class: "stack" }, audit.node, ingest.refused);
  const sides = el("div", { class: "columns sides" }, log.node, right);
  const body = el("div", { hidden: true }, reach, ingest.node, sides);
  const key = keyState();
  main.append(el("h1", {}, "Server"), waiting, body, key.node);

  function update() {
    const { now, coordinator, server } = store.now;
    reveal(waiting, false);
    reveal(body, true);
    const since = coordinator.since === null ? "" : ` since ${clock(coordinator.since, now)}`;
    const how = coordinator.reachable ? "has been answering" : "has not answered";
    const said = since ? how : "has not been asked yet";
    show(reach, `The coordinator at ${coordinator.url} ${said}${since}.`, coordinator.reachable);
    // Of one that does not answer nobody knows how long it went on.
    ingest.update(server, coordinator.reachable ? now : coordinator.since, coordinator.reachable);
    log.update(server, now);
    audit.update(server.audit ?? null, now);
  }

  return { title: "Server", update, close: () => key.close() };
}

function ingestPart() {
  const names = ["packages_per_s", "packages_total", "stored_total", "backlog", "commit_ms", "started_at"];
  const places = Object.fromEntries(names.map((name) => [name, fact(name)]));
  const refused = fact("refused_total", "div");
  const node = el("div", { class: "node soft" });
  const number = (name, ...rest) => el("b", {}, places[name], ...rest);
  const startedAt = el("span", { class: "remark" });
  const small = (text) => el("span", { class: "remark" }, text);
  const all = section(
    "ingest",
    "What comes in",
    {},
    el(
      "dl",
      { class: "tiles" },
      tile("Packages per second", number("packages_per_s"), small("over the last seconds")),
      tile("Packages", number("packages_total"), small("since it was started")),
      tile("Requests on the disk", number("stored_total"), small("stored before they were acknowledged")),
      tile("Waiting to be opened", number("backlog"), small("capsules")),
      tile("A commit takes", number("commit_ms"), small("on average, of late")),
      tile("Running for", number("started_at"), startedAt),
    ),
    node,
  );
  const what = el("p", { class: "soft" }, "Requests with packages or for a manifest, by what was wrong with them.");
  const box = section("refused", "Refused", { class: "panel" }, what, refused);

  function update(server, now, reachable) {
    show(places.packages_per_s, rate(server.packages_per_s), server.packages_per_s);
    show(places.packages_total, count(server.packages_total), server.packages_total);
    show(places.stored_total, count(server.stored_total), server.stored_total);
    show(places.backlog, count(server.backlog), server.backlog);
    const commit = server.commit_ms ?? null;
    show(places.commit_ms, commit === null ? "–" : `${rate(commit)}\u00a0ms`, commit);
    const started = server.started_at ?? null;
    show(places.started_at, started === null ? "–" : duration(now - started), started);
    const until = reachable ? "" : `, when it was seen last at ${clock(now, now)}`;
    write(startedAt, started === null ? "not told" : `since ${clock(started, now)}${until}`);
    swap(node, JSON.stringify(server.node ?? null), () => (server.node ? nodeWords(server.node) : []));
    const reasons = Object.entries(server.refused_total ?? {}).filter(([, times]) => times > 0);
    reasons.sort((a, b) => b[1] - a[1]);
    refused.setAttribute("data-value", String(reasons.reduce((sum, [, times]) => sum + times, 0)));
    swap(refused, JSON.stringify([reasons, server.admin_refused_total]), () => refusals(reasons, server));
  }

  return { node: all, refused: box, update };
}

function nodeWords({ name, role, term, lag_ms: lag }) {
  const drives = role === "driver" ? `drives (term ${count(term)})` : "follows";
  const old = lag === null || lag < 1000 ? "" : `, and its view is ${duration(lag)} old`;
  return el("p", {}, `This is the node ${name}; it ${drives}${old}.`);
}

function refusals(reasons, server) {
  const keys = server.admin_refused_total ?? 0;
  const rows = reasons.map(([why, times]) => [why.replace(/[-_]/g, " "), count(times)]);
  return [
    rows.length
      ? table("Refusals", ["Why", "Times"], rows, { kind: "number" })
      : el("p", { class: "soft" }, "Nothing was refused."),
    keys > 0 && el("p", {}, `${many(keys, "request")} to the operator's side came without the right key.`),
  ];
}

function logPart() {
  const size = fact("log_size");
  const root = fact("log_root", "code");
  const cosigned = fact("cosigned");
  const quorum = fact("quorum");
  const at = el("span", {});
  const waiting = el("span", {});
  const row = (name, ...content) => [el("dt", {}, name), el("dd", {}, ...content)];
  const facts = el(
    "dl",
    { class: "facts" },
    row("Entries", size),
    row("Root", root),
    row("Cosigned by", cosigned),
    row("Must cosign", quorum),
    row("Last cosigned", at),
    row("Logs of experiments", waiting),
  );
  const without = "There is no log to be seen: nobody can be held to having told everybody the same.";
  const none = el("p", { class: "soft" }, without);
  const witnesses = el("div", {});
  const node = section("log", "Log and witnesses", { class: "panel" }, none, facts, witnesses);

  function update(server, now) {
    const { log = null, logs = null } = server;
    reveal(none, !log && !logs);
    reveal(facts, Boolean(log || logs));
    show(size, count(log?.size), log?.size);
    show(root, log?.root ?? "–", log?.root);
    show(cosigned, log?.cosigned?.join(", ") || "nobody yet", log?.cosigned?.join(","));
    const enough = log?.quorum_reached === false ? "; not reached yet" : "";
    show(quorum, log?.quorum === undefined ? "–" : `${many(log.quorum, "witness", "witnesses")}${enough}`, log?.quorum);
    write(at, log?.at ? clock(log.at, now) : "–");
    const entries = logs && `${logs.cosigned} of ${many(logs.entries, "entry", "entries")} cosigned`;
    write(waiting, logs ? `${entries}${logs.waiting ? ", waiting for a quorum" : ""}` : "–");
    const all = server.witnesses ?? [];
    swap(witnesses, JSON.stringify([all, Math.floor(now / 60_000)]), () => seen(all, now));
  }

  return { node, update };
}

function seen(all, now) {
  if (!all.length) return [];
  const rows = all.map((one) => [one.name, agrees(one), one.last_seen ? clock(one.last_seen, now) : "not yet"]);
  const attributes = (at) => ({ "data-witness": all[at].name });
  return [el("h3", {}, "Witnesses"), table("Witnesses", ["Witness", "Agrees", "Last seen"], rows, { attributes })];
}

function agrees(one) {
  if (one.agrees === true) return el("span", { class: "yes" }, "agrees");
  if (one.agrees === false) return el("span", { class: "no" }, "something in its name that it did not sign");
  if (one.silent) return el("span", { class: "no" }, "does not cosign");
  return one.behind ? `not yet, ${many(one.behind, "log")} behind` : "not yet";
}

function auditPart() {
  const ok = fact("audit_ok", "p");
  const at = fact("audit_at", "p", { class: "soft" });
  const faults = el("div", { "data-fact": "audit_faults" });
  const warned = el("div", { "data-fact": "audit_warnings" });
  const node = section("audit", "Last audit", { class: "panel" }, ok, at, faults, warned);

  function update(audit, now) {
    faults.setAttribute("data-value", String(audit?.faults?.length ?? ""));
    warned.setAttribute("data-value", String(audit?.warnings?.length ?? ""));
    ok.className = audit?.ok === true ? "yes" : audit?.ok === false ? "no" : "";
    show(ok, verdict(audit), audit?.ok);
    const steps = audit?.steps_replayed === undefined ? "" : `${many(audit.steps_replayed, "step")} taken again, `;
    show(at, audit ? `${steps}in ${duration(1000 * audit.seconds)}, at ${clock(audit.at, now)}.` : "", audit?.at);
    swap(faults, JSON.stringify(audit?.faults ?? []), () => list("Faults", audit?.faults));
    swap(warned, JSON.stringify(audit?.warnings ?? []), () => list("Warnings", audit?.warnings));
  }

  return { node, update };
}

function list(name, all) {
  if (!all?.length) return [];
  return [el("h3", {}, name), el("ul", {}, all.map((one) => el("li", {}, words(one))))];
}

function verdict(audit) {
  if (!audit) return "Nothing was audited yet.";
  if (audit.problem) return `No result: ${sentence(audit.problem)}`;
  if (audit.ok) return "Everything that can be seen from outside follows from what was published.";
  return `${many(audit.faults?.length ?? 0, "fault")} found.`;
}

/** A fault as a sentence: which experiment and round, and what is wrong. */
function words(one) {
  if (typeof one === "string") return sentence(one);
  const where = [one.experiment && `experiment ${shortened(one.experiment)}`, one.round && `round ${count(one.round)}`];
  const said = one.what ?? one.detail ?? one.sentence ?? one.message ?? JSON.stringify(one);
  const place = where.filter(Boolean).join(", ");
  return place ? `${place}: ${said}` : said;
}
