"""Secret Vector Machines: training on data that never leaves people's devices.

This module imports nothing until it is asked for ``__version__``. The doors are

- ``secvm.estimator``: scikit-learn estimators, offline;
- ``secvm.learning``: the mathematics, pure: one person's side and the side that sees only counts;
- ``secvm.crypto``: sealing, pure: Oblivious HTTP, binary HTTP, HPKE;
- ``secvm.people``: files of people, read in a stream;
- ``secvm.cli``: the ``secvm`` program.
"""

#: Looked up when somebody asks for it.
__version__: str


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pathlib import Path

    project = Path(__file__).resolve().parents[2] / "pyproject.toml"
    if project.is_file():  # a clone, whatever is installed beside it
        import tomllib

        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])
    from importlib import metadata

    return metadata.version("secvm")
