"""The flags of `run`: the target, the task, decoding and scoring."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias, cast

from cyclopts import Parameter
from pydantic import JsonValue

from vlmhyperbench.cli.choices import read_extractor, read_param
from vlmhyperbench.cli.groups import DECODING, SCORING, TARGET, TASK
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench_sdk.gateway import KEY_PARAM
from vlmhyperbench_sdk.jsontext import parse_object

SECRET_PREFIX = "secret:"  # noqa: S105 - a prefix of names, not a password
"""Prefix of a header value that is the name of a secret."""

Repeatable: TypeAlias = tuple[str, ...]
"""A flag that may be given several times."""


@Parameter(name="*", group=TARGET)
@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFlags:
    """The target that is asked, and how."""

    model: str | None = None
    """Registered model; or gguf:FILE (also FILE.gguf), folder:FOLDER in the format of transformers, or
    hf:ORG/NAME[@REVISION] or hf:ORG/NAME/FILE.gguf of the hub, which is fetched. These are registered."""
    mmproj: str | None = None
    """For a GGUF file: GGUF file of the image projector that belongs to it, a path or a file of the same repository."""
    backend: str | None = None
    """Backend that runs the model; by default the model's first one, llamacpp for GGUF; needed for folder: and hf:."""
    endpoint: str | None = None
    """OpenAI-compatible base URL to measure instead of a model; needs --model-name."""
    model_name: str | None = None
    """For --endpoint: name of the model at the server, for example Qwen/Qwen2.5-VL-7B-Instruct."""
    api_key: str | None = None
    """For --endpoint: name of the secret that contains the API key. Store it with `vlmhyperbench secret set NAME`."""
    header: Repeatable = ()
    """For --endpoint: header of every request, 'NAME: VALUE' or 'NAME: secret:NAME_OF_SECRET'; may be given several
    times."""
    extra_body: str | None = None
    """For --endpoint: further fields of every request as a JSON object, for example '{"reasoning_effort": "low"}'."""
    max_tokens_field: str | None = None
    """For --endpoint: name of the request's field that limits the length of an answer, max_tokens or
    max_completion_tokens."""
    omit: Repeatable = ()
    """For --endpoint: field that is left out of every request, for example temperature; may be given several times."""
    engine_param: Repeatable = ()
    """For --model: parameter of the engine, NAME=VALUE, for example n_ctx=4096; the value is JSON or text. May be given
    several times."""

    @property
    def is_given(self) -> bool:
        """Whether any of these flags is given."""
        return self != TargetFlags()

    def choice(self, model: str | None) -> dict[str, JsonValue]:
        """Return the target as a run entry describes it; `model` is the name under which the model is registered.

        Raises:
            InvalidInput: flags exclude each other, or one is malformed.
        """
        params: dict[str, JsonValue] = dict(map(read_param, self.engine_param))
        if model is not None and self.endpoint is None and self.model_name is None:
            if self._options():
                raise InvalidInput(
                    "--api-key, --header, --extra-body, --max-tokens-field and --omit need --endpoint.",
                    cure="Leave them out; --engine-param sets parameters of a model's engine.",
                    code="usage",
                )
            return _without_none({"model": model, "backend": self.backend, "engine_params": params or None})
        if self.endpoint is not None and self.model_name is not None and model is None and self.backend is None:
            options = {**params, **self._options()}
            return _without_none(
                {"endpoint": self.endpoint, "model_name": self.model_name, "engine_params": options or None}
            )
        raise InvalidInput(
            "A run needs one target: --model NAME, or --endpoint URL with --model-name NAME (without --backend).",
            cure="Give one of them; `vlmhyperbench registry ls models` lists the registered models.",
            code="usage",
        )

    def _options(self) -> dict[str, JsonValue]:
        headers: dict[str, JsonValue] = dict(map(_header, self.header))
        extra = _object(self.extra_body) if self.extra_body is not None else None
        options: dict[str, JsonValue] = {
            KEY_PARAM: self.api_key,
            "headers": headers or None,
            "extra_body": extra,
            "max_tokens_field": self.max_tokens_field,
            "omit": list(self.omit) or None,
        }
        return _without_none(options)


