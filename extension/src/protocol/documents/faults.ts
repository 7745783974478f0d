/**
 * What can be wrong with what a coordinator or a relay signed: one name each, and the sentence that people read.
 *
 * Programs that tell one fault from another go by the name, so that a sentence can be written better without changing a
 * verdict. Only what can be said of an experiment with two relays stands here.
 */

/** What is wrong with a manifest or an ending. */
export const INCONSISTENCIES = {
  OTHER_EXPERIMENT: "it is of another experiment",
  TOO_MANY_ROUNDS: "the experiment has fewer rounds",
  WINDOW_LENGTH: "its window has another length",
  GRACE: "it takes late packages longer or shorter",
  BEFORE_START: "it opens before the experiment starts",
  OVERLAP: "it opens before the round before is closed",
  BROKEN_CHAIN: "it does not continue the round before",
  OTHER_ROUND: "it ends another round",
  RELAY_TIMES: "its relays have more or less time than the experiment says",
  MIX_COMMITMENT: "its mixing relay's commitment is not signed by that relay, or of another round",
  ENTRY_COMMITMENT: "its entry relay's commitment is not signed by that relay, or of another round",
  FETCH_KEYS: "its fetch keys are not one X25519 key with one pair of algorithms, or are a key that opens packages",
  USED_BEFORE: "its count key or a relay's commitment was that of another round",
  OTHER_OPENING: "it does not follow from the opening of the round before",
  UNOPENED_STEP: "a round that was not opened, or had too few people, changed the state",
} as const;
export type Inconsistency = keyof typeof INCONSISTENCIES;

/** Why a round is unopened, as far as its opening tells. It accuses nobody. */
export const MISSING = {
  ENTRY_COUNT: "the entry relay's count is missing",
  MIX_COUNT: "the mixing relay's count is missing",
  ENTRY_REVEAL: "the entry relay has not opened its part",
  MIX_REVEAL: "the mixing relay has not opened its part",
  SEED: "the coordinator has not published the seed of the count key",
} as const;
export type Missing = keyof typeof MISSING;

/** What is not true of what an opening holds. */
export const OPENING_FAULTS = {
  OTHER_ROUND: "it is of another experiment, round or label",
  ENTRY_COUNT: "its entry count is none that the entry relay signed for this label",
  MIX_COUNT: "its mix count is none that the mixing relay signed for this label",
  ENTRY_REVEAL: "its entry reveal is none that the entry relay signed for this label",
  MIX_REVEAL: "its mix reveal is none that the mixing relay signed for this label",
  ENTRY_EQUATION: "the entry relay's capsules are not B · M + D",
  MIX_EQUATION: "the mixing relay's capsules are not those of the entry relay, less what it refused, and D",
  OTHER_ENTRY_COUNT: "the mixing relay counted after another count of the entry relay",
  OTHER_MIX_COUNT: "a reveal answers another count of the mixing relay",
  OTHER_ENTRY_REVEAL: "the mixing relay answered another reveal of the entry relay",
  NONCE: "the nonce is not the one that the entry relay is bound to",
  PART: "the opened part is not the one that nonce and count say",
  ENTRY_SEED: "the entry relay's seed is not the one that it is bound to",
  MIX_SEED: "the mixing relay's seed is not the one that it is bound to",
  COUNT_SEED: "the seed of the count key is not the one that the manifest names",
  COUNT_KEY: "the count key is not the one that its seed gives",
} as const;
export type OpeningFault = keyof typeof OPENING_FAULTS;

/** The names of what does not hold, in the order in which it was asked. */
export function faultsOf<Fault extends string>(holds: { readonly [fault in Fault]?: boolean }): Fault[] {
  return (Object.keys(holds) as Fault[]).filter((fault) => !holds[fault]);
}
