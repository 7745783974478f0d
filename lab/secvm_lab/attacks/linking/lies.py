"""Lies told to whole devices, for attacks whose defence is that a device checks (``secvm_lab.trials``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from secvm_lab.attacks.attack import Advance, Detail


@dataclass(frozen=True, slots=True)
class LiesTold:
    """What came of lies."""

    told: int
    #: After which a package left, or which no check saw.
    believed: int
    #: What the devices made of them.
    device: Counter[str]

    @property
    def detail(self) -> Detail:
        """The same, for a measurement."""
        said = ", ".join(f"{what}: {count}" for what, count in self.device.most_common())
        return {"lies_told": self.told, "lies_believed": self.believed, "devices_said": said}


def tell(names: Sequence[str], trials: int, seed: int, advance: Advance) -> LiesTold:
    """So many lies, of these sorts in turn, each to a device with an honest past of its own."""
    # Late: whole devices bring clients and servers along, and a list of attacks needs none of them.
    from secvm_lab.trials import run  # noqa: PLC0415

    shares = {name: len(range(i, trials, len(names))) for i, name in enumerate(names)}
    counts = [
        run([name], trials=share, seed=f"attack {seed}", advance=advance)[name]
        for name, share in shares.items()
        if share
    ]
    return LiesTold(
        told=sum(count.trials for count in counts),
        believed=sum(count.trials - count.caught for count in counts),
        device=sum((count.device for count in counts), Counter()),
    )
