"""Read `models.yaml` and `pipeline.yaml` of a folder of GGUF files, and add their models and pipelines as entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

from pydantic import BaseModel, Field, JsonValue

from vlmhyperbench.domain.request_styles import ReasoningMarks, RequestStyle
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.registry.adding_models import add_model
from vlmhyperbench.registry.documents import read_document
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.shelf import Added, Shelf
from vlmhyperbench.registry.validation import validate
from vlmhyperbench.registry.values import RelativePath, Slug, Strict
from vlmhyperbench_sdk.gguf import quantization_family, read_header

BASE: Final = "base"
"""Name of the entry that the base pipeline becomes."""
_ENGINE: Final = ("n_ctx", "n_gpu_layers", "threads")
_SAMPLING: Final = ("temperature", "top_p", "max_tokens")
_KEPT: Final = ("request_style", "strip_reasoning", "reasoning_marks", "pin")
"""How the model is asked, its answers are read and it is loaded, as an entry of `models` has it."""
_WITHOUT_EFFECT: Final = ("roles", "huggingface_repo", "release_date")
"""Keys that no run uses yet; an import says so."""

M = TypeVar("M", bound=BaseModel)


class GgufDefaults(Strict):
    """Parameters of engine and sampling; those of a model replace those of all models."""

    n_ctx: Annotated[int, Field(ge=256)] | None = None
    n_gpu_layers: Annotated[int, Field(ge=-1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    threads: Annotated[int, Field(ge=1)] | None = None


class GgufModel(Strict):
    """A model of `models.yaml`."""

    file: RelativePath
    mmproj: RelativePath | None = None
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    description: str = ""
    huggingface_repo: str | None = None
    release_date: str | None = None
    parameters_b: Annotated[float, Field(gt=0)] | None = None
    quantization: str | None = None
    request_style: RequestStyle = "openai_chat"
    required_for_base: bool = False
    strip_reasoning: bool = False
    reasoning_marks: Annotated[tuple[ReasoningMarks, ...], Field(max_length=10)] = ()
    roles: tuple[str, ...] = ()
    pin: bool = False
    overrides: GgufDefaults = GgufDefaults()


class ModelsFile(Strict):
    """`models.yaml`."""

    version: Literal[1]
    models_directory: str
    defaults: GgufDefaults = GgufDefaults()
    models: dict[Slug, GgufModel]


class PipelineFile(Strict):
    """`pipeline.yaml`; the stages are checked as those of an entry of `pipelines`."""

    version: Literal[1]
    base_pipeline: dict[str, JsonValue] | None = None
    pipelines: dict[Slug, dict[str, JsonValue]] = Field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Imported:
    """What an import has added, and what it has not."""

    added: list[Added] = field(default_factory=list)
    unusable: dict[str, str] = field(default_factory=dict)
    """Model that was not added → why."""
    warnings: list[str] = field(default_factory=list)


def import_models(shelf: Shelf, file: Path) -> Imported:
    """Add every model whose file is here and whole; others are told with their reasons.

    Raises:
        RegistryErrors: the file is malformed; lists every error with its line.
        Conflict: a name is taken by another entry.
    """
    read = _read(ModelsFile, file)
    folder = (file.parent / read.models_directory).absolute()
    imported = Imported()
    for name, model in read.models.items():
        try:
            imported.added.append(_add(shelf, name, model, read, folder, imported.warnings))
        except (NotFound, InvalidInput) as error:  # noqa: PERF203 -- each model is told by itself
            imported.unusable[name] = error.message
    return imported


def import_pipelines(shelf: Shelf, file: Path, models_file: Path) -> list[Added]:
    """Add the pipelines of a file as entries; the sampling of models and defaults is written into them.

    Raises:
        RegistryErrors: a file is malformed; lists every error with its line.
        Conflict: a name is taken by another entry.
    """
    read, models = _read(PipelineFile, file), _read(ModelsFile, models_file)
    entries = dict(read.pipelines)
    if read.base_pipeline is not None:
        required: list[JsonValue] = [name for name, model in models.models.items() if model.required_for_base]
        entries = {BASE: {**read.base_pipeline, **({"requires": required} if required else {})}, **entries}
    return [
        shelf.add("pipelines", name, {**values, "stages": list(_stages(values.get("stages"), models))}, same=())
        for name, values in entries.items()
    ]


def _add(shelf: Shelf, name: str, model: GgufModel, file: ModelsFile, folder: Path, warnings: list[str]) -> Added:
    weights = folder / model.file
    mmproj = folder / model.mmproj if model.mmproj is not None else None
    added = add_model(shelf, weights, mmproj, name=name, sha256=model.sha256)
    header = read_header(weights)
    if model.quantization is not None and header.quantization is not None and _differ(model, header.quantization):
        warnings.append(f"{name} is {header.quantization} by its header, not {model.quantization}.")
    warnings += [f"{name}: no run uses {key} yet." for key in _WITHOUT_EFFECT if key in model.model_fields_set]
    params = _chosen(file.defaults, _ENGINE) | _chosen(model.overrides, _ENGINE)
    values: dict[str, JsonValue] = {"engine_params": params, "quantization": header.quantization}
    values |= model.model_dump(mode="json", include={*_KEPT}, exclude_defaults=True)
    if model.description:
        values["description"] = model.description
    if model.parameters_b is not None:
        values["parameter_count"] = round(model.parameters_b * 1e9)
    shelf.add("models", name, {key: value for key, value in values.items() if value}, same=())
    return added


def _differ(model: GgufModel, by_header: str) -> bool:
    return quantization_family(model.quantization or "") != quantization_family(by_header)


def _stages(stages: JsonValue, models: ModelsFile) -> Iterator[JsonValue]:
    """Yield stages with the sampling that holds in them: defaults, then the model's, then the stage's own."""
    for stage in stages if isinstance(stages, list) else ():
        if not isinstance(stage, dict):
            yield stage
            continue
        own = stage.get("generation")
        stated = own if isinstance(own, dict) else {}
        single = _known(stage.get("model"), models)
        below = _chosen(models.defaults, _SAMPLING) | (_chosen(single.overrides, _SAMPLING) if single else {})
        made = {**stage, "generation": {**below, **stated}}
        members = stage.get("models")
        if isinstance(members, list):
            made["models"] = [_member(member, models, stated) for member in members]
        aggregation = stage.get("aggregation")
        if isinstance(aggregation, dict) and (merger := aggregation.get("synthesis_model", aggregation.get("model"))):
            rest = {key: value for key, value in aggregation.items() if key != "synthesis_model"}
            made["aggregation"] = {**rest, "model": _member(merger, models, stated)}
        yield {key: value for key, value in made.items() if value != {} and value is not None}


def _member(member: JsonValue, models: ModelsFile, stated: Mapping[str, JsonValue]) -> JsonValue:
    choice = member if isinstance(member, dict) else {"model": member}
    known = _known(member, models)
    sampling = _chosen(known.overrides, _SAMPLING) if known is not None else {}
    own = {key: value for key, value in sampling.items() if key not in stated}
    return {**choice, "generation": own} if own else member


def _known(chosen: JsonValue, models: ModelsFile) -> GgufModel | None:
    """Return the model of the file that is chosen by its name, or by a mapping with its name."""
    name = chosen.get("model") if isinstance(chosen, dict) else chosen
    return models.models.get(name) if isinstance(name, str) else None


def _chosen(values: GgufDefaults, names: tuple[str, ...]) -> dict[str, JsonValue]:
    return {name: getattr(values, name) for name in names if getattr(values, name) is not None}


def _read(model: type[M], file: Path) -> M:
    document, errors = read_document(file, str(file))
    if document is None:
        raise RegistryErrors(errors)
    read, problems = validate(model, document.value)
    if read is None:
        raise RegistryErrors.of(problems, document.location_of)
    return read
