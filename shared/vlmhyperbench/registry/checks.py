"""Cross-validation of entries: all references must exist and be compatible; all errors are collected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from vlmhyperbench.addresses import S3, split_bucket
from vlmhyperbench.domain import judging
from vlmhyperbench.domain.datasets import is_elsewhere, parse_hub_path
from vlmhyperbench.domain.prompts import check_templates
from vlmhyperbench.domain.specs import MetricSpec
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.errors import Path, RegistryError
from vlmhyperbench.registry.lens_checks import check_lens
from vlmhyperbench.registry.metrics import pin_judge
from vlmhyperbench.registry.overlays import RunMode
from vlmhyperbench.registry.packages import check_adapter
from vlmhyperbench.registry.pipeline_checks import check_pipeline
from vlmhyperbench.registry.plugins import Plugins
from vlmhyperbench.registry.prompt_collections import DEFAULT
from vlmhyperbench.registry.prompt_pins import templates_of
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.resolution import pin_experiment, pin_run, replaced_data
from vlmhyperbench.registry.schemas import BackendEntry, ExperimentEntry, MetricEntry, ModelEntry, PromptEntry, RunEntry
from vlmhyperbench.registry.sources import GitSource, LocalSource, PypiSource
from vlmhyperbench.registry.targets import adapter_of
from vlmhyperbench.registry.unread_pipelines import check_unread
from vlmhyperbench_sdk.discovery import normalise


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of the checks."""

    broken: dict[tuple[str, str], tuple[RegistryError, ...]] = field(default_factory=dict)
    """(kind, name) of invalid entries → their errors."""
    warnings: list[str] = field(default_factory=list)
    uses: dict[tuple[str, str], frozenset[tuple[str, str]]] = field(default_factory=dict)
    """(kind, name) → the entries that it names, itself or through those that it names."""


def check_catalogue(
    catalogue: Catalogue,
    *,
    run_mode: RunMode,
    broken: Mapping[tuple[str, str], tuple[RegistryError, ...]],
    plugins: Plugins,
) -> Checked:
    """Check every entry against the others; an error is reported at its cause only, not again at its uses.

    Of a pipeline that could not be read, the stages that can be read are checked too.
    """
    checked = Checked()
    bad = set(broken)
    checks: tuple[tuple[str, Callable[[References, str], None]], ...] = (
        ("packages", lambda references, name: _package(references, name, run_mode)),
        ("backends", _backend),
        ("models", _model),
        ("pipelines", check_pipeline),
        ("datasets", _dataset),
        ("prompts", _prompt),
        ("metrics", _metric),
        ("reports", _report),
        ("tasks", _task),
        ("lenses", check_lens),
        ("runs", lambda references, name: _ignore(pin_run(references, references.catalogue.runs[name]))),
        (
            "experiments",
            lambda references, name: _ignore(pin_experiment(references, references.catalogue.experiments[name])),
        ),
    )
    for kind, check in checks:
        for name in catalogue.of(kind):
            references = References(catalogue=catalogue, plugins=plugins, broken=frozenset(bad))
            check(references, name)
            checked.uses[kind, name] = frozenset(references.named)
            if references.problems:
                bad.add((kind, name))
                checked.broken[kind, name] = tuple(_at_their_locations(references, kind, name))
    for kind, name in broken:
        document = catalogue.documents.get((kind, name))
        if kind == "pipelines" and document is not None:
            references = References(catalogue=catalogue, plugins=plugins, broken=frozenset(bad - {(kind, name)}))
            check_unread(references, name, document.value)
            found = _at_their_locations(references, kind, name)
            checked.broken[kind, name] = tuple(error for error in found if error not in broken[kind, name])
    checked.warnings.extend(_unpinned(catalogue))
    checked.warnings.extend(_replacing(catalogue))
    return checked


