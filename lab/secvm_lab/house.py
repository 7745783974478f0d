"""House: how large the tree is, and how many ways it has to do one thing (``secvm dev house``).

Code lines are lines with a token that is neither a comment nor part of a docstring. A module is a Python file that git
knows or would add. Everything is read from the sources; nothing is imported or run. The longest test is the one that
pytest noted after the last run of the default tier (``tests/conftest.py``).
"""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: The most that each number may be; those without are told alone.
LIMITS = {
    "product_lines": 38_000,
    "product_modules": 420,
    "all_lines": 112_000,
    "widest_folder": 16,
    "widest_folder_of_lab": 16,
    "http_clients": 1,
    "sqlite_openings": 1,
    "server_stacks": 2,
    "defaults_of_epsilon": 1,
    "defaults_of_delta": 1,
    "defaults_of_rounds": 1,
    "files_that_quote_a_rule": 6,
    "duplicate_class_names": 0,
    "pronouns_as_names": 0,
}
#: By this command before the laboratory left the package (commit 30f0a1cd).
BEFORE = {
    "product_lines": 81_933,
    "product_modules": 845,
    "lab_lines": 13_855,
    "lab_modules": 161,
    "test_lines": 67_841,
    "all_lines": 158_301,
    "widest_folder": 53,
    "widest_folder_of_lab": 37,
    "http_clients": 7,
    "sqlite_openings": 10,
    "server_stacks": 5,
    "defaults_of_epsilon": 4,
    "defaults_of_delta": 8,
    "defaults_of_rounds": 25,
    "files_that_quote_a_rule": 41,
    "duplicate_class_names": 111,
    "pronouns_as_names": 1_722,
}
PRODUCT, LAB = "src/secvm/", "lab/"
_LAYOUT = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_CLIENT = re.compile(r"\bClientSession\(|\bbuild_opener\(|\burlopen\(|\bHTTPS?Connection\(")
_STACKS = {
    "own server": re.compile(r"^import httptools|^from httptools", re.MULTILINE),
    "aiohttp.web": re.compile(r"^from aiohttp import web|^from aiohttp\.web|^import aiohttp\.web", re.MULTILINE),
    "uvicorn": re.compile(r"^import uvicorn|^from uvicorn", re.MULTILINE),
    "asyncio.start_server": re.compile(r"\bstart_server\("),
    "http.server": re.compile(r"^from http\.server|^import http\.server", re.MULTILINE),
}
#: Where ``learning.declared`` is not asked, the rules' names are written out.
_RULES = frozenset({"pegasos", "swift"})
#: Words that name nothing, as names of variables, parameters, fields, functions and classes.
_PRONOUNS = frozenset({"told", "found", "one", "which"})


@dataclass(frozen=True, slots=True)
class Module:
    """One Python file."""

    path: str
    text: str

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)


