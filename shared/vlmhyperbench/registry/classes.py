"""Read the source code behind a dotted path, without importing it: whether it has the class, and what it hashes to."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Iterator
from functools import lru_cache
from importlib.machinery import ModuleSpec
from pathlib import Path

from vlmhyperbench.domain.specs import SourceRef
from vlmhyperbench.registry.errors import did_you_mean


def problem_with_class(path: str) -> tuple[str, str] | None:
    """Return why `package.module:Class` cannot exist, with the cure; None if it exists or has no source to read."""
    module, attribute = split_path(path)
    package = module.partition(".")[0]
    spec = _spec_of(package)
    if spec is None:
        return (
            f"the package {package!r} of the dotted path {path!r} is not installed.",
            f"Install {package}, or put its folder into PYTHONPATH.",
        )
    source = _file_of(spec, module)
    if source is None:
        return f"the package {package!r} has no module {module!r}.", "Write package.module:Class."
    if source.suffix != ".py" or not source.is_file():
        return None
    names = _names_in(source, source.stat().st_mtime_ns)
    if names is None or attribute.partition(".")[0] in names:
        return None
    return f"the module {module!r} has no class {attribute!r}.", did_you_mean(attribute, names)


def source_of(module: str) -> SourceRef | None:
    """Hash the source of a module, with that of the modules beside it in its package; None if there is no source."""
    spec = _spec_of(module.partition(".")[0])
    source = None if spec is None else _file_of(spec, module)
    if source is None or not source.is_file():
        return None
    is_in_package = "." in module or source.name == "__init__.py"
    digest = hashlib.sha256()
    for file in sorted({source, *source.parent.glob("*.py")}) if is_in_package else [source]:
        digest.update(f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return SourceRef(module=module, sha256=digest.hexdigest())


def split_path(path: str) -> tuple[str, str]:
    """Return the module and the class that a dotted path names."""
    module, _, attribute = path.partition(":") if ":" in path else path.rpartition(".")
    return module, attribute


def _spec_of(package: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(package)
    except ValueError:
        return None


def _file_of(spec: ModuleSpec, module: str) -> Path | None:
    """Return the file of a module of the package, or None."""
    _, *parts = module.split(".")
    if not parts:
        return Path(spec.origin or "")
    for root in map(Path, spec.submodule_search_locations or ()):
        location = root.joinpath(*parts)
        for source in (location.with_name(f"{location.name}.py"), location / "__init__.py"):
            if source.is_file():
                return source
        for binary in location.parent.glob(f"{location.name}.*.so"):
            return binary
    return None


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
