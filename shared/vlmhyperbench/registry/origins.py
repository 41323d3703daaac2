"""Where each value of a run spec was written: a line of a file or an overlay, a flag, the submission, or a default."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from vlmhyperbench.domain.spec_values import name_of, values_of
from vlmhyperbench.domain.specs import ModelTarget, PipelineTarget, RunSpec
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.documents import Document
from vlmhyperbench.registry.errors import Path
from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.resolution import combinations_of
from vlmhyperbench.registry.schemas import ExperimentEntry, RunEntry

DEFAULT: Final = "default"
INSTALLED: Final = "installed package"
SUBMISSION: Final = "submission"
Written = Callable[[Path], str | None]
"""Returns where the value at a path was written; None if it was not written there."""
_PINNED_PLUGINS: Final = {"package", "adapter"}
"""Keys whose values are what is installed on the API's machine."""
_OF_TASK: Final = {"group_by", "on_model_failure", "on_invalid", "response_format", "reports", "extractors"}


def origins_of(catalogue: Catalogue, spec: RunSpec, written: Written) -> dict[str, str]:
    """Return the origin of every value of a spec, by its path, such as `decoding.temperature`.

    Args:
        catalogue: the entries from which the spec was resolved.
        spec: the resolved spec.
        written: where values of the run's entry were written.
    """
    layers = _Layers(catalogue, spec, written)
    return {name_of(path): layers.origin(path) for path, _ in values_of(spec)}


def origins_of_experiment(
    catalogue: Catalogue,
    entry: ExperimentEntry,
    specs: Sequence[RunSpec],
    name: str | None,
    given: Mapping[str, str],
) -> list[dict[str, str]]:
    """Return the origins of the specs of an experiment's runs.

    Args:
        catalogue: the entries.
        entry: the experiment.
        specs: its resolved runs, in order.
        name: name under which it is registered; None for one that is submitted.
        given: for a submitted one, path in the entry → where it was written.
    """
    references = References(catalogue=catalogue, plugins=InstalledPlugins())
    origins = []
    for combination, spec in zip(combinations_of(references, entry), specs, strict=True):
        if combination.is_whole:
            written = written_in_entry(catalogue, "runs", combination.name)
        elif name is not None:
            written = written_in_entry(catalogue, "experiments", name, combination.written_at)
        else:
            written = written_in_submission(entry, given, combination.written_at)
        origins.append(origins_of(catalogue, spec, written))
    return origins


def written_in_submission(
    entry: RunEntry | ExperimentEntry, given: Mapping[str, str], at: Callable[[Path], Path] = lambda path: path
) -> Written:
    """Return where the values of an entry in a submission were written, as its sender says it (path → origin).

    Args:
        entry: the entry.
        given: path in the entry → where its sender read it.
        at: path in a run → path in the entry.
    """
    values = entry.model_dump(mode="json", exclude_unset=True)

    def written(path: Path) -> str | None:
        path = at(path)
        if not _has(values, path):
            return None
        ancestors = (name_of(path[:length]) for length in range(len(path), 0, -1))
        return next((given[name] for name in ancestors if name in given), SUBMISSION)

    return written


def written_in_entry(
    catalogue: Catalogue, kind: str, name: str, at: Callable[[Path], Path] = lambda path: path
) -> Written:
    """Return where the values of a registered run were written, or those of a run of a registered experiment.

    Args:
        catalogue: the entries.
        kind: `runs` or `experiments`.
        name: name of the entry.
        at: path in the run → path in the entry.
    """
    document = catalogue.documents.get((kind, name))

    def written(path: Path) -> str | None:
        return None if document is None else _in_document(document, at(path))

    return written


def locations_of(document: Document) -> dict[str, str]:
    """Return the location of every value of a file, by its path, for a submission."""
    return {name_of(path): f"{location.file}:{location.line}" for path, location in document.locations.items() if path}


_OF_DRAW: Final[Mapping[str | int, str]] = {
    "size": "count",
    "seed": "seed",
    "by": "stratify",
    "allocation": "allocation",
}
"""Field of a draw of examples → its key in `few_shot`."""


