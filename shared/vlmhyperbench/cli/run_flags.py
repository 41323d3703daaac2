"""What the flags of `run` say: which target, how it is asked, about what, and how its answers are scored."""

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

GGUF = ".gguf"
BY_NAME = "secret:"
"""What stands before the name of a secret whose value is meant."""

Several: TypeAlias = tuple[str, ...]
"""A flag that may be given several times."""


@Parameter(name="*", group=TARGET)
@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFlags:
    """Which target is asked, and how."""

    model: str | None = None
    """Registered model, or the path of a GGUF file."""
    mmproj: Path | None = None
    """Image projector that belongs to a GGUF file."""
    backend: str | None = None
    """One of the model's backends."""
    endpoint: str | None = None
    """OpenAI-compatible URL to measure instead of a model."""
    model_name: str | None = None
    """The model's name at the endpoint, for example Qwen/Qwen2.5-VL-7B-Instruct."""
    api_key: str | None = None
    """Name of the secret that is the endpoint's key; store it with `vlmhyperbench secret set NAME`."""
    header: Several = ()
    """Header of every request to the endpoint, 'NAME: VALUE' or 'NAME: secret:NAME_OF_THE_SECRET'; may be given several
    times."""
    extra_body: str | None = None
    """Further fields of every request to the endpoint, as JSON."""
    max_tokens_field: str | None = None
    """Field that bounds the length of an answer: max_tokens or max_completion_tokens."""
    omit: Several = ()
    """Field that is not sent to the endpoint, for example temperature; may be given several times."""
    engine_param: Several = ()
    """Parameter of the engine, NAME=VALUE; the value is JSON or text; may be given several times."""

    @property
    def model_file(self) -> Path | None:
        """The GGUF file, where the model is one."""
        return Path(self.model) if self.model is not None and self.model.lower().endswith(GGUF) else None

    @property
    def is_given(self) -> bool:
        """Whether anything is said."""
        return self != TargetFlags()

    def choice(self, model: str | None) -> dict[str, JsonValue]:
        """Return the target's choice as an entry has it; `model` is the name by which the model is registered.

        Raises:
            InvalidInput: the flags do not go together, or one of them is malformed.
        """
        params: dict[str, JsonValue] = dict(map(read_param, self.engine_param))
        if model is not None and self.endpoint is None and self.model_name is None:
            if self._options():
                raise InvalidInput(
                    "--api-key, --header, --extra-body, --max-tokens-field and --omit say how an endpoint is asked.",
                    cure="Leave them out, or say --endpoint; --engine-param is for a model's engine.",
                    code="usage",
                )
            return _said({"model": model, "backend": self.backend, "engine_params": params or None})
        if self.endpoint is not None and self.model_name is not None and model is None and self.backend is None:
            options = {**params, **self._options()}
            return _said({"endpoint": self.endpoint, "model_name": self.model_name, "engine_params": options or None})
        raise InvalidInput(
            "Say what to run: a registered name, a YAML file, --model, or --endpoint with --model-name.",
            cure="See vlmhyperbench run --help; `vlmhyperbench registry ls` lists names.",
            code="usage",
        )

    def _options(self) -> dict[str, JsonValue]:
        headers: dict[str, JsonValue] = dict(map(_header, self.header))
        extra = _object(self.extra_body) if self.extra_body is not None else None
        found: dict[str, JsonValue] = {
            KEY_PARAM: self.api_key,
            "headers": headers or None,
            "extra_body": extra,
            "max_tokens_field": self.max_tokens_field,
            "omit": list(self.omit) or None,
        }
        return _said(found)


@Parameter(name="*", group=TASK)
@dataclass(frozen=True, slots=True, kw_only=True)
class AskedFlags:
    """What is asked, and how the answers are scored."""

    task: str | None = None
    """Registered task."""
    data: Path | None = None
    """CSV of questions of your own: the columns question, answer, and image where there are images."""
    dataset: str | None = None
    """Registered data set instead of the task's."""
    limit: int | None = None
    """Maximum number of samples, taken from the start of the data set."""
    prompt: str | None = None
    """Registered prompt instead of the task's."""
    scenario: str | None = None
    """Registered scenario."""
    metric: Annotated[Several, Parameter(group=SCORING)] = ()
    """Metric instead of the task's, NAME or NAME@PROFILE; may be given several times."""
    extractor: Annotated[Several, Parameter(group=SCORING)] = ()
    """How answers are read: NAME, or JSON with its params; may be given several times, the first one counts."""
    group_by: Annotated[Several, Parameter(group=SCORING)] = ()
    """Metadata by which results are grouped; may be given several times."""
    max_tokens: Annotated[int | None, Parameter(group=DECODING)] = None
    """Maximum length of an answer, in tokens."""
    temperature: Annotated[float | None, Parameter(group=DECODING)] = None
    """Sampling temperature; 0 always takes the most likely token."""
    top_p: Annotated[float | None, Parameter(group=DECODING)] = None
    """Sample among the most likely tokens whose probabilities add up to this (nucleus sampling)."""
    top_k: Annotated[int | None, Parameter(group=DECODING)] = None
    """Sample among this number of the most likely tokens."""
    min_p: Annotated[float | None, Parameter(group=DECODING)] = None
    """Sample among tokens whose probability is at least this share of the most likely token's."""
    seed: Annotated[int | None, Parameter(group=DECODING)] = None
    """Seed of the sampling."""
    n: Annotated[int | None, Parameter(group=DECODING)] = None
    """Number of answers to each question."""
    stop_text: Annotated[Several, Parameter(group=DECODING)] = ()
    """Text at which an answer ends; may be given several times."""

    @property
    def is_given(self) -> bool:
        """Whether anything is said."""
        return self != AskedFlags()

    def choices(self) -> dict[str, JsonValue]:
        """Return what the run chooses, as an entry has it.

        Raises:
            InvalidInput: an extractor is malformed.
        """
        decoding = _said(
            {
                **{name: getattr(self, name) for name in ("max_tokens", "temperature", "top_p", "top_k", "min_p")},
                **{name: getattr(self, name) for name in ("seed", "n")},
                "stop": list(self.stop_text) or None,
            }
        )
        return _said(
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


def _said(values: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in values.items() if value is not None}


def _object(text: str) -> JsonValue:
    try:
        return cast("JsonValue", parse_object(text, what="--extra-body"))
    except InvalidInput as error:
        cure = """Write an object in quotes: --extra-body '{"reasoning_effort": "low"}'."""
        raise InvalidInput(error.message, cure=cure, code="usage") from error


def _header(text: str) -> tuple[str, JsonValue]:
    name, colon, value = text.partition(":")
    if not colon:
        cure = "Write --header 'NAME: VALUE', or 'NAME: secret:NAME_OF_THE_SECRET'."
        raise InvalidInput("A --header has no colon.", cure=cure, code="usage")
    value = value.strip()
    return name.strip(), {"secret": value.removeprefix(BY_NAME)} if value.startswith(BY_NAME) else value
