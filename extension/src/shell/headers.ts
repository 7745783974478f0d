/**
 * Requests that tell two profiles apart by nothing: a rule of the browser drops the headers that could.
 *
 * Firefox puts a name of the profile into `Origin`; languages, versions and settings stand in others. The rule is for
 * requests of this extension alone, and works for those hosts that the person has granted: the relays.
 */

/** What a browser adds to requests by itself, and would let go of. */
export const TELLING = [
  ...["accept-language", "dnt", "origin", "priority", "referer", "sec-ch-ua", "sec-ch-ua-mobile"],
  ...["sec-ch-ua-platform", "sec-fetch-dest", "sec-fetch-mode", "sec-fetch-site", "sec-fetch-storage-access"],
  ...["sec-gpc", "user-agent"],
] as const;

const RULE = 1;

/** The rule, for the extension whose own host this is. */
export function dropTelling(host: string): chrome.declarativeNetRequest.Rule {
  const requestHeaders = TELLING.map((header) => ({ header, operation: "remove" as const }));
  return {
    id: RULE,
    action: { type: "modifyHeaders", requestHeaders },
    condition: { initiatorDomains: [host], resourceTypes: ["xmlhttprequest"] },
  };
}
