"""Prompts are rendered in bounded time and memory, whatever the template."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.processes import PATIENCE_S
from vlmhyperbench.bounded import ChildBounds
from vlmhyperbench.data.manifest import ManifestSample
from vlmhyperbench.data.rendering import render_prompts
from vlmhyperbench.domain.prompts import is_linear
from vlmhyperbench.domain.specs import PromptSpec
from vlmhyperbench.errors import InvalidInput

pytestmark = pytest.mark.anyio
SMALL = ChildBounds(memory_bytes=256 * 1024**2, cpu_s=2, wall_s=10 * PATIENCE_S)


def _prompt(user: str, **fields: Any) -> PromptSpec:
    return PromptSpec(name="p", version="1.0.0", user_prompt=user, **fields)


def _samples(*questions: str) -> Sequence[ManifestSample]:
    return [
        ManifestSample(index=no, key=str(no), question=question, metadata={"words": ["a", "b"], "at": no})
        for no, question in enumerate(questions)
    ]


async def test_a_template_with_a_loop_is_rendered_like_one_without_in_the_order_of_the_samples() -> None:
    spec = _prompt(
        "{% for w in metadata.words %}{{ w }}{% endfor %} {{ question }} {{ metadata.at }}", system_prompt="é"
    )
    assert not is_linear(spec)
    prompts = await render_prompts(spec, _samples("x", "y\nz", "\N{SNOWMAN}"))
    assert [prompt.user for prompt in prompts] == ["ab x 0", "ab y\nz 1", "ab \N{SNOWMAN} 2"]
    assert {prompt.system for prompt in prompts} == {"é"}
    assert await render_prompts(spec, []) == []


async def test_a_linear_template_is_rendered_without_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("vlmhyperbench.data.rendering.run_bounded", refuse)
    [prompt] = await render_prompts(_prompt("{{ question | upper }}"), _samples("x"))
    assert prompt.user == "X"


@pytest.mark.parametrize(
    "template",
    [
        "{{ '\"' " + "| tojson " * 60 + "}}",
        "{{ metadata.words " + "| string | list " * 30 + "}}",
        "{{ [" + "question, " * 500 + "] | tojson | length }}",
        "{{ 1 | round(1000000000, 'ceil') }}",
        "{% for a in question %}{% if question | list | sort | unique | list | length == 0 %}{% endif %}{% endfor %}",
    ],
)
async def test_a_template_that_never_ends_or_needs_all_memory_is_refused_in_time(template: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        async with asyncio.timeout(PATIENCE_S):
            await render_prompts(_prompt(template), _samples("x" * 1_000_000), bounds=SMALL)
    assert (raised.value.code, bool(raised.value.cure)) == ("prompt", True)


async def test_a_field_that_a_sample_lacks_is_named_by_the_child_too() -> None:
    spec = _prompt("{% for w in metadata.wrds %}{% endfor %}")
    with pytest.raises(InvalidInput, match="'words'") as raised:
        await render_prompts(spec, _samples("x"))
    assert raised.value.code == "prompt"
