/**
 * What a device does only while its browser's person still allows what they allowed when they joined: to read the
 * history, and to reach the relays. A browser lets them take it back at any time, beside the extension's own page.
 */

import { ConsentRefusedError } from "../errors.ts";
import { say } from "../privacy/sentences.ts";
import type { HttpClient } from "../runtime/http/client.ts";
import { UNANSWERED } from "../sending/reply.ts";
import { RelayTransport } from "../sending/transport.ts";
import type { RoundConsent } from "../trust/surroundings.ts";

/** Whether it is allowed to read the history, and to reach the relays of these URLs. */
export type Allows = (urls: readonly string[]) => Promise<boolean>;

/** No round is joined while the browser's person has taken back what they allowed. */
export function whileAllowed({ agree, enter }: RoundConsent, allows: Allows): RoundConsent {
  return {
    agree: async (document) => {
      if (!(await allows(document.relays.map(({ url }) => url)))) throw new ConsentRefusedError(say("refused.not-allowed"));
      await agree(document);
    },
    enter,
  };
}

/** Without the permission it is as if nobody answered; a sealed request is given up after three attempts. */
export class AllowedTransport extends RelayTransport {
  readonly #allows: Allows;

  constructor(client: HttpClient, way: ConstructorParameters<typeof RelayTransport>[1], allows: Allows) {
    super(client, way);
    this.#allows = allows;
  }

  override async submit(...request: Parameters<RelayTransport["submit"]>): ReturnType<RelayTransport["submit"]> {
    const [, , relay] = request;
    return (await this.#allows([relay.url])) ? super.submit(...request) : UNANSWERED;
  }
}
