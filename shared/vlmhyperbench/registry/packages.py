"""Pin packages of others and the environments that hold them, for plugins that are run from a package."""

from __future__ import annotations

from pathlib import Path as FilePath

from vlmhyperbench.domain.environments import ApptainerSpec, DockerSpec, EnvironmentSpec, RentedSpec, VirtualenvSpec
from vlmhyperbench.domain.packages import GitPackage, IndexPackage, LocalPackage
from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench.folders import content_sha256
from vlmhyperbench.registry.choices import EnvironmentChoice, VirtualenvChoice
from vlmhyperbench.registry.errors import Path
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.schemas import BackendEntry, MetricEntry, ModelEntry, PackageEntry
from vlmhyperbench.registry.sources import GitSource, PypiSource
from vlmhyperbench_sdk.discovery import Group
from vlmhyperbench_sdk.suggestions import did_you_mean

Package = GitPackage | LocalPackage | IndexPackage


def pin_environments(
    references: References, package: str | None, entries: tuple[ModelEntry | BackendEntry, ...], path: Path
) -> tuple[EnvironmentSpec | None, VirtualenvSpec | None]:
    """Pin the environment of an engine, and that of its adapter if it comes from a package.

    The engine's is that of the first entry that declares one, the model's before its backend's. If it holds the
    adapter's package, both run in it.

    Returns:
        The engine's environment, None if it runs where its adapter does; and the adapter's, None if that is the
        platform's own interpreter.
    """
    choice = next((entry.environment for entry in entries if entry.environment is not None), None)
    engine = _pin(references, choice, path) if choice is not None else None
    if package is None:
        return engine, None
    if choice is not None and isinstance(engine, VirtualenvSpec) and package in choice.packages:
        return None, engine
    pinned = pin_package(references, package, path)
    return engine, VirtualenvSpec(packages=(pinned,)) if pinned is not None else None


def pin_metric_environment(references: References, entry: MetricEntry, path: Path) -> VirtualenvSpec | None:
    """Pin the environment of a metric; the package that its entry names is one of those that it holds."""
    if entry.environment is None:
        return pin_own_environment(references, "metrics", entry.class_path, entry.package, path)
    choice = entry.environment.virtualenv
    if entry.package is not None and entry.package not in choice.packages:
        choice = choice.model_copy(update={"packages": (*choice.packages, entry.package)})
    return _pin_virtualenv(references, choice, path)


def pin_own_environment(
    references: References, group: Group, name: str, package: str | None, path: Path
) -> VirtualenvSpec | None:
    """Pin the environment of a plugin that runs from the package which its entry names; None: it runs here."""
    if package is None or not references.is_apart(group, name, package):
        return None
    pinned = pin_package(references, package, path)
    return VirtualenvSpec(packages=(pinned,)) if pinned is not None else None


def check_adapter(references: References, package: str, adapter: str, path: Path, *, package_path: Path) -> None:
    """Check that a package is registered, and that it registers an adapter as far as that is known."""
    entry = references.find(references.catalogue.packages, "packages", package, package_path)
    if entry is None or entry.plugins is None or "." in adapter or ":" in adapter:
        return
    names = entry.plugins.get("backends", ())
    if adapter not in names:
        cure = did_you_mean(adapter, names, nothing="Register it in the package's pyproject.toml, and pin it again.")
        references.say(path, f"the package {package!r} registers no backend {adapter!r}.", cure)


def pin_package(references: References, name: str, path: Path) -> Package | None:
    """Pin a package by commit, content or version, or report why it cannot be."""
    entry = references.find(references.catalogue.packages, "packages", name, path)
    if entry is None:
        return None
    source = entry.source
    if isinstance(source, PypiSource):
        return IndexPackage(name=source.name, extras=entry.extras, version=source.version)
    if isinstance(source, GitSource):
        commit = source.pinned_commit
        if commit is None:
            cure = f"Run `vlmhyperbench registry add package {name}`, which records the commit."
            references.say(path, f"the package {name!r} is not pinned: {source.ref!r} is no commit.", cure)
            return None
        return GitPackage(
            name=name,
            extras=entry.extras,
            url=source.url,
            commit=commit,
            subdirectory=source.subdirectory,
            token_secret=source.token_secret,
        )
    return _local(references, name, entry, source.path, source.sha256, path)


def _local(
    references: References, name: str, entry: PackageEntry, written: str, sha256: str | None, path: Path
) -> LocalPackage | None:
    """Pin a folder or a wheel, which must be as its entry says; one that is not pinned there is pinned as it is now."""
    location = FilePath(references.catalogue.folder_of("packages", name), written)
    try:
        present = content_sha256(location)
    except (VlmHyperBenchError, OSError) as error:
        references.say(path, f"the package {name!r} cannot be read: {error}", "Correct its path.")
        return None
    if sha256 is not None and sha256 != present:
        cure = f"Run `vlmhyperbench registry add package {name}` to pin it as it is now, or undo the change."
        references.say(path, f"{location} has changed since the package {name!r} was pinned.", cure)
        return None
    return LocalPackage(name=name, extras=entry.extras, path=str(location), sha256=present)


def _pin(references: References, choice: EnvironmentChoice, path: Path) -> EnvironmentSpec | None:
    if choice.docker is not None:
        return DockerSpec(**choice.docker.model_dump())
    if choice.apptainer is not None:
        return ApptainerSpec(**choice.apptainer.model_dump())
    if choice.remote is not None:
        return RentedSpec(**choice.remote.model_dump())
    return _pin_virtualenv(references, choice.virtualenv, path) if choice.virtualenv is not None else None


def _pin_virtualenv(references: References, choice: VirtualenvChoice, path: Path) -> VirtualenvSpec:
    pinned = [pin_package(references, name, path) for name in choice.packages]
    packages = tuple(package for package in pinned if package is not None)
    return VirtualenvSpec(**choice.model_dump(exclude={"packages"}), packages=packages)