def _package(references: References, name: str, run_mode: RunMode) -> None:
    source = references.catalogue.packages[name].source
    is_local = isinstance(source, LocalSource) or (isinstance(source, GitSource) and source.is_local)
    if run_mode == "prod" and is_local and not source.is_pinned:
        cure = f"Run `vlmhyperbench registry add package {name}`, which pins it; or put it into {name}.dev.yaml."
        references.say(("source",), "a local source that is not pinned is not used in prod.", cure)
    if isinstance(source, PypiSource) and normalise(source.name) != normalise(name):
        references.say(("source", "name"), f"the entry is called {name!r}, not {source.name!r}.", "Rename the entry.")


def _unpinned(catalogue: Catalogue) -> Iterable[str]:
    for name, package in catalogue.packages.items():
        if isinstance(package.source, GitSource) and not package.source.is_pinned:
            location = catalogue.location_of("packages", name, "source", "ref")
            where = f"{location.file}:{location.line}: " if location else ""
            yield (
                f"{where}the git ref {package.source.ref!r} of {name} is no commit, so another time it may give other "
                f"code. Run `vlmhyperbench registry add package {name}`, which records the commit."
            )


def _replacing(catalogue: Catalogue) -> Iterable[str]:
    kinds: dict[str, Mapping[str, RunEntry | ExperimentEntry]]
    kinds = {"runs": catalogue.runs, "experiments": catalogue.experiments}
    for kind, entries in kinds.items():
        for name, entry in entries.items():
            for warning in replaced_data(catalogue, entry):
                location = catalogue.location_of(kind, name)
                yield f"{location.file if location else f'{kind}/{name}'}: {warning}"


def _backend(references: References, name: str) -> None:
    backend = references.catalogue.backends[name]
    field = ("default_backend_class",) if backend.default_backend_class else ("name",)
    adapter, package = backend.default_backend_class or name, backend.default_adapter_package
    _adapter(references, adapter, package, field, "default_adapter_package")
    for no, special in enumerate(backend.specialized_adapters):
        location = ("specialized_adapters", no, "backend_class")
        _adapter(references, special.backend_class, special.package, location, "package")
    _environment(references, backend)


def _adapter(references: References, adapter: str, package: str | None, path: Path, package_key: str) -> None:
    if package is None:
        references.plugin("backends", adapter, None, path)
    else:
        check_adapter(references, package, adapter, path, package_path=(*path[:-1], package_key))


def _environment(references: References, entry: BackendEntry | ModelEntry | MetricEntry) -> None:
    virtualenv = entry.environment.virtualenv if entry.environment is not None else None
    for no, name in enumerate(virtualenv.packages if virtualenv is not None else ()):
        location = ("environment", "virtualenv", "packages", no)
        references.find(references.catalogue.packages, "packages", name, location)


def _model(references: References, name: str) -> None:
    model = references.catalogue.models[name]
    _path_written_out(references, model.path)
    for no, backend_name in enumerate(model.backends):
        backend = references.find(references.catalogue.backends, "backends", backend_name, ("backends", no))
        if backend is not None and model.backend_class is not None:
            adapter, package = adapter_of(name, model, backend_name, backend)
            _adapter(references, adapter, package, ("backend_class",), "adapter_package")
    _environment(references, model)


def _path_written_out(references: References, path: str | None) -> None:
    if path is not None and path.startswith("~"):
        cure = "Write an absolute path, or a path relative to this file."
        references.say(("path",), f"{path!r} begins with '~', which is not expanded.", cure)


def _dataset(references: References, name: str) -> None:
    dataset = references.catalogue.datasets[name]
    _path_written_out(references, dataset.path)
    references.plugin("datasets", dataset.type, dataset.package, ("type",))
    if dataset.path is None or "://" not in dataset.path:
        return
    if not is_elsewhere(dataset.path):
        cure = "Fetch the data and give the path of the folder, or put it into S3: s3://BUCKET/PREFIX."
        references.say(("path",), f"{dataset.path!r} is a URL, not a folder.", cure)
        return
    try:
        (split_bucket if dataset.path.startswith(S3) else parse_hub_path)(dataset.path)
    except InvalidInput as error:
        references.say(("path",), error.message, error.cure)


