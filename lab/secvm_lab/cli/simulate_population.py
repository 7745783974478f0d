"""``secvm simulate``: a population of devices over days, with everything that can be asked of it."""

from __future__ import annotations

import time
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secvm.cli.offline import options
from secvm.cli.output import Format, FormatOption, note
from secvm.errors import BadInputError
from secvm.learning.aggregate.descent import OFFLINE
from secvm_lab.cli.time_left import TimeLeft, as_typed, tell_and_write, used

if TYPE_CHECKING:
    from secvm_lab.online.scenario import Outcome

#: Where nothing is said: the paper's.
_LAMBDA, _WEIGHT = "0.1", "4"
#: Clipping where no number is given, in standard deviations of chance. 5 over the number of rounds, which is good for
#: tens of rounds, leaves nothing of most bins where rounds are hundreds (docs/results/online.md).
_CLIP = Fraction(1)
#: Of made-up people: nothing else is known of them.
_LABELS = ("majority", "minority")


def simulate(
    context: typer.Context,
    people: Annotated[
        int, typer.Option(help="Daily active people; 200,000, as in the paper, take a minute and 3 GB.", min=10)
    ] = 20_000,
    data: Annotated[
        Path | None, typer.Option(help="Take the people of this file instead of made-up ones.", show_default=False)
    ] = None,
    words: Annotated[
        int | None, typer.Option(help="Words of each made-up person; default 300.", min=1, show_default=False)
    ] = None,
    signal: Annotated[
        float | None,
        typer.Option(help="How strongly words lean towards a label; default 0.5.", min=0, show_default=False),
    ] = None,
    label_noise: Annotated[
        float | None,
        typer.Option(help="Share of people who read like the other label; default 0.1.", show_default=False),
    ] = None,
    days: Annotated[int, typer.Option(help="Days.", min=1)] = 3,
    hours: Annotated[str, typer.Option(help="Rounds only from one hour of the day to another, e.g. 8-20.")] = "0-24",
    rounds: Annotated[
        int | None, typer.Option(help="Only the first so many rounds.", min=1, show_default=False)
    ] = None,
    minority: Annotated[float, typer.Option(help="The minority's share by day.")] = 0.2,
    night_minority: Annotated[float | None, typer.Option(help="At night; default: half.", show_default=False)] = None,
    online: Annotated[float, typer.Option(help="Share of people who are there at the busiest hour.")] = 0.36,
    zones: Annotated[
        str | None, typer.Option(help="ZONE=SHARE, … ; the first is the main one.", show_default=False)
    ] = None,
    churn: Annotated[float, typer.Option(help="Share of people who leave on a day; as many come.")] = 0.05,
    stragglers: Annotated[float, typer.Option(help="Share of devices that go away within a round.")] = 0.03,
    train_share: Annotated[str, typer.Option(help="p: probability with which a device trains.")] = "0.7",
    bins: Annotated[int, typer.Option(help="Number of hash bins.", min=2)] = 10_000,
    descent: Annotated[str, typer.Option(help="pegasos (the paper's) or swift.")] = OFFLINE.name,
    lambda_: Annotated[
        str | None, typer.Option("--lambda", help="Of pegasos; default 0.1.", show_default=False)
    ] = None,
    averaging: Annotated[
        int | None, typer.Option(help="Weight vectors averaged (pegasos); default 2.", show_default=False)
    ] = None,
    class_weight: Annotated[str, typer.Option(help="Weight of the minority; the majority's is 1.")] = _WEIGHT,
    thinning: Annotated[str, typer.Option(help="RHO (swift), q=Q (pegasos), none, or auto.")] = "auto",
    budget: Annotated[
        int | None, typer.Option(help="B: packages of a device in a round.", min=2, show_default=False)
    ] = None,
    floor: Annotated[int, typer.Option(help="Fewest train participants of a round.", min=1)] = 100,
    epsilon: Annotated[
        float | None, typer.Option(help="With the cover of two relays, for this ε over all rounds.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="δ that goes with --epsilon; default 1e-6.", show_default=False)
    ] = None,
    contribution: Annotated[
        int | None,
        typer.Option(
            help="With --epsilon: at most so many features of a person; default 300.", min=1, show_default=False
        ),
    ] = None,
    attack: Annotated[
        str | None,
        typer.Option(help="A plot of malicious devices, e.g. 'label flip' or 'ten bins'.", show_default=False),
    ] = None,
    attackers: Annotated[
        float | None,
        typer.Option(help="With --attack: share of devices that are malicious; default 0.01.", show_default=False),
    ] = None,
    robust: Annotated[
        str | None,
        typer.Option(help="Clip bins to so many standard deviations, or auto: 1.", show_default=False),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Write report.html and each figure as CSV and PNG here.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Of people, habits and dice.", min=0)] = 1,
    threads: Annotated[int, typer.Option(help="Threads; the result does not depend on it.", min=1)] = 2,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Simulate devices over days, with cover and attacks.

    The rounds are those of a deployment of the same people and dice, byte for byte (docs/results/online.md). Example:

    \b
        ./secvm simulate --people 5000 --days 2 --hours 8-20 --folder simulated
        ./secvm simulate --people 5000 --days 1 --attack "label flip" --attackers 0.02 --robust auto
        ./secvm simulate --people 5000 --bins 200 --words 20 --hours 8-20 --epsilon 2 --floor 10 --format json
    """
    from secvm.privacy.target import PrivacyTarget
    from secvm_lab.online.population.plan import ZONES, Learning, Plan, Rhythm
    from secvm_lab.online.population.words import TitleWords
    from secvm_lab.online.run import Attack
    from secvm_lab.online.scenario import Promise, Scenario, page, play
    from secvm_lab.reports import check_folder

    begun = time.monotonic()
    if folder is not None:
        check_folder(folder)
    span = _hours(hours)
    made_up = _given(per_person=words, signal=signal, label_noise=label_noise)
    if data is not None and made_up:
        raise BadInputError("--words, --signal and --label-noise are for made-up people: leave them away with --data")
    if attack is None and attackers is not None:
        raise BadInputError("--attackers goes with --attack: without a plot nobody attacks")
    if epsilon is None and (delta is not None or contribution is not None):
        raise BadInputError("--delta and --contribution go with --epsilon: without it there is no cover")
    promise = None
    if epsilon is not None:
        asked = {"epsilon": _exact(epsilon, "--epsilon"), **_given(delta=_exact(delta, "--delta"))}
        promise = Promise(PrivacyTarget(**asked), **_given(contribution=contribution))
    rule = (lambda_, averaging, budget)
    if epsilon is not None and (descent != OFFLINE.name or thinning != "auto" or any(x is not None for x in rule)):
        raise BadInputError("with --epsilon rule, thinning and budget follow from public numbers: leave them away")
    plan = Plan(
        people=people,
        words=TitleWords(**made_up),
        data=data,
        labels=_LABELS,
        rhythm=Rhythm(online, minority, minority / 2 if night_minority is None else night_minority),
        zones=ZONES if zones is None else _zones(zones),
        churn=churn,
        stragglers=stragglers,
        days=days,
        hours=span,
        begin=22 if span == (0, 24) else span[0],
        bins=bins,
        train_share=options.number(train_share, "--train-share"),
        learning=Learning(**_learning(descent, lambda_, averaging, class_weight, thinning), robust=_clip(robust)),
        budget=budget,
        floor=floor,
        seed=seed,
        threads=threads,
    )
    scenario = Scenario(
        plan,
        promise=promise,
        attack=None if attack is None else Attack(attack, **_given(share=attackers)),
        rounds=rounds,
    )
    if data is not None and class_weight == _WEIGHT:
        note(
            f"the label that fewer people have weighs {_WEIGHT} times as much, as in the paper; "
            "--class-weight 1 takes that off"
        )
    outcome = play(scenario, TimeLeft(note).watch)
    seconds = time.monotonic() - begun
    tell_and_write(
        outcome.told() | used(begun, digits=3),
        output_format,
        lambda told: _lines(outcome, told),
        folder,
        lambda: page(outcome, as_typed(context), seconds),
    )


def _given(**options: Any) -> dict[str, Any]:
    """Those that were typed; the others have their defaults where they are used."""
    return {name: value for name, value in options.items() if value is not None}


def _exact(number: float | None, name: str) -> Fraction | None:
    return None if number is None else options.number(str(number), name)


def _hours(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not (dash and first.isdecimal() and last.isdecimal() and int(first) < int(last) <= 24):
        raise BadInputError(f"--hours must be two hours of a day such as 8-20, not '{text}'")
    return int(first), int(last)


def _zones(text: str) -> tuple[tuple[str, float], ...]:
    found = []
    for part in text.split(","):
        name, equals, share = part.strip().partition("=")
        if not equals:
            raise BadInputError(f"--zones must be ZONE=SHARE and more of them after commas, not '{part}'")
        found.append((name, float(options.number(share, "--zones"))))
    return tuple(found)


def _learning(
    descent: str, lambda_: str | None, averaging: int | None, class_weight: str, thinning: str
) -> dict[str, Any]:
    from secvm.learning.aggregate.descent import RULES
    from secvm.learning.thinning import parse_thinning

    if descent not in RULES:
        raise BadInputError(f"--descent must be {' or '.join(RULES)}, not '{descent}'")
    kind = RULES.find(descent)
    if kind.normalised and thinning == "none":
        raise BadInputError(f"{descent} is thinned by a number over devices: unthinned rows fit into no package")
    regularised = _LAMBDA if lambda_ is None and "lambda" in kind.setting_names() else lambda_
    rule = options.RuleOptions(descent, regularised, averaging).rule()
    weight = options.number(class_weight, "--class-weight")
    if weight <= 0:
        raise BadInputError("--class-weight must be above zero")
    return {"rule": rule, "weight": weight, "thinning": parse_thinning(thinning, kind.usual_thinning)}


def _clip(robust: str | None) -> Any:
    from secvm.learning.experiment import Robust

    if robust is None:
        return None
    return Robust(clip=_CLIP if robust == "auto" else options.number(robust, "--robust"))


def _recalls(outcome: Outcome, told: dict[str, Any]) -> list[str]:
    """What became of each label, by day, by night and in the end."""
    from secvm_lab.online.scenario import by_night

    labels = outcome.plan.labels
    lines = [f"{'':10}  " + "  ".join(f"recall {label:>10}  precision" for label in labels)]
    for when in ("day", "night"):
        means = told["means"][when]
        if means is not None:
            cells = [f"{_number(means['recall'][x]):>17}  {_number(means['precision'][x]):>9}" for x in labels]
            lines.append(f"{when:10}  " + "  ".join(cells))
    cells = [f"{_number(told['final']['recall'][x]):>17}  {_number(told['final']['precision'][x]):>9}" for x in labels]
    return [*lines, f"{'last model':10}  " + "  ".join(cells), *(f"{n}: {v}" for n, v in by_night(outcome.run))]


def _lines(outcome: Outcome, told: dict[str, Any]) -> list[str]:
    run = outcome.run
    lines = [
        f"{outcome.plan.people:,} people at any time, {run.devices:,} devices in all, {len(run.lines)} rounds",
        f"a round: {told['participants_per_round']:,.0f} devices of {told['packages_per_participant']:.1f} packages",
        run.learning,
    ]
    if told["abandoned"] == len(run.lines):
        lines.append(
            "the model has learnt nothing: in no round did enough people train; more --people, or a lower --floor"
        )
    else:
        lines += _recalls(outcome, told)
    if "privacy" in told:
        privacy = told["privacy"]
        lines.append(
            f"epsilon {privacy['epsilon_achieved']:g} at delta {privacy['delta']:g} over {privacy['rounds']} rounds: "
            f"{privacy['budget_per_device_round']} packages per device and round, {privacy['relay_packages']:,} of each"
            " of two relays, one of which must be honest"
        )
    if "attack" in told:
        lines.append(f"attack: {told['attack']['plot']}, {told['attack']['attackers']:.1%} of the devices")
    if "cost" in told:
        lost = ", ".join(f"{label} {100 * value:.1f} points" for label, value in told["cost"]["recall_lost"].items())
        lines.append(
            f"cost: recall lost {lost}; {told['cost']['packages_per_participant_more']:.1f} more packages of a device"
        )
    if 0 < told["abandoned"] < len(run.lines):
        lines.append(f"{told['abandoned']} rounds were abandoned: too few people trained")
    if "report" in told:
        lines.append(f"report: {told['report']}")
    lines.append(f"{told['seconds']:.1f} s, {told['peak_rss_mb']:.0f} MB")
    return lines


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
