import assert from "node:assert/strict";
import { test } from "node:test";

import { unhex } from "../../../src/bytes.ts";
import { ArithmeticRangeError, BadExperimentError, BadInputError } from "../../../src/errors.ts";
import { binFeatures, HashBinning, VocabularyBinning, type Binning } from "../../../src/learning/individual/binning.ts";
import { MAX_UNITS } from "../../../src/learning/rows.ts";
import { refused, vectors, type Vector } from "../../vectors.ts";

function binningOf(told: Vector): Binning {
  if (told.kind === "hash") {
    return new HashBinning({ nBins: told.n_bins, salt: unhex(told.salt), nHashes: told.n_hashes });
  }
  const vocabulary = new VocabularyBinning(told.words);
  assert.equal(vocabulary.digest, told.digest);
  return vocabulary;
}

test("features land in the bins of the vectors", () => {
  for (const { features, binning, presence, values } of vectors("binning").cases) {
    const vector = binFeatures(new Map(features), binningOf(binning), { presence });
    assert.deepEqual([...vector.values], values);
    assert.deepEqual([...vector.withBias()], [...values, [vector.nBins, 1]]);
  }
});

test("with cover whatever lands in a bin is one unit", () => {
  const binning = new HashBinning({ nBins: 2, salt: unhex("00"), nHashes: 4 });
  const features = new Map(Array.from({ length: 9 }, (_, i) => [`word${i}`, i]));
  assert.deepEqual([...binFeatures(features, binning, { onePerBin: true }).values], [[0, 1], [1, 1]]);
  const negative = new Map([["a", -1]]);
  assert.throws(() => binFeatures(negative, binning, { onePerBin: true }), /has no meaning as presence/);
  assert.throws(() => binFeatures(negative, binning, { presence: true }), BadInputError);
});

test("lists that are no vocabulary are refused, and what is no text", async () => {
  await refused(vectors("bad_vocabularies").cases, ({ words }) => new VocabularyBinning(words), BadExperimentError);
  const binning = new HashBinning({ nBins: 5, salt: unhex("") });
  assert.throws(() => binning.binsOf("\ud800"), /a feature is no valid Unicode text/);
});

test("bins and hashes have limits, and so have a person's units", () => {
  const salt = unhex("");
  for (const nBins of [0, 1.5, 2 ** 24 + 1]) {
    assert.throws(() => new HashBinning({ nBins, salt }), /bins must be a whole number, at least 1 and at most 167772/);
  }
  assert.throws(() => new HashBinning({ nBins: 1, salt, nHashes: 17 }), /hashes must be a whole number/);
  const words = new VocabularyBinning(["a"]);
  binFeatures(new Map([["a", MAX_UNITS - 1]]), words);
  assert.throws(() => binFeatures(new Map([["a", -MAX_UNITS]]), words), ArithmeticRangeError);
});
