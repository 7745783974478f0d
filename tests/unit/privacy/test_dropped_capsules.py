"""An entry relay hands on some of a person's capsules, chosen without a look: that never tells more than all of them.

The proof is in docs/proofs/relays-cover.md, section 5. Here every order of a device's packages, every choice of
thinning and every choice of places is written down, for devices with so many places as the protocol asks for.
"""

import itertools
import math
from collections import defaultdict
from functools import reduce

import numpy as np
import pytest

from secvm.learning.cover_law import relay_budget
from tests.unit.privacy.enumerated import Law, added, independent_units, negative_binomial, true_delta, units

EPSILONS = (0.0, 0.05, 0.2, 0.5, 1.0)
#: A package of a cell, by its number, or one that names none: a null, or the canary.
NULL = -1


def noise(cells: int, shape: float, p: float, length: int) -> Law:
    one = negative_binomial(shape, p, length)
    law = reduce(np.multiply.outer, [one / one.sum()] * cells)
    return np.asarray(law)


def kept(own: list[int], q: float, always: list[int], *, places: int, keep: tuple[int, ...], cells: int) -> Law:
    """The law of what is handed on of a device's packages: those at the places ``keep`` of a drawn order.

    ``own`` are cells of units that are thinned, ``always`` of packages that are not.
    """
    found: dict[tuple[int, ...], float] = defaultdict(float)
    orders = list(itertools.permutations(range(places)))
    for thrown in itertools.product((False, True), repeat=len(own)):
        sent = [cell for cell, there in zip(own, thrown, strict=True) if there] + always
        chance = math.prod(q if there else 1 - q for there in thrown)
        packages = sent + [NULL] * (places - len(sent))
        for order in orders:
            counts = [0] * cells
            for place in keep:
                if packages[order[place]] != NULL:
                    counts[packages[order[place]]] += 1
            found[tuple(counts)] += chance / len(orders)
    return units(found.items(), cells)


World = tuple[list[int], list[int]]
#: Cells of the person's packages in the one world and in the other: units that are thinned, the participation package.
ZERO_OUT: tuple[World, World, int] = (([0, 1], [2]), ([], []), 3)
FLIP: tuple[World, World, int] = (([0], [2]), ([1], [3]), 4)


@pytest.mark.parametrize(("worlds", "units_of_person"), [(ZERO_OUT, 2), (FLIP, 1)])
@pytest.mark.parametrize("q", [1.0, 0.5, 0.2])
@pytest.mark.parametrize(("shape", "p"), [(1.0, 0.5), (4.0, 0.3)])
def test_some_of_a_persons_capsules_never_tell_more_than_all(
    worlds: tuple[World, World, int],
    units_of_person: int,
    q: float,
    shape: float,
    p: float,
) -> None:
    here, there, cells = worlds
    # One model, the bias being one of its units.
    places = relay_budget(violable=1, features=units_of_person - 1)
    cover = noise(cells, shape, p, 7)

    def told(keep: tuple[int, ...]) -> tuple[Law, Law]:
        one, other = (kept(own, q, always, places=places, keep=keep, cells=cells) for own, always in (here, there))
        return added(cover, one), added(cover, other)

    whole = told(tuple(range(places)))
    for number in range(places):
        some = told(tuple(range(number)))
        for epsilon in EPSILONS:
            assert true_delta(*some, epsilon) <= true_delta(*whole, epsilon) + 1e-12


def test_which_places_are_kept_does_not_matter_because_the_order_is_drawn() -> None:
    laws = [kept([0, 1], 0.4, [2], places=5, keep=keep, cells=3) for keep in itertools.combinations(range(5), 3)]
    assert all(np.allclose(laws[0], law, atol=1e-12) for law in laws)


def test_everything_kept_is_a_unit_in_each_cell_with_its_own_chance() -> None:
    """Room for all of them: nothing is cut, and thinning's dice stay independent."""
    whole = kept([0, 1], 0.4, [2], places=5, keep=tuple(range(5)), cells=3)
    assert np.allclose(whole, independent_units([0.4, 0.4, 1.0]), atol=1e-12)


def test_a_relay_that_could_see_which_are_nulls_would_tell_more() -> None:
    """The same comparison finds a choice that looks at the content: how many were kept is seen beside the counts."""
    cover = noise(2, 4.0, 0.3, 7)
    own = independent_units([0.5, 0.5])
    whole = added(cover, own), added(cover, independent_units([0.0, 0.0]))
    number = np.indices(own.shape).sum(axis=0)
    with_number = np.stack([added(cover, np.where(number == n, own, 0.0)) for n in range(3)])
    without = np.stack([whole[1], np.zeros_like(whole[1]), np.zeros_like(whole[1])])
    assert true_delta(with_number, without, 0.2) > true_delta(*whole, 0.2) + 0.1
