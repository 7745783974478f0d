"""The lab's own rules: who guesses sees a view and what it knows anyhow, and nothing else."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import typing
from collections.abc import Iterator
from types import GenericAlias, ModuleType
from typing import Any

import numpy as np
import pytest

from secvm.errors import BadInputError
from secvm.people.person import Person
from secvm_lab.attacks import registry, views
from secvm_lab.attacks.attack import Advance, Attack, Measurement

FOLDER = "secvm_lab.attacks"
MODULES = registry.module_names()
#: What a field of a view or of knowledge may be made of.
PLAIN = (int, float, str, bytes, bool, type(None), np.generic, np.ndarray)
#: Imports that would bring people, devices or worlds into a guess.
FORBIDDEN = ("secvm.people", "secvm.learning.individual", "secvm.participant", "secvm.testing", "secvm_lab.population")

#: Parts of the lab that worlds are made of: people, lies, and dice that would give the truth again.
WORLDS = tuple(f"{FOLDER}.{name}" for name in ("drawing", "linking.lies", "counting.covered"))
CHANGEABLE = (list, dict, set, bytearray, np.ndarray, np.random.Generator)


def types_in(annotation: object) -> Iterator[type]:
    """All classes that an annotation mentions."""
    if isinstance(annotation, type) and not typing.get_args(annotation):
        yield annotation
    if typing.get_origin(annotation) is np.ndarray:
        yield np.ndarray
        return
    for argument in typing.get_args(annotation):
        if argument is not Ellipsis:
            yield from types_in(argument)


def offending(kind: type, seen: frozenset[type] = frozenset()) -> list[str]:
    """Fields of a view, at any depth, that hold something else than numbers, bytes and further values of the lab's."""
    if kind in seen or issubclass(kind, PLAIN) or kind in (tuple, frozenset):
        return []
    if not dataclasses.is_dataclass(kind) or not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return [f"{kind.__name__} is no frozen value"]
    if kind.__module__.startswith(FORBIDDEN):
        return [f"{kind.__name__} is somebody's"]
    hints = typing.get_type_hints(kind)
    return [
        f"{kind.__name__}.{name}: {fault}"
        for name, annotation in hints.items()
        for inner in types_in(annotation)
        for fault in offending(inner, seen | {kind})
    ]


def faults_of_signature(guess: object) -> list[str]:
    """What is wrong with the parameters of a guess: it takes one view and one piece of knowledge."""
    assert callable(guess)
    parameters = list(inspect.signature(guess).parameters)
    hints = typing.get_type_hints(guess)
    if len(parameters) != 2 or set(parameters) - set(hints):
        return ["a guess takes a view and knowledge, both annotated"]
    view, knowing = (hints[name] for name in parameters)
    faults = []
    if not (isinstance(view, type) and issubclass(view, views.View)):
        faults.append(f"{view} is no view")
    if not (isinstance(knowing, type) and issubclass(knowing, views.Knowledge)):
        faults.append(f"{knowing} is no knowledge")
    return faults or [*offending(view), *offending(knowing)]


def names_used(tree: ast.Module, start: str) -> set[str]:
    """The names that a function of a module uses, and the functions of the same module that it calls."""
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    open_, done, found = [start], set(), set()
    while open_:
        name = open_.pop()
        done.add(name)
        used = {node.id for node in ast.walk(functions[name]) if isinstance(node, ast.Name)}
        found |= used
        open_ += [other for other in used if other in functions and other not in done]
    return found


def trespasses(module: ModuleType, source: str, guess: str) -> list[str]:
    """Names that a guess reaches and that come from the side of people, throw the world's dice, or can be changed."""
    tree = ast.parse(source)
    origins: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            origins |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            # Through a whole package of ours everything can be reached.
            ours = [alias for alias in node.names if alias.name.startswith("secvm")]
            origins |= {alias.asname or alias.name.partition(".")[0]: FORBIDDEN[0] for alias in ours}
    # Names of array types are in annotations alone, wherever they come from.
    used = {n for n in names_used(tree, guess) if not isinstance(getattr(module, n, None), GenericAlias)}
    faults = [name for name in used if origins.get(name, "").startswith((*FORBIDDEN, *WORLDS))]
    faults += [name for name in used if name.endswith("World") or name in {"play", "globals", "inspect"}]
    # What a world can write into, it could tell its secrets with.
    return faults + [name for name in used if isinstance(getattr(module, name, None), CHANGEABLE)]


def test_every_attack_says_what_it_is() -> None:
    for attack in registry.attacks().values():
        assert faults_of_signature(attack.guess) == []
        assert attack.name.startswith(f"A{attack.number} ")
        assert attack.steps
        assert 0 <= attack.chance <= 1
        assert 0 < attack.quick_trials <= attack.trials
        for sentence in (attack.needs, attack.defence, *attack.steps):
            assert sentence.endswith("."), sentence


@pytest.mark.parametrize("module", MODULES)
def test_a_guess_takes_a_view_and_knowledge_without_a_person_and_does_not_reach_round_them(module: str) -> None:
    own = [attack.guess for attack in registry.attacks().values() if attack.guess.__module__ == module]
    loaded = importlib.import_module(module)
    for guess in {*own, *(value for name, value in vars(loaded).items() if name.startswith("guess"))}:
        source = importlib.import_module(guess.__module__)
        assert faults_of_signature(guess) == []
        assert trespasses(source, inspect.getsource(source), guess.__name__) == []


def test_cheating_guesses_are_seen() -> None:
    @dataclasses.dataclass(frozen=True)
    class Peeking(views.View):
        sender: Person

    def of_a_person(person: Person, knowing: views.Nothing) -> int:
        return len(str(person)) + len(str(knowing))

    def played(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
        raise NotImplementedError

    def of_more(view: views.PublicView, knowing: views.Nothing, truth: int) -> int:
        return truth + len(view.tallies) + len(str(knowing))

    for cheat in (of_a_person, of_more):
        assert faults_of_signature(cheat)
    assert offending(Peeking)
    # Were this allowed by the type checker, the comment below would be a fault: it complains of those without a use.
    given: dict[str, Any] = dict.fromkeys(("title", "slug", "needs", "metric", "defence"), "")
    Attack(**given, number=99, steps=(), chance=0, trials=1, quick_trials=1, guess=of_a_person, play=played)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("from secvm.people.person import Person", "Person"),
        ("from secvm.people import person", "person"),
        ("import secvm.people.person", "secvm"),
        ("from secvm_lab.attacks.drawing import generator as dice", "dice"),
        ("truth = []", "truth"),
        ("import numpy as np\ntruth = np.zeros(3)", "truth"),
    ],
)
def test_a_guess_that_reaches_round_its_view_is_seen(line: str, name: str) -> None:
    source = f"{line}\ndef helping():\n    return {name}\ndef guess(view, knowing):\n    return helping()\n"
    module = ModuleType("cheat")
    exec(source, module.__dict__)
    assert trespasses(module, source, "guess") != []


def test_attacks_are_found_by_slug_number_and_name() -> None:
    for slug, attack in registry.attacks().items():
        for name in (slug, f"A{attack.number}", str(attack.number), attack.name):
            assert registry.find(name) is attack
    with pytest.raises(BadInputError, match="no attack"):
        registry.find("tickling")
