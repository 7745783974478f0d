"""``secvm privacy bins``: how many features of a dictionary share a bin, and how well a word hides in its traffic.

``secvm privacy labels`` and ``secvm privacy plan``: how well labels hide in tallies, and what would help.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secvm.cli.output import Format, FormatOption, emit
from secvm.errors import BadInputError

if TYPE_CHECKING:
    from secvm_lab.privacy.label_leak import LabelGame, Leak, LeakPlan
    from secvm_lab.privacy.probability import Bracket, ProbabilityBound


def bins(
    features: Annotated[int, typer.Option(help="Features of the dictionary, all that may ever be hashed.")],
    bins: Annotated[int, typer.Option(help="Bins of the experiment.")],
    sensitive: Annotated[int, typer.Option(help="How many given features must not stand alone.")] = 1,
    min_load: Annotated[int, typer.Option(help="How many features shall at least share a bin.")] = 2,
    exponent: Annotated[float, typer.Option(help="Zipf's law of the words' traffic.")] = 1.0,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Bound how likely features stand alone in a bin.

    The paper's Lemmas 1 and 2 as printed, and exactly or between two bounds. In JSON all probabilities are decimal
    logarithms, rounded up (`_low`: down); null is the logarithm of zero. Example:

    \b
        ./secvm privacy bins --features 95880008 --bins 95880 --sensitive 1 --min-load 700
    """
    from secvm_lab.privacy import hashing_bounds as found
    from secvm_lab.privacy.bin_posterior import zipf_posterior

    p1 = found.printed_p1(features, bins), found.p1(features, bins)
    p2 = found.printed_p2(features, bins, sensitive), found.p2(features, bins, sensitive)
    p3 = found.printed_one_minus_p3(features, bins, min_load), found.one_minus_p3(features, bins, min_load)
    posterior = zipf_posterior(features, bins, exponent=exponent)
    content: dict[str, Any] = {
        "features": features,
        "bins": bins,
        "sensitive": sensitive,
        "min_load": min_load,
        **_content("p1", *p1),
        **_content("p2", *p2),
        **_content("one_minus_p3", *p3),
        "zipf_exponent": exponent,
        "posterior": posterior,
    }
    which = "the sensitive feature" if sensitive == 1 else f"one of {sensitive:,} sensitive features"
    events = (
        "some feature is alone in its bin",
        f"{which} is alone in its bin",
        f"some feature shares its bin with fewer than {min_load - 1:,} others",
    )
    lines = [
        f"{features:,} features in {bins:,} bins: {features / bins:,.1f} in a bin on average.",
        "",
        *_table(events, (p1, p2, p3)),
        "",
        f"If traffic follows Zipf's law with exponent {exponent:g}, whoever sees a bin and guesses its most",
        f"popular word is right for {100 * posterior:.0f} % of the traffic. Sharing a bin is not hiding in traffic.",
    ]
    if any(printed.vacuous for printed, _ in (p1, p2, p3)):
        lines.insert(6, "A bound of one or more says nothing.")
    emit(content, output_format, text="\n".join(lines))


def _content(name: str, printed: ProbabilityBound, tight: Bracket) -> dict[str, float | None]:
    return {
        f"{name}_log10": _number(printed),
        f"{name}_log10_exact": _number(tight.high),
        f"{name}_log10_low": _number(tight.low),
    }


def _number(bound: ProbabilityBound) -> float | None:
    return None if math.isinf(bound.log10) else bound.log10


def _table(events: Sequence[str], found: Sequence[tuple[ProbabilityBound, Bracket]]) -> Iterator[str]:
    width = max(len(event) for event in events) + 4
    yield f"{'How likely is it, over all salts, that':<{width}}  paper's bound  exactly"
    for event, (printed, tight) in zip(events, found, strict=True):
        low, high = tight.low.text(4), tight.high.text(4)
        exactly = high if low == high else f"{low} to {high}"
        yield f"  {event:<{width}}{printed.text(4):<15}{exactly}"


