"""Source code behind a dotted path: found and hashed without importing it, and imported anew after an edit.

What counts is the module with everything that it imports from its own folder on the path (`PYTHONPATH`), directly or
not. Of an installed package it is the package itself. Code that is loaded in other ways, and data files, are not seen.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.machinery import ModuleSpec
from pathlib import Path

from vlmhyperbench.domain.specs import PluginRef, SourceRef
from vlmhyperbench.errors import Conflict

_STANDARD_LIBRARY = frozenset(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib"))
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_imported: dict[str, str] = {}
"""Module → SHA-256 of the source that this process has imported."""


def split_path(path: str) -> tuple[str, str]:
    """Return the module and the class that a dotted path names."""
    module, _, attribute = path.partition(":") if ":" in path else path.rpartition(".")
    return module, attribute


def spec_of(package: str) -> ModuleSpec | None:
    """Find a package or module at the top of the path without importing it."""
    try:
        return importlib.util.find_spec(package)
    except ValueError:
        return None


def file_of(spec: ModuleSpec, module: str) -> Path | None:
    """Return the file of a module of a package, or None."""
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


def source_of(module: str) -> SourceRef | None:
    """Hash the code behind a module; None if it has no file."""
    hashes = _hashes_of(module)
    if module not in hashes:
        return None
    lines = "".join(f"{name} {sha256}\n" for name, sha256 in sorted(hashes.items()))
    return SourceRef(module=module, sha256=hashlib.sha256(lines.encode()).hexdigest())


def require_source(plugin: PluginRef | None, what: str) -> None:
    """Check that the code behind a dotted path is the code that the run pins; call it before the code is imported.

    Raises:
        Conflict: it was edited since.
    """
    if not isinstance(plugin, SourceRef):
        return
    if source_of(plugin.module) != plugin:
        raise Conflict(
            f"The code of the {what}, {plugin.module}, is not the code that the run pins.",
            cure="Undo the edit, or start a new run.",
            code="plugin_version",
        )
    hashes = _hashes_of(plugin.module)
    # An idle child may have imported any of these modules before an edit.
    if _is_local(plugin.module) and any(_imported.get(name) != hashes[name] for name in hashes.keys() & sys.modules):
        for name in hashes.keys() & sys.modules:
            del sys.modules[name]
        importlib.invalidate_caches()
    _imported.update(hashes)


def _hashes_of(module: str) -> Mapping[str, str]:
    """Hash the module and every module that it imports from the same folder on the path, by name."""
    package = module.partition(".")[0]
    is_local = _is_local(module)
    hashes: dict[str, str] = {}
    pending = {module}
    while pending:
        name = pending.pop()
        spec = spec_of(name.partition(".")[0]) if is_local or name.partition(".")[0] == package else None
        source = None if spec is None or _folder_of(spec) != _folder_of(spec_of(package)) else file_of(spec, name)
        if source is None or not source.is_file():
            continue
        hashes[name] = hashlib.sha256(source.read_bytes()).hexdigest()
        pending |= {*_imports_of(name, source, source.stat().st_mtime_ns), *_parents(name)} - hashes.keys()
    return hashes


def _is_local(module: str) -> bool:
    """Whether a module lies in a folder of the user's rather than among installed packages."""
    folder = _folder_of(spec_of(module.partition(".")[0]))
    return folder is not None and folder not in _STANDARD_LIBRARY and not _INSTALLED & set(folder.parts)


def _folder_of(spec: ModuleSpec | None) -> Path | None:
    """Return the folder on the path that holds a package or module; None for built-in modules."""
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations))).parent
    return Path(spec.origin).parent if spec.has_location and spec.origin else None


def _parents(name: str) -> Iterator[str]:
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


@lru_cache(maxsize=1024)
def _imports_of(name: str, source: Path, _mtime_ns: int) -> frozenset[str]:
    """Return the modules that a file may import, by name; a name that is imported from a module may be one, too."""
    if source.suffix != ".py":
        return frozenset()
    try:
        tree = ast.parse(source.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    return frozenset(_named(tree, name if source.name == "__init__.py" else name.rpartition(".")[0]))


def _named(tree: ast.Module, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)
