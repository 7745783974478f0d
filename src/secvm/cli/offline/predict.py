"""``secvm predict`` and ``secvm evaluate``: a saved model on a file of people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from secvm.cli.offline import options
from secvm.cli.offline.options import ThreadsOption
from secvm.cli.offline.people import LabelOption, PeopleArgument, read_for_model
from secvm.cli.offline.results import headline
from secvm.cli.output import Format, FormatOption, emit
from secvm.errors import BadInputError
from secvm.estimator.fitting import Evaluator, real_scores
from secvm.estimator.model import ModelFile
from secvm.estimator.offline_run import classification_report, regression_report
from secvm.files import write_atomically
from secvm.learning.aggregate.scoring import score_cells

ModelArgument = Annotated[
    Path, typer.Argument(help="A model of 'secvm train --out'.", show_default=False, metavar="MODEL")
]


def predict(
    model: ModelArgument,
    people: PeopleArgument,
    out: Annotated[Path | None, typer.Option(help="Write the labels here, one a line.")] = None,
    threads: ThreadsOption = 1,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Predict the label of each person in a file.

    Labels in the file may be missing; they are not looked at. Example:

    \b
        ./secvm predict model.secvm examples/people.jsonl
    """
    options.check_outputs({"--out": out}, inputs=(model, people))
    trained = ModelFile.read(model)
    folk = read_for_model(trained, people, label=None, labels_required=False)
    evaluator = Evaluator(trained.experiment, folk.rows, threads=threads)
    labels: list[Any]
    if trained.experiment.loss.regression:
        labels = evaluator.numbers(trained.weights).tolist()
        values = labels
    else:
        scores = evaluator.scores(trained.weights)
        labels = [trained.experiment.labels[i] for i in trained.experiment.models.predict(scores)]
        values = real_scores(trained.weights, scores, folk.rows).tolist()
    text = "\n".join(str(label) for label in labels)
    if out is not None:
        write_atomically(out, (text + "\n").encode())
        text = f"{len(labels)} labels written to {out}"
    names = trained.experiment.labels
    emit({"labels": labels, "scores": values, "classes": list(names)}, output_format, text=text)


def evaluate(
    model: ModelArgument,
    people: PeopleArgument,
    label: LabelOption = None,
    threads: ThreadsOption = 1,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Compare a model's answers with the labels of a file.

    Example:

    \b
        ./secvm evaluate model.secvm examples/people.jsonl --format json
    """
    trained = ModelFile.read(model)
    folk = read_for_model(trained, people, label=label, labels_required=True)
    evaluator = Evaluator(trained.experiment, folk.rows, threads=threads)
    result: dict[str, Any]
    if trained.experiment.loss.regression:
        result = regression_report(evaluator.numbers(trained.weights), folk.numeric_labels())
    else:
        place = {label: i for i, label in enumerate(trained.experiment.labels)}
        if not set(folk.label_names) <= set(place):
            raise BadInputError("a person has a label that the model does not know")
        truth = np.array([place[folk.label_names[c]] for c in folk.label_codes], dtype=np.int64)
        result = classification_report(score_cells(evaluator.cells(trained.weights, truth)), trained.experiment.labels)
    result["n_test"] = len(folk)
    emit(result, output_format, text="\n".join(headline(result)))
