"""Score a Python function on a task: samples, prompts, parser, metrics and report of a run, without a stack."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar
from uuid import uuid4

from vlmhyperbench.data import manifest
from vlmhyperbench.data.addresses import ImageAddresses
from vlmhyperbench.data.datasets import on_this_machine
from vlmhyperbench.data.enumerating import index
from vlmhyperbench.data.examples import check_leaks, draw_examples, with_local_files
from vlmhyperbench.data.manifest import ManifestSample
from vlmhyperbench.data.rendering import render_prompts
from vlmhyperbench.data.repositories import Arrival
from vlmhyperbench.domain.few_shot import answer_of
from vlmhyperbench.domain.specs import PromptStrategySpec, RunSpec
from vlmhyperbench.environments.metric_hosts import metric_hosts_here
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.evaluation.calling import Answering, Example, Question, Reply, Told, call_all, check_takes, name_of
from vlmhyperbench.evaluation.facts import answers_sha256, facts_of
from vlmhyperbench.evaluation.results import Evaluation
from vlmhyperbench.evaluation.scoring import Answered, score
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.functions import FunctionChoices, resolve_function
from vlmhyperbench.registry.loading import read_catalogue
from vlmhyperbench.registry.roots import registry_roots
from vlmhyperbench.registry.validation import validate
from vlmhyperbench.scoring.metrics import Hosts, RunsApart, host_of
from vlmhyperbench.settings import Settings
from vlmhyperbench.storage import Storage, open_storage
from vlmhyperbench_sdk.types import JsonObject, JsonValue, Prompt

if TYPE_CHECKING:
    import polars

MAX_CONCURRENCY: Final = 1024
T = TypeVar("T")


def evaluate(
    task: str,
    function: Answering,
    *,
    limit: int | None = None,
    dataset: str | JsonObject | None = None,
    prompt: str | None = None,
    metrics: Sequence[str] | None = None,
    extractors: Sequence[str] | None = None,
    group_by: Sequence[str] | None = None,
    on_model_failure: Literal["zero", "exclude"] | None = None,
    on_invalid: Literal["zero", "exclude"] | None = None,
    concurrency: int = 1,
    name: str | None = None,
    progress: Told | None = None,
) -> Evaluation:
    """Ask a function every question of a task, and score its answers.

    Args:
        task: Name of a registered task.
        function: Called with the text of the prompt and a list of images, as encoded bytes; it returns the answer. It
            may be a coroutine function. Where it has a parameter `system`, it is given the prompt's system text, and
            in `examples` the examples of a prompt that has some.
        limit: Maximum number of samples: the first ones in the dataset's order, or with a draw a smaller draw.
        dataset: Dataset in place of the task's own: its name, or an object as in a run's entry.
        prompt: Prompt in place of the task's own.
        metrics: Metrics in place of the task's own, NAME or NAME@PROFILE.
        extractors: How the answer is read from the text, in place of the task's own.
        group_by: Columns by which quality is shown.
        on_model_failure: Whether a failed call counts as a wrong answer (`zero`) or has no score.
        on_invalid: The same for an answer that cannot be parsed.
        concurrency: Number of calls at the same time: threads, or coroutines of a coroutine function.
        name: Name in tables and reports; by default that of the function.
        progress: Called with the number of calls that have ended, and of all.

    Returns:
        The scores. A call that raises is a model failure with the class of its exception; the evaluation goes on.

    Raises:
        RegistryErrors: a name is unknown, or a metric is a judge.
        InvalidInput: the dataset or an argument is wrong.
        NotFound, Conflict, PluginFailure, Unavailable: a plugin or a library is missing, or fails.
    """
    if not 1 <= concurrency <= MAX_CONCURRENCY:
        raise InvalidInput(f"concurrency is {concurrency}.", cure=f"Give a number from 1 to {MAX_CONCURRENCY}.")
    called = name or name_of(function)
    given: dict[str, Any] = {
        "task": task,
        "limit": limit,
        "dataset": dataset,
        "prompt": prompt,
        "metrics": _listed(metrics),
        "extractors": _listed(extractors),
        "group_by": _listed(group_by),
        "on_model_failure": on_model_failure,
        "on_invalid": on_invalid,
    }
    choices, problems = validate(FunctionChoices, {key: value for key, value in given.items() if value is not None})
    if choices is None:
        raise RegistryErrors.of(problems)
    settings = Settings.load()
    catalogue = read_catalogue(registry_roots(settings.registries, settings.home), settings.run_mode)
    spec = resolve_function(catalogue, choices, function=called, in_flight=concurrency)
    folder = Path(tempfile.mkdtemp(prefix="vlmhb-evaluation-"))
    sources: list[RunsApart] = [spec.dataset, *([spec.prompt] if isinstance(spec.prompt, PromptStrategySpec) else [])]
    sources += [spec.prompt.few_shot.dataset] if spec.prompt.few_shot is not None else []
    try:
        with metric_hosts_here(sources, settings) as hosts:
            answered = _answers(function, spec, open_storage(str(folder)), called, hosts, progress or _tell_nobody)
        return Evaluation(answered, score(answered, settings), folder=folder)
    except BaseException:
        shutil.rmtree(folder)
        raise


def _answers(function: Answering, spec: RunSpec, storage: Storage, name: str, hosts: Hosts, told: Told) -> Answered:
    """Read the samples, call the function for each, and return its answers as the rows of a run."""
    run_id, started_at = str(uuid4()), _now()
    settings = Settings.load()
    with on_this_machine(spec.dataset, settings, Arrival()) as local:
        host = host_of(spec.dataset, hosts)
        indexed = index(local, spec.limits, storage, host, ImageAddresses.of(settings))
    frame = _read(storage, indexed.manifest_id)
    samples = list(manifest.samples_of(frame))
    examples_id = _draw(spec, samples, storage, hosts)
    examples = list(manifest.samples_of(_read(storage, examples_id))) if examples_id is not None else []
    asked = _ask(function, spec, samples, examples, storage, hosts, told)
    target = spec.target.model_copy(update={"answers": answers_sha256(samples, asked)})
    return Answered(
        id=run_id,
        name=name,
        spec=spec.model_copy(update={"target": target}),
        indexed=indexed,
        examples_id=examples_id,
        facts=facts_of(run_id, samples, asked, frame, examples_id=examples_id),
        durations_s={sample: reply.duration_s for sample, (_, reply) in asked.items()},
        started_at=started_at,
        finished_at=_now(),
    )


def _draw(spec: RunSpec, samples: Sequence[ManifestSample], storage: Storage, hosts: Hosts) -> str | None:
    """Draw the examples of the prompt, and return the hash of their manifest; None without examples."""
    few_shot, settings = spec.prompt.few_shot, Settings.load()
    if few_shot is None:
        return None
    with on_this_machine(few_shot.dataset, settings, Arrival()) as local:
        given, same = with_local_files(few_shot, spec.dataset, local)
        host, addresses = host_of(few_shot.dataset, hosts), ImageAddresses.of(settings)
        return draw_examples(given, same, samples, spec.limits, storage, host, addresses).stored.manifest_id


def _read(storage: Storage, manifest_id: str) -> polars.DataFrame:
    [path] = _awaited(storage.open_all([(manifest.manifest_key(manifest_id), manifest_id)]))
    return manifest.read(path)


def _ask(
    function: Answering,
    spec: RunSpec,
    samples: Sequence[ManifestSample],
    examples: Sequence[ManifestSample],
    storage: Storage,
    hosts: Hosts,
    told: Told,
) -> dict[int, tuple[Prompt, Reply]]:
    """Call the function for every sample that can be read; return prompt and reply by the sample's index."""
    readable = [sample for sample in samples if sample.error is None]
    host = host_of(spec.prompt, hosts) if isinstance(spec.prompt, PromptStrategySpec) else None
    rendered = _awaited(render_prompts(spec.prompt, [*examples, *readable], host=host))
    before, prompts = rendered[: len(examples)], rendered[len(examples) :]
    check_leaks(examples, before, readable, prompts)
    stored = {(image.storage_key, image.sha256) for sample in [*examples, *readable] for image in sample.images}
    paths = dict(zip(stored, _awaited(storage.open_all(list(stored))), strict=True))

    def images_of(sample: ManifestSample) -> tuple[Path, ...]:
        return tuple(paths[image.storage_key, image.sha256] for image in sample.images)

    few_shot = spec.prompt.few_shot
    shown = (
        ()
        if few_shot is None
        else tuple(
            Example(
                prompt=prompt.user,
                images=tuple(path.read_bytes() for path in images_of(example)),
                answer=answer_of(few_shot, example.references, example.metadata),
            )
            for example, prompt in zip(examples, before, strict=True)
        )
    )
    questions = [
        Question(prompt=prompt, images=images_of(sample), examples=shown)
        for sample, prompt in zip(readable, prompts, strict=True)
    ]
    check_takes(function, questions)
    replies = call_all(function, questions, concurrency=spec.scenario.in_flight or 1, told=told)
    return {sample.index: (prompt, reply) for sample, prompt, reply in zip(readable, prompts, replies, strict=True)}


def _awaited(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, also where this thread has a loop that runs already, as in a notebook."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def _listed(names: Sequence[str] | None) -> list[JsonValue] | None:
    """Return names as a list; one name that stands alone is a list of it."""
    if names is None:
        return None
    return [names] if isinstance(names, str) else [*names]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _tell_nobody(_done: int, _total: int) -> None:
    """Report no progress."""