FeaturesOption = Annotated[int, typer.Option(help="Bins that a person has, the bias not counted.")]
BinsOption = Annotated[int, typer.Option(help="Bins of the experiment.")]
RoundsOption = Annotated[int, typer.Option(help="Rounds in which the person sends.")]
ZipfOption = Annotated[float, typer.Option(help="Exponent of the bins' popularity; 0: all alike.")]
ThinningOption = Annotated[str, typer.Option(help="RHO, q=Q, or none.")]
CoverOption = Annotated[float, typer.Option(help="Variance that cover adds to a cell in a round.")]
SameOption = Annotated[bool, typer.Option("--same-people", help="The very same people send in every round.")]

_NO_PROTECTION = "This is a measurement, no protection by itself. Tallies are public: anybody can play this attacker."


def labels(
    features: FeaturesOption,
    bins: BinsOption,
    participants: Annotated[
        int | None, typer.Option(help="The paper's two worlds: people who send with that sign.")
    ] = None,
    positive: Annotated[int | None, typer.Option(help="The label game: people who send with sign +.")] = None,
    negative: Annotated[int | None, typer.Option(help="The label game: people who send with sign -.")] = None,
    rounds: RoundsOption = 1,
    zipf: ZipfOption = 0.0,
    thinning: ThinningOption = "none",
    cover_variance: CoverOption = 0.0,
    same_people: SameOption = False,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Estimate how well public tallies give a label away.

    With --participants: the paper's two worlds and its Lemma 3, of one sign. With --positive and --negative: the label
    game, on the tallies of both signs. Examples:

    \b
        ./secvm privacy labels --participants 34615 --features 1826 --bins 95880 --rounds 1
        ./secvm privacy labels --positive 1000 --negative 9000 --features 50 --bins 1000 --zipf 1.1 --thinning q=0.1
    """
    if (positive is None) != (negative is None) or (participants is None) == (positive is None):
        raise BadInputError("say --participants, or both --positive and --negative")
    if participants is not None:
        if zipf or thinning != "none" or cover_variance or same_people:
            raise BadInputError(
                "the paper's two worlds are uniform and send everything; the rest goes with --positive and --negative"
            )
        _paper(participants, features, bins, rounds, output_format)
        return
    from secvm.learning.thinning import Thinning, parse_thinning
    from secvm_lab.privacy.label_leak import LabelGame, label_leak

    assert positive is not None
    assert negative is not None
    game = LabelGame(
        positive=positive,
        negative=negative,
        bins=bins,
        features=features,
        rounds=rounds,
        thinning=parse_thinning(thinning, Thinning()),
        zipf=zipf,
        cover_variance=cover_variance,
        same_people=same_people,
    )
    leak = label_leak(game)
    text = [f"{positive:,} people send + and {negative:,} send -.", *_sentences(leak, rounds), _NO_PROTECTION]
    emit({**_game_content(game), **_leak_content(leak)}, output_format, text="\n".join(text))


def _paper(participants: int, features: int, bins: int, rounds: int, output_format: Format) -> None:
    from secvm_lab.privacy import label_lemma
    from secvm_lab.privacy.label_lemma import paper_leak

    asked = participants, features, bins, rounds
    printed, smooth = label_lemma.lemma3_printed(*asked), label_lemma.lemma3_without_floor(*asked)
    exact = label_lemma.lemma3_exact(*asked)
    leak = paper_leak(participants=participants, features=features, bins=bins, rounds=rounds)
    content: dict[str, Any] = {
        "participants": participants,
        "features": features,
        "bins": bins,
        "rounds": rounds,
        "lemma3_printed_log10": printed.log10,
        "lemma3_without_floor_log10": smooth.log10,
        "lemma3_exact_log10": exact.log10,
        **_leak_content(leak),
    }
    text = [
        f"A tally's probability differs between the two worlds by at most {printed.text(4)} (Lemma 3 as printed),",
        f"{smooth.text(4)} (without its floor), {exact.text(4)} (exactly). That says nothing about telling them apart:",
        *_sentences(leak, rounds),
        _NO_PROTECTION,
    ]
    emit(content, output_format, text="\n".join(text))


def plan(
    participants: Annotated[int, typer.Option(help="People who send in a round, of both labels together.")],
    features: FeaturesOption,
    bins: BinsOption,
    share: Annotated[float, typer.Option(help="Share of them that has the one label.")] = 0.5,
    rounds: RoundsOption = 1,
    zipf: ZipfOption = 0.0,
    thinning: ThinningOption = "none",
    cover_variance: CoverOption = 0.0,
    same_people: SameOption = False,
    auc: Annotated[float, typer.Option(help="The AUC that shall not be exceeded.")] = 0.55,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Plan an experiment by how well its labels hide.

    Each answer changes one thing and leaves the others as they are. Example:

    \b
        ./secvm privacy plan --participants 100000 --share 0.2 --features 100 --bins 1000 --rounds 10 --zipf 1
    """
    from secvm.learning.thinning import Thinning, parse_thinning
    from secvm_lab.privacy.label_leak import LabelGame, split_by_label
    from secvm_lab.privacy.label_leak import plan as planned

    positive, negative = split_by_label(participants, share)
    game = LabelGame(
        positive=positive,
        negative=negative,
        bins=bins,
        features=features,
        rounds=rounds,
        thinning=parse_thinning(thinning, Thinning()),
        zipf=zipf,
        cover_variance=cover_variance,
        same_people=same_people,
    )
    found = planned(game, wanted_auc=auc)
    content = {
        **_game_content(game),
        **_leak_content(found.leak),
        "wanted_auc": auc,
        "most_rounds": found.most_rounds,
        "most_bins": found.most_bins,
        "fewest_participants": found.fewest_participants,
        "most_q": None if found.most_q is None else float(found.most_q),
    }
    emit(content, output_format, text="\n".join(_plan_sentences(game, found)))


def _plan_sentences(game: LabelGame, found: LeakPlan) -> list[str]:
    from secvm_lab.privacy.label_leak import MOST_BINS, MOST_PEOPLE

    bins, people = found.most_bins, found.fewest_participants
    rounds = f"at most {found.most_rounds:,} rounds" if found.most_rounds else "not even one round"
    if bins is None:
        few_bins = f"any number of bins up to {MOST_BINS:,}"
    else:
        few_bins = f"at most {bins:,} bins" if bins else "no number of bins is small enough"
    many = f"{people:,} people at least" if people is not None else f"not even {MOST_PEOPLE:,} people are enough"
    thin = "even a millionth of the packages is too much"
    if found.most_q is not None:
        thin = (
            "all packages may be sent" if found.most_q == 1 else f"send at most a share q = {float(found.most_q):.3g}"
        )
    verdict = "within" if found.leak.auc <= found.wanted_auc else "above"
    return [
        f"{game.positive:,} people send + and {game.negative or 0:,} send -.",
        *_sentences(found.leak, game.rounds),
        f"That is {verdict} the wanted {found.wanted_auc:g}. To keep to it, one thing changed and the rest as it is:",
        f"  rounds        {rounds}",
        f"  bins          {few_bins}",
        f"  participants  {many}",
        f"  thinning      {thin}",
        _NO_PROTECTION,
        "Nothing limits the risk all the same: whoever chooses the weights can tell every label. Only cover limits it.",
    ]


def _sentences(leak: Leak, rounds: int) -> list[str]:
    measures = f"total variation {leak.total_variation:.3f}, d' {leak.d_prime:.3f}"
    return [
        f"Who knows a person's bins tells the label with AUC {leak.auc:.3f} (0.5 is guessing, 1 is certainty)",
        f"from {rounds:,} round{'' if rounds == 1 else 's'}; {measures}; the law alone says AUC {leak.law_auc:.3f}.",
    ]


def _game_content(game: LabelGame) -> dict[str, Any]:
    names = ("positive", "negative", "features", "bins", "rounds", "zipf", "q", "cover_variance", "same_people")
    return {name: getattr(game, name) for name in names}


def _leak_content(leak: Leak) -> dict[str, float]:
    return {
        "auc": leak.auc,
        "tv": leak.total_variation,
        "d_prime": leak.d_prime,
        "law_d_prime": leak.law_d_squared**0.5,
        "law_auc": leak.law_auc,
    }
