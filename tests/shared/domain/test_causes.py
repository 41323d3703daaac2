"""The table of causes, against answers of real servers."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.loadgen.driving import chat_body, drive, respond, serving
from tests.refusals import Refusal, refusals
from vlmhyperbench.domain.causes import (
    BAD_ANSWER,
    MAX_CHARACTERS,
    NOT_ENDED,
    RULES,
    SERVER_ERROR,
    UNREADABLE,
    FailedRequest,
    clean,
    failure_of,
    find_configuration_error,
    find_refusal_of_all,
    read_failure,
)

ROOT = Path(__file__).parents[3]
OTHERS_PASS, NONE_PASSES = 1.0, 0.0


def failed(error: str, http_status: int | None = 400, status: str = "error") -> FailedRequest:
    result = read_failure(status=status, http_status=http_status, error=error)
    assert result is not None
    return result


UNKNOWN_MODEL = failed("http_404: no such model [code=model_not_found]", 404)
NOT_THERE = failed("http_404: Not Found", 404)
UNKNOWN_REFUSAL = failed("http_400: this cannot be")
TOO_LONG = failed("http_400: too long [code=context_length_exceeded]")
FILTERED = failed("http_400: filtered [code=content_filter]")
KEY = failed("http_401: Unauthorized", 401)
BUSY = failed("http_503: later", 503)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], FailedRequest]:
    """Return each answer as the load generator records it and a worker reads it."""

    async def ask() -> dict[tuple[str, str], FailedRequest]:
        sent = refusals()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int) -> None:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: *(\d+)", head)
                asked = re.search(rb"question (\d+)", await reader.readexactly(int(length[1]) if length else 0))
                refused = sent[int(asked[1]) if asked else 0]
                kind = "text/event-stream" if refused.http_status == 200 else "application/json"
                writer.write(respond(refused.body.encode(), status=f"{refused.http_status} Said", media_type=kind))

        async with serving(answer) as url:
            folder = tmp_path_factory.mktemp("load")
            driven = await drive(folder, url, bodies=[chat_body(number) for number in range(len(sent))])
        return {
            (refused.server, refused.case): failed(row["error"], row["http_status"], row["status"])
            for refused, row in zip(sent, driven.rows, strict=True)
        }

    return asyncio.run(ask())


@pytest.mark.parametrize("refused", refusals(), ids=lambda refused: f"{refused.server}, {refused.case}")
def test_the_table_gives_the_expected_rule_for_each_recorded_answer(
    recorded: dict[tuple[str, str], FailedRequest], refused: Refusal
) -> None:
    rule = recorded[refused.server, refused.case].rule
    assert (rule.name, rule.cause_where(OTHERS_PASS), rule.cause_where(NONE_PASSES)) == (
        refused.rule,
        refused.cause,
        refused.alone,
    )
    # The stored error can be read again with the same result.
    again = recorded[refused.server, refused.case]
    assert failed(again.error, again.http_status) == again


def test_every_kind_of_server_is_recorded_or_documented() -> None:
    recorded_of = {refused.server for refused in refusals() if refused.source == "recorded"}
    documented = {refused.server for refused in refusals() if refused.source != "recorded"}
    assert recorded_of == {"vLLM", "transformers serve", "llama.cpp", "SGLang"}
    assert documented == {"OpenAI", "Azure OpenAI"}


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        ("temperature must be a non-negative finite number, got -3.0.", "option_refused"),
        ("top_p must be in (0, 1], got 3.0.", "option_refused"),
        ("top_k must be -1 (disable) or at least 1, got -5.", "option_refused"),
        ("min_p must be in [0, 1], got 3.0.", "option_refused"),
        ("frequency_penalty must be in [-2, 2], got 9.0.", "option_refused"),
        ("max_new_tokens must be at least 0, got -1.", "option_refused"),
        ("logit_bias must has keys in [0, 266], got 99999.", "option_refused"),
        ("sampling_seed must be an integer, got str.", "option_refused"),
        ("messages must be a list.", "refused"),
        ("prompt_tokens must be fewer.", "refused"),
        ("The temperature of this image must be measured.", "refused"),
    ],
)
def test_a_refusal_names_an_option_if_its_message_begins_with_the_option(message: str, rule: str) -> None:
    assert failed(f"http_400: {message} [code=400, type=BadRequestError]").rule.name == rule


def test_docs_failures_has_the_table_in_its_order() -> None:
    page = (ROOT / "docs" / "failures.md").read_text(encoding="utf-8")
    table = page.partition("## The table\n")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    rules = [*RULES, NOT_ENDED, UNREADABLE, BAD_ANSWER, SERVER_ERROR]
    assert rows == [
        f"| `{rule.name}` | {rule.means} | {rule.cause} | {rule.if_few_succeed or rule.cause} |" for rule in rules
    ]


def test_an_ok_request_is_not_a_failure() -> None:
    assert read_failure(status="ok", http_status=200, error=None) is None


@pytest.mark.parametrize(
    ("error", "http_status", "failure"),
    [
        ("http_400: the prompt is too long", 400, "model"),
        ("http_400: no", 400, "infrastructure"),
        ("http_413: too large", 413, "infrastructure"),
        ("http_401: no", 401, "infrastructure"),
        ("http_403: no", 403, "infrastructure"),
        ("http_404: Not Found", 404, "infrastructure"),
        ("http_429: slow down", 429, "infrastructure"),
        ("http_500: oops", 500, "infrastructure"),
        ("connect_failed: refused", None, "infrastructure"),
        ("connection_lost: while a refusal came", 400, "infrastructure"),
        ("incomplete_stream: no end", 200, "infrastructure"),
        ("stream_error: no memory", 200, "infrastructure"),
        ("stream_error: full [code=500]", 200, "infrastructure"),
        ("bad_answer: its content is no text: {}", 200, "infrastructure"),
        ("answer_too_large: 8 MiB", 200, "model"),
        ("unreadable_sample: no image", None, "infrastructure"),
        ("", None, "infrastructure"),
    ],
)
def test_which_failures_count_against_the_model_if_others_pass(
    error: str, http_status: int | None, failure: str
) -> None:
    assert failure_of(failed(error, http_status)) == failure


def test_a_generation_that_takes_too_long_counts_against_the_model() -> None:
    slow = failed("timeout: 300 s", None, status="timeout")
    assert (slow.code, failure_of(slow, passed=0.0)) == ("timeout", "model")


@pytest.mark.parametrize("passed", [0.0, 0.49, 0.5, 1.0])
def test_a_refusal_that_does_not_name_the_prompt_never_counts_against_the_model(passed: float) -> None:
    assert failure_of(UNKNOWN_REFUSAL, passed=passed) == "infrastructure"


@pytest.mark.parametrize("prompt_error", [TOO_LONG, FILTERED], ids=["too long", "filtered"])
@pytest.mark.parametrize(("passed", "failure"), [(0.0, "infrastructure"), (0.01, "model")])
def test_a_refusal_that_names_the_prompt_has_the_cause_sample_if_others_pass(
    prompt_error: FailedRequest, passed: float, failure: str
) -> None:
    assert failure_of(prompt_error, passed=passed) == failure


@pytest.mark.parametrize(
    ("failures", "ok", "refusal"),
    [
        ([], 10, None),
        ([(UNKNOWN_MODEL, 6)], 5, UNKNOWN_MODEL),
        ([(UNKNOWN_MODEL, 5)], 5, None),
        ([(UNKNOWN_REFUSAL, 10)], 0, UNKNOWN_REFUSAL),
        ([(UNKNOWN_REFUSAL, 4), (failed("http_422: neither"), 2)], 5, UNKNOWN_REFUSAL),
        ([(UNKNOWN_REFUSAL, 1)], 9, None),
        ([(TOO_LONG, 10)], 0, TOO_LONG),
        ([(TOO_LONG, 9)], 1, None),
        ([(FILTERED, 10)], 0, FILTERED),
        ([(FILTERED, 9)], 1, None),
        ([(BUSY, 10)], 0, None),
        ([(BUSY, 10), (KEY, 2)], 0, KEY),
        ([(UNKNOWN_REFUSAL, 2), (KEY, 3)], 0, KEY),
    ],
)
def test_a_run_is_misconfigured_if_more_requests_get_one_refusal_than_are_answered(
    failures: list[tuple[FailedRequest, int]], ok: int, refusal: FailedRequest | None
) -> None:
    assert find_configuration_error(failures, ok=ok) == refusal


@pytest.mark.parametrize(
    ("refusal", "asks_on"),
    [(UNKNOWN_MODEL, False), (KEY, False), (BUSY, False), (TOO_LONG, True), (FILTERED, True), (UNKNOWN_REFUSAL, True)],
)
def test_another_probe_is_needed_if_a_refusal_may_concern_only_its_prompt(
    refusal: FailedRequest, asks_on: bool
) -> None:
    assert refusal.needs_another_probe is asks_on


@pytest.mark.parametrize(
    ("probes", "refusal"),
    [
        ([], None),
        ([UNKNOWN_MODEL], UNKNOWN_MODEL),
        ([TOO_LONG, UNKNOWN_MODEL], UNKNOWN_MODEL),
        ([BUSY], None),
        ([UNKNOWN_REFUSAL, BUSY], None),
        ([UNKNOWN_REFUSAL], UNKNOWN_REFUSAL),
        ([UNKNOWN_REFUSAL, NOT_THERE], UNKNOWN_REFUSAL),
        ([TOO_LONG, TOO_LONG], None),
        ([UNKNOWN_REFUSAL, FILTERED], None),
    ],
)
def test_probes_show_a_refusal_of_all_requests_if_none_may_concern_only_its_prompt(
    probes: list[FailedRequest], refusal: FailedRequest | None
) -> None:
    assert find_refusal_of_all(probes) == refusal


def test_the_server_s_own_code_is_used_if_it_has_one() -> None:
    assert UNKNOWN_MODEL.word == "model_not_found"
    assert failed("http_404: gone [code=404, type=NotFoundError]", 404).word == "NotFoundError"
    assert KEY.word == "http_401"


def test_the_statement_of_a_failure_has_the_status_or_the_code_and_the_server_s_message() -> None:
    assert UNKNOWN_MODEL.statement == f"It said (HTTP 404): “{UNKNOWN_MODEL.message}”."
    assert failed("stream_error: odd [type=x]", 200).statement == "It said (stream_error): “odd”."


def test_a_server_s_message_becomes_one_bounded_line_without_control_characters() -> None:
    assert clean("a\x1b[31m\r\n\tb\u202e\ud800c") == "a [31m b c"
    long = clean("x" * 1000)
    assert (len(long), long[-1]) == (MAX_CHARACTERS, "…")


def test_a_message_that_ends_like_words_of_an_error_is_read_once() -> None:
    result = failed("http_400: see [code=fake] [code=real, param=model]")
    assert (result.message, result.words) == ("see [code=fake]", {"code": "real", "param": "model"})
