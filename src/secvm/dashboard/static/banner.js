// What stands above every page: who does not answer, what the coordinator waits for, and what stands still there.

import { standsStill } from "./watch.js";
import { clock, sentence, shortened } from "./words.js";

/** Who does not answer, this page's server or the coordinator: [{ what, says }]. Then all that is shown is old. */
export function unheard({ now, link }) {
  if (link === "lost") {
    const since = now && ` has not answered since ${clock(now.now, now.now)}; you see the state from then.`;
    return [{ what: "page", says: `This page's server${since || " does not answer."} Trying again.` }];
  }
  const coordinator = now?.coordinator;
  if (!coordinator || coordinator.reachable) return [];
  const since = coordinator.since !== null && ` has not answered since ${clock(coordinator.since, now.now)}`;
  const seen = now.experiments.length ? "you see the state from then" : "nothing has been read from it yet";
  const said = { what: "coordinator", says: `The coordinator${since || " does not answer"}; ${seen}.` };
  return coordinator.problem ? [said, { what: "why", says: sentence(coordinator.problem) }] : [said];
}

/** What the coordinator waits for, and experiments whose last rounds brought nothing: [{ what, says, href, more }]. On
 * the page at `path` its own experiment is left out: it says so itself, and why. */
export function standing({ server, experiments, now }, path) {
  const look = path === "/server" ? {} : { href: "/server", more: "Look at the server" };
  const found = server.logs?.halted ? [{ what: "halted", says: HALTED, ...look }] : [];
  for (const { what, parties, since } of server.lost ?? []) {
    const says = LOST[what](parties.join(", "), clock(since, now), parties.length === 1 ? "has" : "have");
    found.push({ what, says, ...look });
  }
  for (const one of experiments) {
    const href = `/experiment/${one.digest}`;
    const lost = standsStill(one);
    if (path === href || !lost) continue;
    const says = `${one.title} (${shortened(one.digest, 6)}) stands still: ${lost}.`;
    found.push({ what: "rounds", says, href, more: "See why" });
  }
  return found;
}

const HALTED = "A witness has seen something else of the log. No round follows until a person has looked.";
const LOST = {
  quorum: (names, at, have) =>
    `The log has waited for a quorum since ${at}, and nothing new is published: ${names} ${have} not cosigned.`,
  relay: (names, at) => `The relay ${names} has not answered since ${at}: no round opens or ends without it.`,
};
