/**
 * What the browser is asked to allow: to reach relays, to read the history, and in Firefox to hand on what follows from
 * it. Nothing of it is there at first; the person's page asks in the click that needs it.
 */

/** The match pattern of a server: browsers know no ports in them. */
export function patternOf(url: string): string {
  const { protocol, hostname } = new URL(url);
  return `${protocol}//${hostname}/*`;
}

/** For what: to talk to these servers, or also to read the history for it. */
export type Purpose = "talking" | "reading";

/** What the purpose needs; the browser asks its person for nothing that it was granted before. */
export function permissionsFor(purpose: Purpose, urls: readonly string[]): chrome.permissions.Permissions {
  const reads = purpose === "reading";
  // Firefox alone has a consent to data collection, and other browsers refuse what they do not know.
  const consents = reads && chrome.runtime.getManifest()["browser_specific_settings"] !== undefined;
  return {
    origins: [...new Set(urls.map(patternOf))],
    ...(reads ? { permissions: ["history"] } : {}),
    ...(consents ? { data_collection: ["browsingActivity"] } : {}),
  };
}
