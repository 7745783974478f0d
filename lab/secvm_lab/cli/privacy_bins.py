"""``secvm privacy bins``: how many features of a dictionary share a bin, and how well a word hides in its traffic."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secvm.cli.output import Format, FormatOption, emit

if TYPE_CHECKING:
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
        f"popular word is right for {posterior:.0%} of the traffic. Sharing a bin is not hiding in traffic.",
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