class _Layers:
    """The entries from which a spec was resolved."""

    def __init__(self, catalogue: Catalogue, spec: RunSpec, written: Written) -> None:
        self._catalogue = catalogue
        self._spec = spec
        self._run = written

    def origin(self, path: Path) -> str:
        """Return the origin of one value: the first candidate that writes it."""
        if _PINNED_PLUGINS & set(path):
            return INSTALLED
        return next((origin for origin in self._candidates(path) if origin is not None), DEFAULT)

    def _candidates(self, path: Path) -> Iterator[str | None]:
        """Yield where a value may have been written, in order of decreasing precedence."""
        part, rest = path[0], path[1:]
        task = self._spec.task
        if part == "target":
            yield from self._of_target(rest)
        elif part == "dataset":
            yield from self._of_dataset(rest)
        elif part == "metrics":
            yield from self._of_metric(rest)
        elif part in {"prices", "unpriced"}:
            yield from self._of_target(("prices",))
        elif part in {"prompt", "scenario"} and rest == ("name",):
            yield from (self._run((part, "name")), self._run((part,)))
            yield self._entry("tasks", task, (part if part == "prompt" else "scenarios",))
        elif part == "prompt":
            yield from self._of_prompt(rest)
        elif part == "scenario":
            yield self._run(path)
            yield self._entry("scenarios", self._spec.scenario.name, rest)
        elif part in {"task_version", "category"}:
            yield self._entry("tasks", task, ("version" if part == "task_version" else "category",))
        elif part in _OF_TASK:
            yield from (self._run((part,)), self._entry("tasks", task, (part,)))
        elif part == "decoding":
            yield from (self._run(path), self._entry("tasks", task, path))
        else:
            yield self._run(path if part in {"limits", "stop"} else (part,))

    def _of_target(self, path: Path) -> Iterator[str | None]:
        target = self._spec.target
        yield self._run(("target", *path))
        if isinstance(target, PipelineTarget):
            yield self._entry("pipelines", target.pipeline, path[:1])
            return
        if not isinstance(target, ModelTarget):
            yield self._entry("backends", target.backend_class, path)
            return
        field = path[0]
        if field == "environment":
            path = ("environment", *path[1:])
            path = path[:1] if path[-1] == "kind" else ("environment", target_kind(target), *path[1:])
        renamed = {"backend": "backends", "files": "sha256"}.get(str(field))
        yield self._entry("models", target.model, (renamed,) if renamed is not None else path)
        yield self._entry("backends", target.backend, ("default_backend_class",) if field == "backend_class" else path)

    def _of_dataset(self, path: Path) -> Iterator[str | None]:
        if path == ("name",):
            yield from (self._run(("dataset", "name")), self._run(("dataset",)))
            yield self._entry("tasks", self._spec.task, ("dataset",))
        elif path[0] == "required_fields":
            yield self._entry("tasks", self._spec.task, path[:1])
        else:
            if path == ("limit",):
                yield self._run(path)
            yield self._run(("dataset", *path))
            yield self._entry("datasets", self._spec.dataset.name, path)

    def _of_prompt(self, path: Path) -> Iterator[str | None]:
        name = self._spec.prompt.name
        if path[:2] == ("few_shot", "dataset"):
            yield from self._of_examples(path[2:])
            return
        yield self._entry("prompts", name, path[:1] if path[0] == "collection" else path)
        if path[0] in {"type_mapping", "user_prompt", "system_prompt"}:
            yield self._entry("prompts", name, ("collection",))

    def _of_examples(self, path: Path) -> Iterator[str | None]:
        """Yield where a value of the examples' dataset may have been written: in `few_shot`, or in a dataset."""
        few_shot, name = self._spec.prompt.few_shot, self._spec.prompt.name
        written = _OF_DRAW.get(path[-1]) if path[0] == "sampling" else str(path[0])
        if path[0] in {"sampling", "split", "where"}:
            yield self._entry("prompts", name, ("few_shot", str(written)))
        if path[0] == "name":
            yield self._entry("prompts", name, ("few_shot", "dataset"))
        if path[0] in {"sampling", "limit", "required_fields"} or few_shot is None:
            return
        if few_shot.dataset.name == self._spec.dataset.name:
            yield from self._of_dataset(path)
        else:
            yield self._entry("datasets", few_shot.dataset.name, path)

    def _of_metric(self, path: Path) -> Iterator[str | None]:
        no, rest = path[0], path[1:]
        metric = self._spec.metrics[int(no)]
        if rest == ("name",) or not rest:
            yield from (self._run(("metrics",)), self._entry("tasks", self._spec.task, ("metrics",)))
            return
        if rest[0] == "params":
            yield self._entry("metrics", metric.name, ("profiles", metric.profile, *rest[1:]))
        yield self._entry("metrics", metric.name, rest)

    def _entry(self, kind: str, name: str, path: Path) -> str | None:
        document = self._catalogue.documents.get((kind, name))
        return None if document is None else _in_document(document, path)


def target_kind(target: ModelTarget) -> str:
    """Return the key under which an entry declares the environment of a target."""
    return target.environment.kind if target.environment is not None else ""


def _in_document(document: Document, path: Path) -> str | None:
    if not _has(document.value, path):
        return None
    location = document.location_of(path)
    return f"{location.file}:{location.line}"


def _has(value: JsonValue, path: Path) -> bool:
    """Return whether a value is written at a path, or a scalar above it."""
    for part in path:
        if isinstance(value, Mapping) and part in value:
            value = value[str(part)]
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return False
    return value is not None


def is_written(document: Document, path: Path) -> bool:
    """Return whether a value is written in a document, at its path or as the scalar of which it was made."""
    return _has(document.value, path)
