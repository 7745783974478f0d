"""A coordinator, and a relay, that lie: every lie by name, with what should come of it.

A ``Lie`` is told to a ``Scene``: an honest past at random, and a victim that has followed it or comes now. It returns
what the victim is then served, as files by path. Each is told in several ways, drawn at random, the strongest that we
know: the liar signs as coordinator and as log, recomputes whatever follows from its lie, and has honest witnesses
cosign all that extends what they have seen. What it cannot have is a quorum for two logs (``liar``).

Each is caught before a package leaves, except one that is **not detected**, because nothing here can: a forged tally
within the budget. ``secvm dev trials`` tells them all.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from secvm_lab.rigs.lies import about_salt as salt
from secvm_lab.rigs.lies import about_steps as steps
from secvm_lab.rigs.lies import about_the_log as log
from secvm_lab.rigs.lies import to_one_device as one
from secvm_lab.rigs.lies.liar import Scene, Told


@dataclass(frozen=True, slots=True)
class Lie:
    """One way to lie."""

    name: str
    tell: Callable[[Scene], Told]
    #: Whether somebody who takes no part sees it in what is public, in every variant. Of others see ``Told.visible``.
    visible_from_outside: bool
    #: Whether a device sees it.
    detected: bool = True
    #: What the scene needs, for ``Scene``.
    needs: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def sentence(self) -> str:
        """What it is, in one sentence."""
        return (self.tell.__doc__ or "").strip()

    def told(self, dice: random.Random) -> tuple[Scene, Told]:
        """An honest past, and this lie after it."""
        scene = Scene(dice, **self.needs)
        return scene, self.tell(scene)


_LIES = (
    Lie("different-weights", one.different_weights, visible_from_outside=False),
    Lie("shorter-window", one.shorter_window, visible_from_outside=False),
    Lie("different-gateway-key", one.different_gateway_key, visible_from_outside=False),
    Lie("several-gateway-keys", one.several_gateway_keys, visible_from_outside=True),
    Lie("rewritten-past", one.rewritten_past, visible_from_outside=False, needs={"at_least": 1}),
    Lie("two-manifests", one.two_manifests, visible_from_outside=False),
    Lie("forked-log", one.forked_log, visible_from_outside=False),
    Lie("withheld-checkpoint", log.withheld_checkpoint, visible_from_outside=False),
    Lie("stale-checkpoint", log.stale_checkpoint, visible_from_outside=False),
    Lie("wrong-lambda", steps.wrong_lambda, visible_from_outside=True),
    Lie("wrong-normaliser", steps.wrong_normaliser, visible_from_outside=True),
    Lie("wrong-class-weight", steps.wrong_class_weight, visible_from_outside=True),
    Lie("first-state-not-zero", steps.first_state_not_zero, visible_from_outside=True),
    Lie("weights-not-of-the-state", steps.weights_not_of_the_state, visible_from_outside=True),
    Lie("changed-bins", steps.changed_bins, visible_from_outside=True),
    Lie("changed-salt", steps.changed_salt, visible_from_outside=True),
    Lie("forged-salt", salt.forged_salt, visible_from_outside=True, needs={"beacons": 2, "newcomer": True}),
    Lie("beacon-already-known", salt.beacon_already_known, visible_from_outside=True, needs={"newcomer": True}),
    Lie("replayed-log", log.replayed_log, visible_from_outside=False),
    Lie("logged-twice", log.logged_twice, visible_from_outside=True),
    Lie("cosigned-by-strangers", log.cosigned_by_strangers, visible_from_outside=True),
    Lie("one-counted-twice", log.one_counted_twice, visible_from_outside=True),
    Lie("relay-count-that-cannot-be", salt.relay_count_that_cannot_be, visible_from_outside=True),
    Lie("relay-count-withheld", salt.relay_count_withheld, visible_from_outside=True),
    Lie("forged-tally", steps.forged_tally, visible_from_outside=False, detected=False),
)
#: All of them, by name.
LIES: Mapping[str, Lie] = MappingProxyType({lie.name: lie for lie in _LIES})
#: The one that nobody can see.
FORGED_TALLY = LIES["forged-tally"]