def modules_of(root: Path) -> list[Module]:
    """All Python files of a checkout that git does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)  # noqa: S603  (git itself)
    paths = sorted(set(listed.stdout.split("\n")) - {""})
    return [Module(path, (root / path).read_text(encoding="utf-8")) for path in paths if (root / path).is_file()]


def house(modules: list[Module]) -> dict[str, int]:
    """The numbers of ``LIMITS``, and a few beside them."""
    product, lab = ([module for module in modules if module.path.startswith(part)] for part in (PRODUCT, LAB))
    lines = {module.path: code_lines(module.text) for module in modules}
    of = {name: sum(lines[module.path] for module in part) for name, part in (("product", product), ("lab", lab))}
    return {
        "product_lines": of["product"],
        "product_modules": len(product),
        "lab_lines": of["lab"],
        "lab_modules": len(lab),
        "test_lines": sum(count for path, count in lines.items() if path.startswith("tests/")),
        "all_lines": sum(lines.values()),
        "widest_folder": max(_widths(product).values(), default=0),
        "widest_folder_of_lab": max(_widths(lab).values(), default=0),
        **{name: len(where) for name, where in _counted(product).items()},
    }


def places(modules: list[Module]) -> dict[str, list[str]]:
    """Where the places are that a number counts."""
    folders = _widths([module for module in modules if module.path.startswith((PRODUCT, LAB))])
    wide = [f"{folder}: {n}" for folder, n in folders.most_common() if n > LIMITS["widest_folder"]]
    return {"widest_folder": wide, **_counted([module for module in modules if module.path.startswith(PRODUCT)])}


def _counted(product: list[Module]) -> dict[str, list[str]]:
    homes = defaultdict[str, list[str]](list)
    for module in product:
        for name in _classes(module.tree):
            homes[name].append(module.path)
    return {
        "http_clients": [module.path for module in product if _CLIENT.search(module.text)],
        "sqlite_openings": [module.path for module in product if "sqlite3.connect(" in module.text],
        "server_stacks": [name for name, stack in _STACKS.items() if any(stack.search(one.text) for one in product)],
        **{f"defaults_of_{name}": _defaults(product, name) for name in ("epsilon", "delta", "rounds")},
        "files_that_quote_a_rule": [module.path for module in product if _RULES & set(_quoted(module.tree))],
        "duplicate_class_names": [f"{name}: {', '.join(at)}" for name, at in sorted(homes.items()) if len(at) > 1],
        "pronouns_as_names": _pronouns(product),
    }


def longest_test(root: Path) -> dict[str, Any] | None:
    """Name and seconds of the slowest case of the last whole default tier; None: it has not run here."""
    noted = root / ".pytest_cache" / "v" / "secvm" / "longest"
    return json.loads(noted.read_text()) if noted.is_file() else None


def code_lines(text: str) -> int:
    """Lines with a token that is neither a comment nor part of a docstring."""
    lines = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (*_LAYOUT, tokenize.COMMENT):
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node):
            first = node.body[0]
            lines -= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(lines)


def _classes(tree: ast.Module) -> Iterator[str]:
    """Public classes at the top of a module."""
    return (node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_"))


def _widths(modules: list[Module]) -> Counter[str]:
    """How many modules each folder has, ``__init__`` not counted."""
    return Counter(module.path.rpartition("/")[0] for module in modules if not module.path.endswith("__init__.py"))


def _pronouns(product: list[Module]) -> list[str]:
    """Places where a pronoun is made a name."""
    return [
        f"{module.path}:{line} {name}"
        for module in product
        for line, name in sorted(set(_named(module.tree)))
        if name in _PRONOUNS
    ]


def _named(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """All names that a module gives, with their lines."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


def _quoted(tree: ast.Module) -> Iterator[str]:
    return (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))


def _defaults(product: list[Module], name: str) -> list[str]:
    """Places where a parameter or a field of this name is given a number, or a text that is one."""
    return [f"{module.path}:{line}" for module in product for line in _given(module.tree, name)]


def _given(tree: ast.Module, name: str) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            every = node.args
            positional = [*every.posonlyargs, *every.args]
            pairs = [
                *zip(positional[len(positional) - len(every.defaults) :], every.defaults, strict=True),
                *zip(every.kwonlyargs, every.kw_defaults, strict=True),
            ]
            values = [value for one, value in pairs if one.arg == name]
        elif isinstance(node, ast.ClassDef):
            fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
            values = [one.value for one in fields if isinstance(one.target, ast.Name) and one.target.id == name]
        else:
            continue
        yield from (value.lineno for value in values if value is not None and _is_number(value))


def _is_number(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):  # of the keywords, most are bounds
        defaults = (keyword.value for keyword in value.keywords if keyword.arg == "default")
        return any(_is_number(argument) for argument in (*value.args, *defaults))
    if not isinstance(value, ast.Constant) or isinstance(value.value, bool) or value.value is None:
        return False
    return isinstance(value.value, int | float) or bool(re.fullmatch(r"[0-9][0-9./e-]*", str(value.value)))


def as_text(found: Mapping[str, int], longest: Mapping[str, Any] | None) -> str:
    """A table: now, before, and the limit."""
    rows = [("", "now", "before", "limit")]
    for name, value in found.items():
        limit = f"{LIMITS[name]:,}" if name in LIMITS else ""
        mark = "  over" if name in LIMITS and value > LIMITS[name] else ""
        rows.append((name.replace("_", " "), f"{value:,}", f"{BEFORE[name]:,}", limit + mark))
    wide = [max(len(row[at]) for row in rows) for at in range(3)]
    lines = [f"{row[0]:<{wide[0]}}  {row[1]:>{wide[1]}}  {row[2]:>{wide[2]}}  {row[3]}".rstrip() for row in rows]
    told = "run ./secvm test first" if longest is None else f"{longest['seconds']:.1f} s, {longest['test']}"
    return "\n".join([*lines, f"longest default-tier test: {told}"]) + "\n"
