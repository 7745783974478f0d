"""``secvm privacy statement``: what an experiment tells about a person, in numbers and plain words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from secvm.cli.output import Format, FormatOption, emit
from secvm.errors import BadInputError, RemoteProtocolError

if TYPE_CHECKING:
    from secvm.privacy.statement import Assumption, Terms

_NUMBERS = ("participants", "bins", "features", "rounds")


def statement(
    document: Annotated[
        Path | None, typer.Argument(help="A published experiment, as its coordinator serves it.", show_default=False)
    ] = None,
    coordinator: Annotated[str | None, typer.Option(help="Its coordinator's URL, with --experiment.")] = None,
    experiment: Annotated[str | None, typer.Option(help="Its digest, with --coordinator.")] = None,
    participants: Annotated[int | None, typer.Option(help="In numbers: devices in a round.")] = None,
    bins: Annotated[int | None, typer.Option(help="Bins.")] = None,
    features: Annotated[int | None, typer.Option(help="Features that a person has at most.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds.")] = None,
    labels: Annotated[int, typer.Option(help="Labels.")] = 2,
    hashes: Annotated[int, typer.Option(help="Hashes of a feature.")] = 1,
    thinning: Annotated[str, typer.Option(help="RHO, q=Q, or none.")] = "none",
    epsilon: Annotated[float | None, typer.Option(help="With cover for this ε; plain, without.")] = None,
    delta: Annotated[float, typer.Option(help="Its δ.")] = 1e-6,
    gamma: Annotated[float, typer.Option(help="Share of honest devices that cover is planned for.")] = 0.5,
    relay_mode: Annotated[str, typer.Option(help="Mode of the relay: round, interval or forward.")] = "round",
    own_participants: Annotated[
        int | None, typer.Option(help="You count on no more devices than this.", show_default="as planned")
    ] = None,
    own_gamma: Annotated[float, typer.Option(help="Share of them that you take for honest.")] = 0.5,
    own_delta: Annotated[float, typer.Option(help="The δ that you want to know ε at.")] = 1e-6,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Say what an experiment tells about somebody who takes part, and what that rests on.

    Of a published experiment, from a file or a coordinator; or of one that is only planned, from its numbers. The
    device's own view is beside the experiment's. Nothing that an experiment claims of itself is believed. Examples:

    \b
        ./secvm privacy statement --participants 10000 --bins 1000 --features 100 --rounds 10 --epsilon 1
        ./secvm privacy statement --coordinator http://127.0.0.1:8480 --experiment 3fa9…
    """
    from secvm.learning.arithmetic import exact
    from secvm.privacy.statement import Assumption

    if not 0 < own_gamma <= 1 or not 0 < own_delta < 1 or (own_participants is not None and own_participants < 1):
        raise BadInputError("what you count on is a device at least, a share above 0 up to 1, and a δ between 0 and 1")
    own = Assumption(gamma=exact(own_gamma), participants=own_participants, delta=own_delta)
    numbers = dict(zip(_NUMBERS, (participants, bins, features, rounds), strict=True))
    given = any(number is not None for number in numbers.values())
    if (document is not None) + (coordinator is not None) + given != 1 or (coordinator is None) != (experiment is None):
        raise BadInputError("name a file, or --coordinator with --experiment, or an experiment's numbers")
    if not given:
        emit_statement(_published(document, coordinator, experiment), own, output_format)
        return
    missing = [name for name, number in numbers.items() if number is None]
    if missing:
        raise BadInputError(f"an experiment in numbers needs --{' and --'.join(missing)} too")
    planned = _planned(
        {name: number for name, number in numbers.items() if number is not None},
        labels=labels,
        hashes=hashes,
        thinning=thinning,
        cover=None if epsilon is None else {"epsilon": epsilon, "delta": delta, "gamma": gamma},
        relay_mode=relay_mode,
    )
    emit_statement(planned, own, output_format)


def emit_statement(terms: Terms, own: Assumption, output_format: Format) -> None:
    """As text, or as JSON with the text inside."""
    from secvm.participant.sealing import CAPSULE_BYTES
    from secvm.participant.transport import OVERHEAD_BYTES
    from secvm.privacy.statement import state
    from secvm.privacy.statement_text import as_text, words

    told = state(terms, own, bytes_per_package=CAPSULE_BYTES + OVERHEAD_BYTES, curve=True)
    emit({**told.content(), "words": words(told)}, output_format, text=as_text(told))


def _published(path: Path | None, coordinator: str | None, digest: str | None) -> Terms:
    from secvm.cli.remote import Remote
    from secvm.crypto.signing import Envelope
    from secvm.protocol.experiment_document import ExperimentDocument, read_published
    from secvm.protocol.stating import terms_of

    if path is not None:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise BadInputError(f"{path}: cannot be read: {error.strerror}") from None
        try:
            inside = ExperimentDocument.from_bytes(Envelope.from_bytes(data).payload)
            return terms_of(read_published(data, digest=inside.digest))
        except RemoteProtocolError as fault:
            raise BadInputError(f"{path} is no published experiment: {fault}") from None
    assert coordinator is not None
    assert digest is not None
    return terms_of(Remote(coordinator).experiment(digest))


def _planned(
    numbers: dict[str, int], *, labels: int, hashes: int, thinning: str, cover: dict[str, float] | None, relay_mode: str
) -> Terms:
    from secvm.coordinator.questions import default_budget
    from secvm.estimator.thinning import parse_thinning
    from secvm.learning.aggregate.descent import Pegasos, Swift
    from secvm.learning.arithmetic import exact
    from secvm.learning.experiment import Experiment
    from secvm.privacy.shuffle_dp import plan
    from secvm.privacy.statement import Terms
    from secvm.protocol.experiment_document import RelayMode

    if relay_mode not in get_args(RelayMode):
        raise BadInputError(f"--relay-mode must be round, interval or forward, not '{relay_mode}'")
    if min(numbers.values()) < 1 or hashes < 1 or labels < 2:
        raise BadInputError("an experiment in numbers has a participant, a bin, a feature, a round and two labels")
    thin = parse_thinning(thinning, "pegasos")
    settings: dict[str, Any] = {
        "n_bins": numbers["bins"],
        "labels": tuple(str(number) for number in range(labels)),
        "rule": Pegasos() if thin.rho is None else Swift(),
        "thinning": thin,
        "features_per_person": numbers["features"],
    }
    plain = Experiment(**settings, budget=2)
    terms: dict[str, Any] = {
        "rounds": numbers["rounds"],
        "hashes": hashes,
        "floor": numbers["participants"],
        "relay_modes": (relay_mode,),
        "participants": numbers["participants"],
    }
    if cover is None:
        budget = default_budget(plain, hashes=hashes, presence=True)
        return Terms(experiment=Experiment(**settings, budget=budget), **terms)
    made = plan(
        epsilon=cover["epsilon"],
        delta=cover["delta"],
        gamma=cover["gamma"],
        rounds=numbers["rounds"],
        features=numbers["features"],
        models=plain.models.n_models,
        violable=plain.models.most_per_person,
        hashes=hashes,
        bins=numbers["bins"],
        thinning=thin,
        participants=numbers["participants"],
        labels=labels,
    )
    return Terms(
        experiment=Experiment(**settings, budget=made.budget, cover=made.cover),
        gamma=exact(cover["gamma"]),
        delta=cover["delta"],
        **terms,
    )
