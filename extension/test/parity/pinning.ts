/** What is pinned of a person who joins an experiment, and what a model says of them. */

import { IDBFactory } from "fake-indexeddb";

import { unhex, utf8 } from "../../src/bytes.ts";
import { safeDice } from "../../src/device/dice.ts";
import { BinnedVector } from "../../src/learning/individual/binning.ts";
import { Ratio } from "../../src/learning/ratio.ts";
import { Weights } from "../../src/learning/weights.ts";
import { pinPerson } from "../../src/person/pinning.ts";
import { answerOf } from "../../src/person/prediction.ts";
import { ExperimentDocument } from "../../src/protocol/documents/experiment.ts";
import { Tables } from "../../src/storage/tables.ts";
import { Vault } from "../../src/storage/vault.ts";
import type { Vector } from "../vectors.ts";
import { repeating } from "./answers.ts";

export async function answerPinning(asked: Vector): Promise<unknown> {
  const document = ExperimentDocument.fromBytes(utf8(asked.document));
  const vault = new Vault(await Tables.open(new IDBFactory()));
  await vault.put(asked.source, new Map(asked.features));
  if (asked.answer !== null) await vault.setLabel(document.digest, asked.answer);
  const dice = safeDice(repeating(unhex(asked.stream)))(document);
  const { vector, label, target, cohort } = await pinPerson(document, vault, dice);
  const weights = new Weights({
    mantissas: asked.mantissas.map((row: number[]) => Int32Array.from(row)),
    unit: Ratio.of(asked.unit),
    normalised: asked.normalised,
  });
  const answer = answerOf(document.experiment, weights, new BinnedVector(vector.values, vector.nBins));
  return { vector: [...vector.values], bins: vector.nBins, label, target, cohort, answer };
}
