"""``secvm audit collisions``: how well an experiment's bins hide the words of a public vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secvm.cli.output import Format, FormatOption, emit
from secvm.errors import BadInputError

if TYPE_CHECKING:
    from secvm.auditor.collisions import Collisions
    from secvm.learning.individual.binning import HashBinning


def collisions(
    vocabulary: Annotated[
        Path,
        typer.Option(help="One word on each line; a tab and a count may follow.", metavar="FILE", show_default=False),
    ],
    experiment: Annotated[
        str | None,
        typer.Option(
            help="The experiment: URL or folder of its coordinator, a slash, its digest.", metavar="URL/DIGEST"
        ),
    ] = None,
    salt: Annotated[str | None, typer.Option(help="Instead: the salt, in hex.", metavar="HEX")] = None,
    bins: Annotated[int | None, typer.Option(help="With --salt: the number of bins.")] = None,
    hashes: Annotated[int | None, typer.Option(help="With --salt: hashes of a word (1).")] = None,
    exponent: Annotated[float, typer.Option(help="Zipf's law, where no counts are given.")] = 1.0,
    list_: Annotated[
        int, typer.Option("--list", help="List up to N words that are alone in a bin.", metavar="N", min=0)
    ] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw traffic by posterior, as SVG.", metavar="FILE.svg")] = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Count which words of a public vocabulary share bins.

    The posterior is how often somebody is right who sees a bin and guesses its most popular word. Without counts the
    order of the lines is taken for the order of popularity. Examples:

    \b
        ./secvm audit collisions --vocabulary words.txt --experiment https://coordinator.example/3fa9…
        ./secvm audit collisions --vocabulary words.txt --salt 00112233445566778899aabbccddeeff --bins 1000
    """
    from secvm.auditor.collisions import find_collisions, read_public_vocabulary

    if (experiment is None) == (salt is None):
        raise BadInputError("say whose bins: --experiment URL/DIGEST, or --salt HEX with --bins N")
    if experiment is not None and (bins is not None or hashes is not None):
        raise BadInputError("--bins and --hashes go with --salt: an experiment names its own")
    binning = _of_experiment(experiment) if experiment is not None else _of_salt(salt or "", bins, hashes or 1)
    words = read_public_vocabulary(vocabulary, exponent=exponent)
    counted = find_collisions(words, binning)
    content: dict[str, Any] = {**counted.to_content(), "salt": binning.salt.hex()}
    alone = [words.word(int(index)) for index in counted.alone[:list_]]
    if list_:
        content["alone"] = alone
    if plot is not None:
        from secvm.files import write_atomically

        write_atomically(plot, draw(counted).encode())
    emit(content, output_format, text=_text(counted, alone))


def _of_salt(salt: str, bins: int | None, hashes: int) -> HashBinning:
    from secvm.learning.individual.binning import HashBinning

    try:
        data = bytes.fromhex(salt)
    except ValueError:
        data = b""
    if not 16 <= len(data) <= 64:
        raise BadInputError("--salt must be 16 to 64 bytes in hex")
    if bins is None:
        raise BadInputError("--salt needs --bins: another number of bins is another hash")
    return HashBinning(n_bins=bins, salt=data, n_hashes=hashes)


def _of_experiment(place: str) -> HashBinning:
    from secvm.auditor.collisions import published_bins
    from secvm.auditor.files import open_files

    where, slash, name = place.rstrip("/").rpartition("/")
    if not slash or not name or name.lower().strip("0123456789abcdef"):
        raise BadInputError("--experiment is a coordinator's URL or folder, a slash, and the experiment's digest")
    files, _ = open_files(where.removesuffix("/v1/experiment"))
    return published_bins(files, name)


def _text(counted: Collisions, alone: list[str]) -> str:
    from secvm.cli.audit.text import short

    traffic = "counts of the file" if counted.counted else "Zipf's law over the lines"
    span = f"{counted.smallest:,} at least, {counted.median:,.0f} in the median, {counted.largest:,} at most"
    lines = [
        f"words                    {counted.words:,}",
        f"bins                     {counted.bins:,}, {counted.hashes} hash{'' if counted.hashes == 1 else 'es'}",
        f"words per bin            {span}",
        f"bins without a word      {counted.empty:,}",
        f"words alone in a bin     {len(counted.alone):,}",
        f"traffic                  {traffic}",
        f"posterior of the most popular word, by traffic  {counted.posterior:.3f}",
        f"traffic whose word is guessed with more than .5 {counted.above_half:.3f}",
        f"traffic whose word is guessed with more than .9 {counted.above_nine_tenths:.3f}",
    ]
    return "\n".join([*lines, *(f"  alone: {short(word)}" for word in alone)])


def draw(counted: Collisions) -> str:
    """Traffic by posterior, as an SVG document that stands alone."""
    from secvm.pages.figure import Bars, Figure, Stack
    from secvm.pages.pictures import picture

    shares = [float(share) for share in counted.histogram]
    middles = [(place + 0.5) / len(shares) for place in range(len(shares))]
    figure = Figure(
        "collisions",
        title="How well bins hide words",
        description=f"Traffic by the posterior of its bin's most popular word; {counted.posterior:.2f} on average.",
        across="posterior of the bin's most popular word",
        up="share of the traffic",
        bars=Bars(middles, [Stack("traffic", shares)]),
        percent=True,
    )
    return picture(figure, "svg").decode()
