/** The package kinds: all that ever crosses from a person's device to the coordinator, each one alone. */

export type Sign = -1 | 1;

/** Which side of an experiment a person is on, drawn once. */
export type Cohort = "train" | "test";

/** One unit of one update. It names a model, a bin and a sign, and no one. */
export interface TrainPackage {
  readonly kind: "train";
  /** Which binary model of the experiment; 0 when there is only one. */
  readonly model: number;
  readonly binIndex: number;
  readonly sign: Sign;
}

/** One prediction of one test person, as a cell of the confusion matrix. */
export interface TestPackage {
  readonly kind: "test";
  readonly trueClass: number;
  readonly predictedClass: number;
}

/** Somebody of this cohort and class takes part in the round: the normaliser is the sum of these. */
export interface ParticipationPackage {
  readonly kind: "participation";
  readonly cohort: Cohort;
  readonly classIndex: number;
}

/** Padding up to the budget; dropped by the coordinator. */
export interface NullPackage {
  readonly kind: "null";
}

export type Package = TrainPackage | TestPackage | ParticipationPackage | NullPackage;
