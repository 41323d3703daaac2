"""Outputs of the OpenAI Batch API: three kinds of bodies, failures, and the input that says what was asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared.exchange.reading import answers, taken, write_lines
from tests.support.wording import Wording
from vlmhyperbench.errors import InvalidInput


def line(key: str = "a", body: object = None, **changes: object) -> dict[str, object]:
    """Make one line of an output."""
    response = {"status_code": 200, "request_id": "r", "body": chat("blue") if body is None else body}
    return {"id": "batch_req_1", "custom_id": key, "response": response, "error": None, **changes}


def chat(*contents: object, **message: object) -> dict[str, object]:
    """Make a body of chat completions, a choice per content."""
    choices = [
        {"index": no, "finish_reason": "stop", "message": {"role": "assistant", "content": content, **message}}
        for no, content in enumerate(contents)
    ]
    usage = {"prompt_tokens": 20, "completion_tokens": 2, "total_tokens": 22}
    return {"object": "chat.completion", "model": "tiny-1", "choices": choices, "usage": usage}


def request(key: str, content: object, **body: object) -> dict[str, object]:
    """Make one line of an input."""
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": content}]
    return {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": {"messages": messages, **body}}


def test_an_answer_is_read_with_its_usage(tmp_path: Path) -> None:
    file, (answer,) = taken(write_lines(tmp_path / "a", line()))
    assert (file.format, file.tool, file.model, file.task, file.decoding) == ("openai-batch", None, "tiny-1", None, {})
    assert (answer.key, answer.repeat, answer.text, answer.finish_reason) == ("a", 0, "blue", "stop")
    assert (answer.prompt_tokens, answer.completion_tokens, answer.latency_ms) == (20, 2, None)
    assert (answer.question, answer.references, answer.reported) == (None, None, {})


def test_several_choices_are_repeats_whose_tokens_nobody_counted_apart(tmp_path: Path) -> None:
    found = answers(write_lines(tmp_path / "a", line(body=chat("blue", "red"))))
    assert [(answer.repeat, answer.text, answer.completion_tokens) for answer in found] == [
        (0, "blue", None),
        (1, "red", None),
    ]


@pytest.mark.parametrize(
    ("body", "text", "reasoning", "finish"),
    [
        (chat(None), "", None, "stop"),
        (chat(None, refusal="I cannot."), "I cannot.", None, "stop"),
        (chat("4", reasoning_content="2 and 2"), "4", "2 and 2", "stop"),
        ({"choices": [{"text": " blue", "index": 0, "finish_reason": "length"}]}, " blue", None, "length"),
        ({"choices": [{"message": {"content": "x"}, "finish_reason": "function_call"}]}, "x", None, "tool_calls"),
        (
            {
                "object": "response",
                "status": "completed",
                "output": [
                    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "2 and 2"}]},
                    {"type": "message", "content": [{"type": "output_text", "text": "4"}]},
                ],
            },
            *("4", "2 and 2", "stop"),
        ),
        (
            {
                "object": "response",
                "status": "incomplete",
                "incomplete_details": {"reason": "max_output_tokens"},
                "output": [{"type": "message", "content": [{"type": "output_text", "text": "fou"}]}],
            },
            *("fou", None, "length"),
        ),
    ],
)
def test_every_kind_of_body_is_read(
    tmp_path: Path, body: object, text: str, reasoning: str | None, finish: str
) -> None:
    (answer,) = answers(write_lines(tmp_path / "a", line(body=body)))
    assert (answer.text, answer.reasoning, answer.finish_reason, answer.error) == (text, reasoning, finish, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"response": None, "error": {"code": "batch_expired", "message": "It was too late."}},
        {"response": {"status_code": 429, "body": {"error": {"message": "Too many.", "code": None}}}},
        {"response": {"status_code": 400, "body": {"object": "error", "message": "Bad.", "code": 400}}},
        {"response": {"status_code": 500, "body": None}},
        {"response": None},
        {
            "response": {
                "status_code": 200,
                "body": {"object": "response", "status": "failed", "error": {"message": "m"}},
            }
        },
        {"response": {"body": {"object": "response", "status": "cancelled"}}},
    ],
    ids=["error", "too many", "bad", "empty", "neither", "failed", "cancelled"],
)
def test_a_request_that_failed_has_the_reason(tmp_path: Path, changes: dict[str, object], wording: Wording) -> None:
    (answer,) = answers(write_lines(tmp_path / "a", line(**changes)))
    assert answer.text is None
    wording(answer.error)


def test_the_input_has_questions_decoding_and_requests_without_an_answer(tmp_path: Path, wording: Wording) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    asked = write_lines(
        tmp_path / "in",
        request("a", "What colour?", model="tiny", temperature=0.2, max_completion_tokens=9, stop="\n"),
        request("b", [picture, {"type": "text", "text": "And this?"}]),
    )
    file, found = taken(write_lines(tmp_path / "out", line("a")), requests=asked)
    assert file.decoding == {"temperature": 0.2, "max_tokens": 9, "stop": ["\n"]}
    assert file.model == "tiny-1"
    assert [(answer.key, answer.question, answer.text) for answer in found] == [
        ("a", "What colour?", "blue"),
        ("b", "And this?", None),
    ]
    assert found[0].error is None
    wording(found[1].error)


def test_an_input_of_another_batch_is_refused(tmp_path: Path, wording: Wording) -> None:
    out = write_lines(tmp_path / "out", line("a"))
    with pytest.raises(InvalidInput) as refused:
        answers(out, requests=write_lines(tmp_path / "in", request("b", "?")))
    wording(refused.value)
    with pytest.raises(InvalidInput, match="comes twice"):
        answers(out, requests=write_lines(tmp_path / "in", request("a", "?"), request("a", "?")))
    with pytest.raises(InvalidInput) as refused:
        answers(out, requests=out)
    wording(refused.value)


@pytest.mark.parametrize(
    "row",
    [
        line(body={"object": "list", "data": [{"embedding": [0.1]}]}),
        {"response": {}},
        {**line(), "custom_id": 7},
        line("first"),
    ],
)
def test_a_line_that_makes_no_sense_is_named(tmp_path: Path, row: dict[str, object], wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        answers(write_lines(tmp_path / "out", line("first"), row))
    wording(refused.value)
    assert f"{tmp_path / 'out'}:2: " in refused.value.message


def test_the_input_says_how_many_choices_are_answers(tmp_path: Path) -> None:
    out = write_lines(tmp_path / "out", line("a", chat("blue", "red")), line("b", chat("blue", "red")))
    asked = write_lines(tmp_path / "in", request("a", "?"), request("b", "?", n=2))
    assert [(answer.key, answer.repeat, answer.text) for answer in answers(out, requests=asked)] == [
        ("a", 0, "blue"),
        ("b", 0, "blue"),
        ("b", 1, "red"),
    ]


@pytest.mark.parametrize(
    "body",
    [
        {"object": "response", "status": "completed", "output": 5},
        {"object": "response", "status": "completed", "output": []},
        {"object": "response", "status": "completed", "output": ["4"]},
        {"object": "response", "status": "completed", "output": [{"type": "message", "content": "4"}]},
        {"object": "response", "status": "completed", "output": [{"type": "message", "content": [{"text": 4}]}]},
    ],
)
def test_a_response_that_breaks_its_form_is_a_failed_request(tmp_path: Path, body: object) -> None:
    (answer,) = answers(write_lines(tmp_path / "a", line(body=body)))
    assert (answer.text, str(answer.error).partition(":")[0]) == (None, "bad_answer")


def test_several_models_are_noted(tmp_path: Path, wording: Wording) -> None:
    other = {**chat("red"), "model": "tiny-2"}
    wording("\n".join(taken(write_lines(tmp_path / "a", line("a"), line("b", other)))[0].notes))
