import assert from "node:assert/strict";
import { test } from "node:test";

import { LabelModels } from "../../src/learning/labelModels.ts";
import { vectors } from "../vectors.ts";

test("signs and winners are those of the vectors", () => {
  for (const { n_labels, multiclass, signs, scores, winners } of vectors("labels").cases) {
    const models = new LabelModels(n_labels, multiclass);
    assert.deepEqual(models.signs, signs);
    assert.equal(models.nModels, signs[0].length);
    assert.deepEqual(scores.map((row: number[]) => models.predict(row)), winners);
    const taking = signs.map((row: number[]) => row.filter((sign) => sign !== 0).length);
    assert.equal(models.mostPerPerson, Math.max(...taking));
  }
});
