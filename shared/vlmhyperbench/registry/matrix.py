"""Expand a matrix into named runs that record the locations of their parts; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from vlmhyperbench.domain.response_formats import format_name
from vlmhyperbench.domain.specs import Decoding
from vlmhyperbench.registry.choices import EndpointChoice, ModelChoice, PipelineChoice, RunChoices, ScenarioChoice
from vlmhyperbench.registry.errors import Path
from vlmhyperbench.registry.schemas import (
    Exclusion,
    Matrix,
    RunEntry,
)

Axis = tuple[str, int]
"""Key of the matrix and position in its list."""
_ALWAYS = 2
"""Parts of every name, the target and the task, so that names do not change when targets or tasks are added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """A run of an experiment."""

    name: str
    run: RunEntry
    locations: Mapping[Path, Path]
    """Path in the run's entry → path in the experiment's, for each value written there; `()` is always present."""
    is_whole: bool = False
    """Whether the run is given by name, so that all its values are located at the name."""

    def written_at(self, path: Path) -> Path:
        """Return the path in the experiment's entry of a value of the run."""
        known = next(length for length in range(len(path), -1, -1) if path[:length] in self.locations)
        location = self.locations[path[:known]]
        return location if self.is_whole else (*location, *path[known:])


def combine(matrix: Matrix, exclude: Sequence[Exclusion], defaults: RunChoices) -> list[Combination]:
    """Return all combinations that no exclusion matches, in matrix order."""
    scenarios, prompts, decodings = _or_none(matrix.scenarios), _or_none(matrix.prompts), _or_none(matrix.decodings)
    formats = _or_none(matrix.response_formats)
    chosen: list[tuple[RunEntry, dict[Path, Path]]] = []
    axes = (matrix.tasks, scenarios, prompts, decodings, formats, matrix.targets)
    for (t, task), (s, scenario), (p, prompt), (d, decoding), (f, wanted), (g, target) in product(
        *map(enumerate, axes)
    ):
        own = {"scenario": scenario, "prompt": prompt, "decoding": decoding, "response_format": wanted}
        run = RunEntry(
            **{
                **{name: getattr(defaults, name) for name in RunChoices.model_fields},
                **{name: value for name, value in own.items() if value is not None},
            },
            target=target,
            task=task,
        )
        if not any(_matches(exclusion, run) for exclusion in exclude):
            locations: dict[Path, Path] = {(): ("defaults",), ("target",): ("matrix", "targets", g)}
            locations |= {("task",): ("matrix", "tasks", t)}
            for name, position in (("scenario", s), ("prompt", p), ("decoding", d), ("response_format", f)):
                if own[name] is not None:
                    locations[name,] = ("matrix", f"{name}s", position)
            chosen.append((run, locations))
    names = names_of([run for run, _ in chosen])
    return [
        Combination(name=name, run=run, locations=locations)
        for name, (run, locations) in zip(names, chosen, strict=True)
    ]


def unused_exclusions(matrix: Matrix, exclude: Sequence[Exclusion], defaults: RunChoices) -> list[int]:
    """Return the positions of exclusions that match no combination, which are probably mistakes."""
    if not exclude:
        return []
    runs = [combination.run for combination in combine(matrix, (), defaults)]
    return [no for no, exclusion in enumerate(exclude) if not any(_matches(exclusion, run) for run in runs)]


def _or_none(axis: Sequence[object]) -> Sequence[object]:
    return axis or (None,)


def _matches(exclusion: Exclusion, run: RunEntry) -> bool:
    facts = {
        "target": target_name(run),
        "task": run.task,
        "scenario": _scenario_name(run),
        "prompt": run.prompt,
        "response_format": _format_name(run),
    }
    wanted = exclusion.model_dump(exclude_none=True)
    return bool(wanted) and all(facts[name] == value for name, value in wanted.items())


def names_of(runs: Sequence[RunEntry]) -> list[str]:
    """Name each run by target, task and whatever else differs between the runs; equal names are numbered."""
    parts = [_parts(run) for run in runs]
    varying = [len({part[no] for part in parts}) > 1 for no in range(len(parts[0]))] if parts else []
    names = [
        " · ".join(
            text
            for no, (text, varies) in enumerate(zip(part, varying, strict=True))
            if text and (varies or no < _ALWAYS)
        )
        for part in parts
    ]
    total, seen = Counter(names), Counter[str]()
    numbered = []
    for name in names:
        seen[name] += 1
        numbered.append(f"{name} #{seen[name]}" if total[name] > 1 else name)
    return numbered


def _parts(run: RunEntry) -> tuple[str, ...]:
    return (
        target_name(run),
        run.task,
        _backend(run),
        _scenario_name(run),
        run.prompt or "",
        _decoding_name(run.decoding),
        _format_name(run),
    )


def target_name(run: RunEntry) -> str:
    """Return the name of the model, the endpoint or the pipeline of a run."""
    match run.target:
        case ModelChoice(model=name) | PipelineChoice(pipeline=name) | EndpointChoice(model_name=name):
            return name


def _backend(run: RunEntry) -> str:
    return run.target.backend or "" if isinstance(run.target, ModelChoice) else ""


def _scenario_name(run: RunEntry) -> str:
    return run.scenario.name if isinstance(run.scenario, ScenarioChoice) else run.scenario or ""


def _format_name(run: RunEntry) -> str:
    return "" if run.response_format is None else format_name(run.response_format)


def _decoding_name(decoding: Decoding | None) -> str:
    written = decoding.model_dump(exclude_unset=True) if decoding else {}
    return " ".join(f"{name}={value}" for name, value in sorted(written.items()))
