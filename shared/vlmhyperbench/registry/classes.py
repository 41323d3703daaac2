"""Check by source code whether a dotted path names a class, without importing the plugin."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from vlmhyperbench.registry.errors import did_you_mean


def problem_with_class(path: str) -> tuple[str, str] | None:
    """Return why `package.module:Class` cannot exist, with the cure; None if it exists or has no source to read."""
    module, _, attribute = path.partition(":") if ":" in path else path.rpartition(".")
    parts = module.split(".")
    try:
        spec = importlib.util.find_spec(parts[0])
    except ValueError:
        spec = None
    if spec is None:
        return (
            f"the package {parts[0]!r} of the dotted path {path!r} is not installed.",
            f"Install {parts[0]}, or put its folder into PYTHONPATH.",
        )
    roots = list(spec.submodule_search_locations or ())
    source = Path(spec.origin or "") if len(parts) == 1 else _source_of([Path(root) for root in roots], parts[1:])
    if source is None:
        return f"the package {parts[0]!r} has no module {module!r}.", "Write package.module:Class."
    if source.suffix != ".py" or not source.is_file():
        return None
    names = _names_in(source)
    if names is None or attribute.partition(".")[0] in names:
        return None
    return f"the module {module!r} has no class {attribute!r}.", did_you_mean(attribute, names)


def _source_of(roots: list[Path], parts: list[str]) -> Path | None:
    """Return the source file of a module inside a package, or None."""
    for root in roots:
        location = root.joinpath(*parts)
        for source in (location.with_name(f"{location.name}.py"), location / "__init__.py"):
            if source.is_file():
                return source
        for binary in location.parent.glob(f"{location.name}.*.so"):
            return binary
    return None


@lru_cache(maxsize=256)
def _names_in(source: Path) -> frozenset[str] | None:
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
