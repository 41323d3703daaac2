"""The conformance suite of prompt strategies: a sound one passes, and each way to break the contract is caught."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.wording import Wording
from vlmhyperbench_sdk.checks import MAX_PROMPT_CHARS
from vlmhyperbench_sdk.errors import InvalidInput, PluginFailure
from vlmhyperbench_sdk.testing.prompts import check_prompt_strategy
from vlmhyperbench_sdk.types import Prompt, Sample


class Strategy:
    """Renders by the function of a test."""

    def __init__(self, make: Callable[[Sample], object]) -> None:
        self._make = make

    def render(self, sample: Sample) -> Prompt:
        return self._make(sample)


def _kind(sample: Sample) -> Prompt:
    if "doc_class" not in sample.metadata:
        raise InvalidInput("The sample has no doc_class.")
    return Prompt(user=f"{sample.metadata['doc_class']}: {sample.question}")


def _counting() -> Strategy:
    seen: list[str] = []

    def make(sample: Sample) -> Prompt:
        seen.append(sample.key)
        return Prompt(user=f"{len(seen)}. {sample.question}")

    return Strategy(make)


def test_a_strategy_that_keeps_the_contract_passes() -> None:
    check_prompt_strategy(Strategy(lambda sample: Prompt(user=sample.question, system="Be brief.")))


def test_a_strategy_may_refuse_samples_that_lack_what_it_needs_but_not_those_that_its_author_gives(
    wording: Wording,
) -> None:
    check_prompt_strategy(Strategy(_kind))
    with pytest.raises(PluginFailure) as refused:
        check_prompt_strategy(Strategy(_kind), samples=[Sample(key="mine", question="?")])
    wording(refused.value)


def test_a_strategy_whose_prompts_depend_on_what_came_before_fails() -> None:
    with pytest.raises(PluginFailure, match="another order"):
        check_prompt_strategy(_counting())


def _refuses(_: Sample) -> Prompt:
    raise InvalidInput("No.")


@pytest.mark.parametrize(
    "make",
    [
        lambda sample: sample.question,
        lambda _: Prompt(user=None),
        lambda _: Prompt(user="x", system=1),
        lambda _: Prompt(user="\ud800"),
        lambda _: Prompt(user="x" * (MAX_PROMPT_CHARS + 1)),
        lambda sample: Prompt(user=sample.references[0]),
        _refuses,
    ],
)
def test_every_breach_is_named(make: Callable[[Sample], object], wording: Wording) -> None:
    with pytest.raises(PluginFailure) as refused:
        check_prompt_strategy(Strategy(make))
    wording(refused.value)