@Parameter(name="*", group=TASK)
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFlags:
    """What is asked, and how the answers are scored."""

    task: str | None = None
    """Registered task: dataset, prompt and metrics."""
    data: Path | None = None
    """Your own questions, which are registered: a CSV, TSV, JSON Lines, Parquet or Arrow file with the columns question
    and answer, and image if there are images; or a folder or an archive with such files."""
    dataset: str | None = None
    """Registered dataset in place of the task's."""
    limit: int | None = None
    """Maximum number of samples, from the start of the dataset, or of a draw a smaller draw; by default all."""
    prompt: str | None = None
    """Registered prompt in place of the task's."""
    scenario: str | None = None
    """Registered scenario, how requests are sent; by default the task's first one."""
    metric: Annotated[Repeatable, Parameter(group=SCORING)] = ()
    """Metric in place of the task's, NAME or NAME@PROFILE; may be given several times."""
    extractor: Annotated[Repeatable, Parameter(group=SCORING)] = ()
    """Registered extractor of the answer in a model's text, or JSON with its name and params; may be given several
    times. The first one determines the main score."""
    group_by: Annotated[Repeatable, Parameter(group=SCORING)] = ()
    """Field of the samples' metadata by which results are grouped; may be given several times."""
    max_tokens: Annotated[int | None, Parameter(group=DECODING)] = None
    """Maximum length of an answer in tokens."""
    temperature: Annotated[float | None, Parameter(group=DECODING)] = None
    """Sampling temperature; at 0 the most likely token is always taken."""
    top_p: Annotated[float | None, Parameter(group=DECODING)] = None
    """Sample from the most likely tokens whose probabilities add up to this share (nucleus sampling)."""
    top_k: Annotated[int | None, Parameter(group=DECODING)] = None
    """Number of most likely tokens to sample from."""
    min_p: Annotated[float | None, Parameter(group=DECODING)] = None
    """Sample from the tokens whose probability is at least this share of the most likely token's."""
    seed: Annotated[int | None, Parameter(group=DECODING)] = None
    """Random seed of the sampling."""
    n: Annotated[int | None, Parameter(group=DECODING)] = None
    """Number of answers to each question."""
    stop_text: Annotated[Repeatable, Parameter(group=DECODING)] = ()
    """Text at which an answer ends; may be given several times."""

    @property
    def is_given(self) -> bool:
        """Whether any of these flags is given."""
        return self != TaskFlags()

    def choices(self) -> dict[str, JsonValue]:
        """Return the fields of a run entry that these flags set.

        Raises:
            InvalidInput: an extractor is malformed.
        """
        decoding = _without_none(
            {
                **{name: getattr(self, name) for name in ("max_tokens", "temperature", "top_p", "top_k", "min_p")},
                **{name: getattr(self, name) for name in ("seed", "n")},
                "stop": list(self.stop_text) or None,
            }
        )
        return _without_none(
            {
                "prompt": self.prompt,
                "scenario": self.scenario,
                "dataset": self.dataset,
                "limit": self.limit,
                "metrics": list(self.metric) or None,
                "extractors": list(map(read_extractor, self.extractor)) or None,
                "group_by": list(self.group_by) or None,
                "decoding": decoding or None,
            }
        )


def _without_none(values: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in values.items() if value is not None}


def _object(text: str) -> JsonValue:
    try:
        return cast("JsonValue", parse_object(text, what="--extra-body"))
    except InvalidInput as error:
        cure = """Write a JSON object in quotes, for example --extra-body '{"reasoning_effort": "low"}'."""
        raise InvalidInput(error.message, cure=cure, code="usage") from error


def _header(text: str) -> tuple[str, JsonValue]:
    name, colon, value = text.partition(":")
    if not colon:
        cure = "Write --header 'NAME: VALUE' or --header 'NAME: secret:NAME_OF_SECRET'."
        raise InvalidInput("A --header has no colon.", cure=cure, code="usage")  # its value may be secret
    value = value.strip()
    return name.strip(), {"secret": value.removeprefix(SECRET_PREFIX)} if value.startswith(SECRET_PREFIX) else value
