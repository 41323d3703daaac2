"""Measure how long aggregations of members' answers take: alone, through a pipeline's `Combiner`, and as a run's rows.

Usage: python -m benchmarks.voting    CPU time of one process; a busy machine makes it longer, but not its ratios.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

from vlmhyperbench.domain.pipelines import AggregationSpec, Key, MemberSpec, PipelineTarget, StageSpec
from vlmhyperbench.domain.response_formats import pinned_format
from vlmhyperbench.domain.targets import ModelTarget
from vlmhyperbench.scoring.combining import Asked, Combiner, Reply
from vlmhyperbench_eval_worker.combining import rows_of
from vlmhyperbench_pipeline.concat import Concat
from vlmhyperbench_pipeline.synthesis import Synthesis, SynthesisRequest
from vlmhyperbench_pipeline.template import TemplateMerge
from vlmhyperbench_pipeline.vote import Vote
from vlmhyperbench_sdk.aggregation import Aggregated, AggregationContext, MemberAnswer

ANSWERS, AIM_ANSWERS_S = 100_000, 1.0
SAMPLES, AIM_SAMPLES_S = 10_000, 2.0
MEMBERS = 5
Row = TypeVar("Row")
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["number", "total"],
    "properties": {"number": {"type": "string"}, "total": {"type": "number"}, "city": {"type": "string"}},
}


def main() -> None:
    """Measure, and print a table."""
    table = Table(*("aggregation", "wall", "CPU", "aim"), title=f"{SAMPLES:,} answers of {MEMBERS} members")
    measured(f"vote by majority of {ANSWERS:,}", texts(ANSWERS), Vote(rule="majority").aggregate, AIM_ANSWERS_S, table)
    merge = TemplateMerge(template="{% for m in members if m.text is string %}{{ m.name }}: {{ m.text }}\n{% endfor %}")
    by_field, context = Vote(scope="field"), AggregationContext(question="What is it?", schema=SCHEMA)
    replays: dict[str, tuple[Iterator[list[MemberAnswer]], Callable[[Sequence[MemberAnswer]], Aggregated]]] = {
        "concat with a header": (texts(SAMPLES), Concat(header="# {{ name }}\n").aggregate),
        "vote of similar answers": (texts(SAMPLES), Vote(equivalence="fuzzy").aggregate),
        "template": (texts(SAMPLES), merge.aggregate),
        "synthesis, of stored replies": (texts(SAMPLES), _concluded),
        "vote by field": (objects(SAMPLES), lambda members: by_field.aggregate(members, context)),
    }
    for name, (rows, replay) in replays.items():
        measured(name, rows, replay, AIM_SAMPLES_S, table)
    for name, scope, rows in (("vote", "answer", texts(SAMPLES)), ("vote by field", "field", objects(SAMPLES))):
        target, asked = voting(scope), [as_asked(members) for members in rows]
        combiner = Combiner(target)
        measured(f"{name}, through Combiner", iter(asked), combiner.answers, AIM_SAMPLES_S, table)
        as_rows = partial(rows_of, target, dict(enumerate(asked)), phase=0, count=len(asked))
        measured(f"{name}, as rows of a run", iter([range(len(asked))]), as_rows, AIM_SAMPLES_S, table)
    Console().print(table)


def voting(scope: str) -> PipelineTarget:
    """Make a pipeline whose members vote on an answer in JSON."""
    members = tuple(
        MemberSpec(
            name=f"member-{no}",
            target=ModelTarget(model=f"m{no}", version="1", backend="simulated", backend_class="simulated"),
        )
        for no in range(MEMBERS)
    )
    response_format = pinned_format({"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}})
    aggregation = AggregationSpec(class_path="vote", params={"scope": scope})
    stage = StageSpec(id="read", members=members, aggregation=aggregation, response_format=response_format)
    return PipelineTarget(pipeline="voting", version="1", stages=(stage,))


def as_asked(members: Sequence[MemberAnswer]) -> Asked:
    """Return a sample with the members' answers."""
    replies: dict[Key, Reply] = {
        ("read", "member", member.name): Reply(text=member.text, error=member.error) for member in members
    }
    return Asked(question="What is it?", replies=replies)


def measured(name: str, rows: Iterator[Row], replay: Callable[[Row], object], aim_s: float, table: Table) -> None:
    """Aggregate all rows, and add what it took to the table."""
    made = list(rows)
    start, cpu_start = time.perf_counter(), time.process_time()
    for row in made:
        replay(row)
    wall_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu_start
    table.add_row(name, f"{wall_s:.2f} s", f"{cpu_s:.2f} s", f"≤ {aim_s:g} s")


def texts(count: int) -> Iterator[list[MemberAnswer]]:
    """Yield answers of which one in five differ from the rest; one member in 25 fails."""
    for row in range(count):
        yield [
            _member(row, no, f"Invoice {row}." if (7 * row + 3 * no) % 5 else f"other {row}") for no in range(MEMBERS)
        ]


def objects(count: int) -> Iterator[list[MemberAnswer]]:
    """Yield answers in JSON of three fields, which differ in single ones."""
    for row in range(count):
        yield [
            _member(row, no, json.dumps({"number": f"R-{row}", "total": row + (row + no) % 5 // 4, "city": "Rome"}))
            for no in range(MEMBERS)
        ]


def _member(row: int, number: int, text: str) -> MemberAnswer:
    if (row + number) % 25 == 0:
        return MemberAnswer(name=f"member-{number}", error="timeout")
    return MemberAnswer(name=f"member-{number}", text=text)


def _concluded(members: Sequence[MemberAnswer]) -> Aggregated:
    synthesis = Synthesis()
    request = synthesis.ask(members)
    assert isinstance(request, SynthesisRequest)
    return synthesis.conclude(request, ["the merged answer"], members)


if __name__ == "__main__":
    print(f"{datetime.now().astimezone():%Y-%m-%d %H:%M}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    main()
