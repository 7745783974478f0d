/**
 * The errors of a device, by the names that Python's `secvm.errors` gives them.
 *
 * No message carries a feature or a label of a person, nor a key, nor what was under a seal.
 */

import type { Sentence } from "./privacy/sentences.ts";

interface Details {
  /** What the person who reads the message can do next. */
  nextStep?: string;
}

/** Something went wrong. The message is one sentence for a person. */
export class SecVMError extends Error {
  readonly nextStep: string | undefined;
  /** The message as it was given: a page says a sentence in its reader's language. */
  readonly said: Sentence | string;

  constructor(message: Sentence | string, details: Details = {}) {
    super(String(message));
    this.said = message;
    this.name = new.target.name;
    this.nextStep = details.nextStep;
  }
}

/** The input cannot be used. */
export class BadInputError extends SecVMError {}

/** The experiment's parameters contradict each other. */
export class BadExperimentError extends BadInputError {}

/** A value would leave the range in which the arithmetic is exact. */
export class ArithmeticRangeError extends SecVMError {}

/** The beacon does not answer, or has no such round yet. */
export class BeaconUnavailableError extends SecVMError {}

/** It tells more about a person than the device agrees to. */
export class ConsentRefusedError extends SecVMError {}

/** Catching up with the log would go beyond the device's limit of traffic for a day. */
export class OverLimitError extends SecVMError {}

/** The browser's storage could not do it, and nothing of it is done. */
export class StoreError extends SecVMError {}

/** Another party does not answer, or not as it should. */
export class UnreachableError extends SecVMError {}

/** What was said between two parties breaks the protocol. */
export class ProtocolError extends SecVMError {}

/** What was asked for would break the protocol. */
export class LocalProtocolError extends ProtocolError {}

/** The other side broke the protocol. */
export class RemoteProtocolError extends ProtocolError {
  /** Name of the problem type with which a server answers it (`protocol/problems.ts`). */
  readonly problem: string;

  constructor(message: string, details: Details & { problem?: string } = {}, problem = "garbage") {
    super(message, details);
    this.problem = details.problem ?? problem;
  }
}

/** The bytes are no message of the kind that was expected. */
export class MalformedMessageError extends RemoteProtocolError {}

/** The capsule does not open. */
export class OpeningError extends RemoteProtocolError {}

/** The capsule is sealed for a key or an algorithm that is not here. */
export class UnknownKeyError extends OpeningError {
  constructor(message = "The capsule is sealed for a key or an algorithm that is not here.", details: Details = {}) {
    super(message, details, "unknown-key");
  }
}

/** The message is not signed by those who are trusted for it. */
export class BadSignatureError extends RemoteProtocolError {
  constructor(message = "The message is not signed by those who are trusted for it.", details: Details = {}) {
    super(message, details);
  }
}

/** The proof does not show what it should. */
export class BadProofError extends RemoteProtocolError {
  constructor(message = "The proof does not show what it should.", details: Details = {}) {
    super(message, details);
  }
}

/** Too few witnesses have seen this checkpoint lately. */
export class StaleCheckpointError extends RemoteProtocolError {
  constructor(message = "Too few witnesses have seen this checkpoint lately.", details: Details = {}) {
    super(message, details, "stale");
  }
}

/** What is said to be a beacon's output is not what its chain publishes. */
export class BadBeaconError extends RemoteProtocolError {}

/** The package has no place in this round. */
export class RefusedPackageError extends RemoteProtocolError {}

/** The manifest is older than the one already trusted. */
export class StaleRoundError extends RemoteProtocolError {
  constructor(message = "The manifest is older than the one already trusted.", details: Details = {}) {
    super(message, details, "stale");
  }
}

/** The manifest is signed, but contradicts its experiment or the rounds before it. */
export class InconsistentManifestError extends RemoteProtocolError {
  /** The signed bytes that contradict each other, as they were served. */
  readonly evidence: readonly Uint8Array[];

  constructor(
    message = "The manifest is signed, but contradicts its experiment or the rounds before it.",
    evidence: readonly Uint8Array[] = [],
  ) {
    super(message, { nextStep: "Keep the evidence: its signatures convince others too." });
    this.evidence = evidence;
  }
}

/** There are two manifests for one round. */
export class EquivocationError extends RemoteProtocolError {
  /** Both manifests with their signatures, as they were served, the one that was trusted first. */
  readonly evidence: readonly [Uint8Array, Uint8Array];

  constructor(first: Uint8Array, second: Uint8Array) {
    super("There are two manifests for one round.", {
      nextStep: "Send nothing more to this experiment, and show the evidence to others.",
    });
    this.evidence = [first, second];
  }
}

/** What the server has signed contradicts itself. */
export class CheatingError extends RemoteProtocolError {
  /** An evidence file: server-signed bytes only. */
  readonly evidence: Uint8Array;

  constructor(message: string, evidence: Uint8Array) {
    super(message, { nextStep: "Send nothing more to this experiment, and show the evidence to others." });
    this.evidence = evidence;
  }
}
