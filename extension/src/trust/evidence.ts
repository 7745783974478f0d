/** What a device holds against a server. */
import { utf8, equal } from "../bytes.ts";
import type { DeviceState } from "../storage/state.ts";

/** Every file about a missing canary begins so, because its keys are sorted. */
const CANARY_BEGINS = utf8('{"absence":{');

/**
 * Whether this device holds evidence against the coordinator or its log: then it sends nothing more, for good.
 *
 * That a relay left a canary out is for the person to weigh: who resumes goes on.
 */
export function convicts(state: DeviceState, digest: string): boolean {
  return state.evidence(digest).some((data) => !equal(data.subarray(0, CANARY_BEGINS.length), CANARY_BEGINS));
}
