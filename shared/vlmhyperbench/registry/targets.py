"""Resolve a target to its pinned form: model, backend, adapter and files with hashes; or an endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from vlmhyperbench.domain.prices import Prices
from vlmhyperbench.domain.request_styles import TRANSLATES
from vlmhyperbench.domain.specs import EndpointTarget, ModelTarget, SourceRef
from vlmhyperbench.errors import InvalidInput, Unavailable
from vlmhyperbench.registry.choices import EndpointChoice, ModelChoice, PipelineChoice
from vlmhyperbench.registry.errors import Path
from vlmhyperbench.registry.model_files import model_files, recipe_of
from vlmhyperbench.registry.packages import check_adapter, pin_environments
from vlmhyperbench.registry.prices import ListedPrices, WrittenPrices, found_for, pinned
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.requirements import required_checks
from vlmhyperbench.registry.schemas import BackendEntry, ModelEntry, TaskEntry
from vlmhyperbench_sdk.endpoint import problems_with
from vlmhyperbench_sdk.net import parse_url
from vlmhyperbench_sdk.suggestions import did_you_mean


def resolve_target(
    references: References,
    choice: ModelChoice | EndpointChoice,
    task: TaskEntry | None,
    path: Path,
    *,
    is_told_languages: bool = False,
) -> ModelTarget | EndpointTarget | None:
    """Pin a target, or report its problems; `is_told_languages`: a stage that translates asks it."""
    if isinstance(choice, EndpointChoice):
        return _endpoint(references, choice, task, path)
    catalogue = references.catalogue
    model = references.find(catalogue.models, "models", choice.model, (*path, "model"))
    if model is None:
        return None
    if model.request_style == TRANSLATES and not is_told_languages:
        cure = "Ask it in a stage of the type translate of a pipeline."
        message = (
            f"{choice.model!r} is told the languages with each request, and only a stage that translates has them."
        )
        references.say((*path, "model"), message, cure)
        return None
    name = choice.backend or model.backends[0]
    if not _runs_on(model, name, catalogue.backends):
        cure = did_you_mean(name, model.backends)
        references.say((*path, "backend"), f"the model {choice.model!r} does not run on {name!r}.", cure)
        return None
    _check_support(references, name, task, path)
    backend = references.find(catalogue.backends, "backends", name, (*path, "backend"))
    if backend is None:
        return None
    if model.is_unpinned:
        cure = f"Run `vlmhyperbench models fetch {choice.model}` on the stack's machine, which records their hashes."
        what = "made" if model.recipe is not None else "fetched"
        references.say((*path, "model"), f"the files of {choice.model!r} are not {what} yet.", cure)
        return None
    recipe = recipe_of(references, model, (*path, "model"))
    if model.recipe is not None and recipe is None:
        return None
    adapter, package = adapter_of(choice.model, model, name, backend)
    environment, adapter_environment = pin_environments(references, package, (model, backend), (*path, "model"))
    if package is not None:
        check_adapter(references, package, adapter, (*path, "model"), package_path=(*path, "model"))
    return ModelTarget(
        model=choice.model,
        version=model.version,
        backend=name,
        backend_class=adapter,
        adapter=references.plugin("backends", adapter, None, (*path, "model")) if package is None else None,
        files=model_files(catalogue.folder_of("models", choice.model), model, recipe),
        engine_params={**backend.engine_params, **model.engine_params, **choice.engine_params},
        quantization=model.quantization,
        license=model.license,
        request_style=model.request_style,
        strip_reasoning=model.strip_reasoning,
        reasoning_marks=model.reasoning_marks,
        environment=environment,
        adapter_environment=adapter_environment,
        requires_certificate=required_checks(model, backend),
        recipe=recipe,
    )


def adapter_of(model_name: str, model: ModelEntry, backend_name: str, backend: BackendEntry) -> tuple[str, str | None]:
    """Choose the adapter: the model's own, else the backend's adapter for such models, else the backend's default.

    Returns:
        Its class, and the package from which it is run; None: it is installed beside the platform.
    """
    if model.backend_class is not None:
        return model.backend_class, model.adapter_package
    for special in backend.specialized_adapters:
        if any(
            fnmatchcase(name, pattern) for name in (model_name, model.family or "") for pattern in special.match_models
        ):
            return special.backend_class, special.package
    return _class_of(backend_name, backend), backend.default_adapter_package


def _runs_on(model: ModelEntry, name: str, backends: Mapping[str, BackendEntry]) -> bool:
    """Return whether a model runs on a backend: one of its own, or another entry of the same adapter."""
    classes = {_class_of(own, backends[own]) for own in model.backends if own in backends}
    return name in model.backends or (name in backends and _class_of(name, backends[name]) in classes)


def _endpoint(
    references: References, choice: EndpointChoice, task: TaskEntry | None, path: Path
) -> EndpointTarget | None:
    try:
        parse_url(choice.endpoint)
    except InvalidInput as error:
        references.say((*path, "endpoint"), error.message, error.cure)
        return None
    _check_support(references, choice.backend_class, task, path)
    for problem in problems_with(choice.engine_params):
        references.say((*path, "engine_params", *problem.path), problem.message, problem.cure)
    adapter = references.plugin("backends", choice.backend_class, None, (*path, "backend_class"))
    backend = _backend_of(references, choice)
    return EndpointTarget(
        endpoint=choice.endpoint,
        model_name=choice.model_name,
        backend_class=choice.backend_class,
        adapter=adapter if isinstance(adapter, SourceRef) else None,
        engine_params={**(backend.engine_params if backend else {}), **choice.engine_params},
    )


def pin_prices(
    references: References,
    choice: ModelChoice | EndpointChoice | PipelineChoice,
    path: Path,
    *,
    own: tuple[WrittenPrices | ListedPrices | None, Path] = (None, ()),
) -> tuple[Prices | None, str | None]:
    """Pin the prices of a target, or the reason why there are none; the most specific entry decides.

    Args:
        references: Looks up names and collects problems.
        choice: The target.
        path: Location of the target.
        own: Prices that are written next to the target, and their location; they precede all others.
    """
    if isinstance(choice, PipelineChoice):
        return None, "the prices of a pipeline's models are not added up"
    catalogue = references.catalogue
    candidates = [own, (choice.prices, (*path, "prices"))]
    if isinstance(choice, EndpointChoice):
        backend = _backend_of(references, choice)
        missing = "no prices are written for the endpoint"
    else:
        model = catalogue.models.get(choice.model)
        name = choice.backend or (model.backends[0] if model else "")
        backend = catalogue.backends.get(name)
        candidates.append((model.prices if model else None, (*path, "model")))
        missing = f"no prices are written for the model {choice.model} or its backend {name}"
    candidates.append((backend.prices if backend else None, (*path, "backend")))
    chosen, location = next(((prices, where) for prices, where in candidates if prices is not None), (None, path))
    if chosen is None and isinstance(choice, EndpointChoice):
        listed = found_for(choice.endpoint, choice.model_name)
        return (None, listed) if isinstance(listed, str) else (listed, None)
    try:
        return (None, missing) if chosen is None else (pinned(chosen), None)
    except LookupError as error:
        references.say(location, f"{error}.", "Write the prices out, with source and date.")
    except Unavailable as error:
        references.say(location, error.message, error.cure)
    return None, missing


def _backend_of(references: References, choice: EndpointChoice) -> BackendEntry | None:
    """Return the entry with the defaults of an endpoint: that of its backend class."""
    backends = references.catalogue.backends
    return next((entry for name, entry in backends.items() if _class_of(name, entry) == choice.backend_class), None)


def _class_of(name: str, backend: BackendEntry) -> str:
    return backend.default_backend_class or name


def _check_support(references: References, backend: str, task: TaskEntry | None, path: Path) -> None:
    if task is not None and task.supported_backends and backend not in task.supported_backends:
        cure = f"It supports {', '.join(task.supported_backends)}."
        references.say((*path, "backend"), f"the task {task.name!r} does not support the backend {backend!r}.", cure)
