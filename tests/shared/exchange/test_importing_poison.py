"""What is no answer is never imported as one: the table of poison, as bodies of a batch's output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.shared.exchange.reading import answers, write
from tests.support.poison import WHOLE, Outcome, Poison
from vlmhyperbench.errors import InvalidInput


@pytest.mark.parametrize(("name", "poison"), WHOLE.items(), ids=WHOLE)
def test_a_body_becomes_what_the_rule_says(tmp_path: Path, name: str, poison: Poison) -> None:
    line = b'{"custom_id":"a","response":{"status_code":200,"body":' + poison.data + b'},"error":null}\n'
    path = write(tmp_path / "out.jsonl", line)
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        with pytest.raises(InvalidInput):
            answers(path, "openai-batch")
        return
    (answer,) = answers(path, "openai-batch")
    found = (
        Outcome(error="failed")
        if answer.error is not None
        else Outcome(
            text=answer.text or "", prompt_tokens=answer.prompt_tokens, completion_tokens=answer.completion_tokens
        )
    )
    wanted = poison.outcome
    assert found == (Outcome(error="failed") if wanted.error is not None else wanted), name
    if wanted.error == "bad_answer":
        assert str(answer.error).startswith("bad_answer: ")
