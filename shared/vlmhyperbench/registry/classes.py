"""Check that the module behind a dotted path has the class, without importing it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from vlmhyperbench.sources import file_of, spec_of, split_path
from vlmhyperbench_sdk.suggestions import did_you_mean


def problem_with_class(path: str) -> tuple[str, str] | None:
    """Return why `package.module:Class` cannot exist, with the cure; None if it exists or has no source to read."""
    module, attribute = split_path(path)
    package = module.partition(".")[0]
    spec = spec_of(package)
    if spec is None:
        return (
            f"the package {package!r} of the dotted path {path!r} is not installed.",
            f"Install {package}, or put its folder into PYTHONPATH.",
        )
    source = file_of(spec, module)
    if source is None:
        return f"the package {package!r} has no module {module!r}.", "Write package.module:Class."
    if source.suffix != ".py" or not source.is_file():
        return None
    names = _names_in(source, source.stat().st_mtime_ns)
    if names is None or attribute.partition(".")[0] in names:
        return None
    return f"the module {module!r} has no class {attribute!r}.", did_you_mean(attribute, names)


@lru_cache(maxsize=256)
def _names_in(source: Path, _mtime_ns: int) -> frozenset[str] | None:
    """Return the names that a module defines or imports; None if it creates names dynamically."""
    try:
        tree = ast.parse(source.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
    names = frozenset(_defined(tree.body))
    return None if names & {"*", "__getattr__"} else names


def _defined(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from (alias.asname or alias.name.partition(".")[0] for alias in names)
            case ast.If() | ast.Try() | ast.With():
                for part in ast.iter_child_nodes(node):
                    yield from _defined([part] if isinstance(part, ast.stmt) else getattr(part, "body", []))
            case _:
                yield from (part.id for part in ast.walk(node) if isinstance(part, ast.Name))