def _prompt(references: References, name: str) -> None:
    catalogue = references.catalogue
    entry = catalogue.prompts[name]
    if entry.few_shot is not None and entry.few_shot.dataset is not None:
        references.find(catalogue.datasets, "datasets", entry.few_shot.dataset, ("few_shot", "dataset"))
    if entry.class_path is not None:
        references.plugin("prompts", entry.class_path, entry.package, ("class_path",))
        return
    try:
        templates = templates_of(catalogue, name, entry)
    except (InvalidInput, NotFound) as error:
        references.say(("collection",), error.message, error.cure)
        return
    for path, message in check_templates(templates):
        references.say(
            _written_in(entry, path),
            f"{message}.",
            "Correct the template; docs/prompts.md lists what a template may use.",
        )


def _written_in(entry: PromptEntry, path: Path) -> Path:
    """Return the path of a template in its entry: below `collection` for one of its file."""
    if entry.collection is None or path[0] in entry.model_fields_set:
        return path
    return ("collection", *path[1:]) if path[0] == "type_mapping" else ("collection", DEFAULT, *path)


def _metric(references: References, name: str) -> None:
    metric = references.catalogue.metrics[name]
    if metric.environment is None:
        references.plugin("metrics", metric.class_path, metric.package, ("class_path",))
    elif metric.class_path == judging.CLASS_PATH:
        message = "a judge asks a model, and computes nothing in an environment."
        references.say(("environment",), message, "Leave environment out; the backend of its target may have one.")
    elif metric.package is not None:
        references.find(references.catalogue.packages, "packages", metric.package, ("package",))
    _environment(references, metric)
    if metric.class_path == judging.CLASS_PATH:
        pin_judge(references, name, metric.params, ("params",))


def _report(references: References, name: str) -> None:
    report = references.catalogue.reports[name]
    references.plugin("reports", report.class_path, report.package, ("class_path",))


def _task(references: References, name: str) -> None:
    catalogue = references.catalogue
    task = catalogue.tasks[name]
    references.find(catalogue.datasets, "datasets", task.dataset, ("dataset",))
    references.find(catalogue.prompts, "prompts", task.prompt, ("prompt",))
    seen: list[MetricSpec] = []
    for no, metric in enumerate(task.metrics):
        spec = references.metric(metric, ("metrics", no))
        if spec is not None and spec in seen:
            references.say(("metrics", no), f"{metric!r} is {spec.label}, which is listed already.", "Remove it.")
        seen += [spec] if spec is not None else []
        if spec is not None and task.supported_metrics and spec.name not in task.supported_metrics:
            references.say(("metrics", no), f"{spec.name!r} is not in supported_metrics.", "Add it there.")
    for no, extractor in enumerate(task.extractors):
        references.extractor(extractor, ("extractors", no))
    for no, metric in enumerate(task.supported_metrics):
        references.find(catalogue.metrics, "metrics", metric, ("supported_metrics", no))
    for no, report in enumerate(task.reports):
        references.find(catalogue.reports, "reports", report, ("reports", no))
        if task.supported_reports and report not in task.supported_reports:
            references.say(("reports", no), f"{report!r} is not in supported_reports.", "Add it there.")
    for no, report in enumerate(task.supported_reports):
        references.find(catalogue.reports, "reports", report, ("supported_reports", no))
    for no, backend in enumerate(task.supported_backends):
        references.find(catalogue.backends, "backends", backend, ("supported_backends", no))
    for no, scenario in enumerate(task.scenarios):
        references.find(catalogue.scenarios, "scenarios", scenario, ("scenarios", no))


def _at_their_locations(references: References, kind: str, name: str) -> Iterable[RegistryError]:
    for problem in references.problems:
        yield problem.at(references.catalogue.location_of(kind, name, *problem.path))


def _ignore(value: object) -> None:
    """Run a step for its problems; its value is not needed."""
