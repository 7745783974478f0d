"""``secvm privacy``: what an experiment tells about a person, in numbers and plain words, also before there is one.

The laboratory adds ``bins``, ``labels`` and ``plan``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secvm.cli.commands import added, group
from secvm.cli.coordinator_options import COORDINATOR_VARIABLE, usual_coordinator
from secvm.cli.output import Format, FormatOption, emit
from secvm.errors import BadInputError, RemoteProtocolError
from secvm.privacy.target import USUAL

if TYPE_CHECKING:
    from secvm.privacy.statements.plain import Terms
    from secvm.privacy.statements.relayed import CoveredTerms

app = group("Compute privacy bounds and leakage estimates.")


@app.callback()
def _privacy() -> None:
    """Compute privacy bounds and leakage estimates."""
    # With one command alone typer would drop its name; a callback keeps it a group.


for _name, _command in added().items():
    if _name.startswith("privacy "):
        app.command(_name.removeprefix("privacy "))(_command.find())
_NUMBERS = ("participants", "bins", "features", "rounds")


@app.command()
def statement(
    document: Annotated[
        Path | None, typer.Argument(help="A published experiment, as its coordinator serves it.", show_default=False)
    ] = None,
    coordinator: Annotated[
        str | None, typer.Option(help=f"Its coordinator's URL, with --experiment; else {COORDINATOR_VARIABLE}.")
    ] = None,
    experiment: Annotated[str | None, typer.Option(help="Its digest, with --coordinator.")] = None,
    participants: Annotated[int | None, typer.Option(help="In numbers: devices in a round.")] = None,
    bins: Annotated[int | None, typer.Option(help="Bins.")] = None,
    features: Annotated[int | None, typer.Option(help="Features that a person has at most.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds.")] = None,
    labels: Annotated[int, typer.Option(help="Labels.")] = 2,
    hashes: Annotated[int, typer.Option(help="Hashes of a feature.")] = 1,
    thinning: Annotated[str, typer.Option(help="RHO, q=Q, or none.")] = "none",
    epsilon: Annotated[float | None, typer.Option(help="With two relays' cover for this ε; plain, without.")] = None,
    delta: Annotated[float, typer.Option(help="Its δ.")] = float(USUAL.delta),
    own_delta: Annotated[float, typer.Option(help="The δ that you want to know ε at.")] = float(USUAL.delta),
    output_format: FormatOption = Format.TXT,
) -> None:
    """State what an experiment tells about a participant.

    Of a published experiment, from a file or a coordinator; or of one that is only planned, from its numbers: with two
    relays of two operators where there is an ε. Nothing that an experiment claims of itself is believed. Examples:

    \b
        ./secvm privacy statement --participants 10000 --bins 1000 --features 100 --rounds 10 --epsilon 1
        ./secvm privacy statement --coordinator http://127.0.0.1:8750 --experiment 3fa9…
    """
    if not 0 < own_delta < 1:
        raise BadInputError(f"--own-delta is {own_delta:g}: a δ lies between 0 and 1")
    if coordinator is None and experiment is not None:
        coordinator = usual_coordinator()
    numbers = dict(zip(_NUMBERS, (participants, bins, features, rounds), strict=True))
    given = any(number is not None for number in numbers.values())
    if (document is not None) + (coordinator is not None) + given != 1 or (coordinator is None) != (experiment is None):
        raise BadInputError("name a file, or --coordinator with --experiment, or an experiment's numbers")
    if not given:
        emit_statement(_published(document, coordinator, experiment), own_delta, output_format)
        return
    missing = [name for name, number in numbers.items() if number is None]
    if missing:
        raise BadInputError(f"an experiment in numbers needs --{' and --'.join(missing)} too")
    planned = _planned(
        {name: number for name, number in numbers.items() if number is not None},
        labels=labels,
        hashes=hashes,
        thinning=thinning,
        target=None if epsilon is None else (epsilon, delta),
    )
    emit_statement(planned, own_delta, output_format)


def emit_statement(terms: Terms | CoveredTerms, own_delta: float, output_format: Format) -> None:
    """As text, or as JSON with the text inside."""
    from secvm.crypto.sealing.layers import OUTER_BYTES
    from secvm.participant.sending.sealing import CAPSULE_BYTES
    from secvm.participant.sending.transport import OVERHEAD_BYTES
    from secvm.privacy.statements import plain, relayed_text
    from secvm.privacy.statements.relayed import CoveredTerms, state_relayed

    if isinstance(terms, CoveredTerms):
        relayed = state_relayed(terms, delta=own_delta, bytes_per_package=OUTER_BYTES)
        content, words, figures = relayed.content(), relayed_text.plainly(relayed), relayed_text.figures(relayed)
        size = plain.size(relayed.budget, relayed.bytes_per_round)
    else:
        stated = plain.state(terms, bytes_per_package=CAPSULE_BYTES + OVERHEAD_BYTES)
        content, words, figures = stated.content(), plain.plainly(stated), plain.figures(stated)
        size = plain.size(stated.budget, stated.bytes_per_round)
    text = "\n\n".join([*words, *size, "The figures:", *figures])
    emit({**content, "words": [*words, *size, *figures]}, output_format, text=text)


def _published(path: Path | None, coordinator: str | None, digest: str | None) -> Terms | CoveredTerms:
    from secvm.cli.experiment.remote import Remote
    from secvm.protocol.documents.experiment import ExperimentDocument, read_published
    from secvm.protocol.documents.privacy_terms import relayed_terms_of, terms_of

    def terms(published: ExperimentDocument) -> Terms | CoveredTerms:
        return terms_of(published) if published.experiment.cover is None else relayed_terms_of(published)

    if path is not None:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise BadInputError(f"{path}: cannot be read: {error.strerror}") from None
        try:
            return terms(read_published(data))
        except RemoteProtocolError as fault:
            raise BadInputError(f"{path} is no published experiment: {fault}") from None
    assert coordinator is not None
    assert digest is not None
    return terms(Remote(coordinator).experiment(digest))


def _planned(
    numbers: dict[str, int], *, labels: int, hashes: int, thinning: str, target: tuple[float, float] | None
) -> Terms | CoveredTerms:
    from secvm.learning.aggregate.descent import Pegasos, Swift
    from secvm.learning.arithmetic import exact
    from secvm.learning.experiment import Experiment, default_budget
    from secvm.learning.thinning import Thinning, parse_thinning
    from secvm.privacy.planning.private_plan import CHOSEN, AskedPrivately, plan_private
    from secvm.privacy.statements.operators import Operators
    from secvm.privacy.statements.plain import Terms
    from secvm.privacy.statements.relayed import CoveredTerms
    from secvm.privacy.target import PrivacyTarget

    if min(numbers.values()) < 1 or hashes < 1 or labels < 2:
        raise BadInputError("an experiment in numbers has a participant, a bin, a feature, a round and two labels")
    thin = parse_thinning(thinning, Thinning())
    plain = Experiment(
        n_bins=numbers["bins"],
        labels=tuple(str(number) for number in range(labels)),
        rule=Pegasos() if thin.rho is None else Swift(),
        thinning=thin,
        features_per_person=numbers["features"],
    )
    people, rounds = numbers["participants"], numbers["rounds"]
    if target is None:
        budget = default_budget(replace(plain, budget=2), hashes=hashes, presence=True)
        return Terms(experiment=replace(plain, budget=budget), rounds=rounds, hashes=hashes, floor=people)
    asked = PrivacyTarget(exact(target[0]), exact(target[1]))
    made = plan_private(
        AskedPrivately(
            experiment=plain,
            target=asked,
            people=people,
            hashes=hashes,
            train_share=exact(1),
            rounds=rounds,
            given=CHOSEN,
        )
    )
    return CoveredTerms(
        experiment=made.experiment,
        rounds=rounds,
        hashes=hashes,
        floor=people,
        claimed=asked,
        operators=Operators(entry="operator A", mix="operator B"),
        people=people,
    )
