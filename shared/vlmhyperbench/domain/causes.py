"""The cause of a failed request: one table of rules over the server's error, and what each of them counts against.

A rule matches the HTTP status, the fields `code`, `type` and `param` of the error body, and the message; the first
matching rule applies. The same error can have two causes: if almost all requests get it, the request's options are
wrong; if few of many get it, their prompts are. So the cause can depend on the share of requests that passed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from vlmhyperbench.domain.failures import UNREADABLE_SAMPLE, Failure

Cause = Literal["configuration", "sample", "model", "infrastructure"]
"""`configuration`: every request of this form is refused; never counts against the model. `sample`: this prompt cannot
be answered; counts. `model`: the answer did not end in time or was too large; counts. `infrastructure`: the server or
the network failed or was busy; never counts."""

MAX_CHARACTERS = 300
"""Maximum length of an error's message that is shown or stored."""
MAX_ERROR = 600
"""Maximum length of a whole error: its code, its message and the fields of its body."""
MIN_PASSED_SHARE = 0.5
"""If a smaller share of the requests passed, a refusal is assumed to concern all requests."""

_BUSY = frozenset({408, 409, 421, 425, 429, 502, 503, 504})
_FIELDS = re.compile(r" \[(?P<words>[a-z]+=[^\]]*)\]$")
_OF_PROMPT = re.compile(r"^(body\.)?(messages|input|prompt|image|content)")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRequest:
    """A failed request, as its request record describes it."""

    code: str
    """Code of the load generator: `http_400`, `timeout`, `connection_lost` …"""
    http_status: int | None
    """Status of the answer; for an error inside a stream, the status that it states, if any."""
    message: str
    """The server's message, bounded and without control characters."""
    words: Mapping[str, str]
    """`code`, `type` and `param` of the error body, those that it had."""

    @property
    def error(self) -> str:
        """The error as text, in the form of request records; `read_failure` reads it."""
        words = ", ".join(f"{name}={word}" for name, word in self.words.items())
        return f"{self.code}: {self.message}" + (f" [{words}]" if words else "")

    @property
    def is_refusal(self) -> bool:
        """Whether a server responded that it refuses the request."""
        return self.code.startswith("http_") or (self.code == "stream_error" and bool(self.words))

    @property
    def rule(self) -> CauseRule:
        """The rule of the table that applies."""
        if self.code in _OF_CODE:
            return _OF_CODE[self.code]
        return next((rule for rule in RULES if self.is_refusal and rule.matches(self)), SERVER_ERROR)

    @property
    def word(self) -> str:
        """The server's own code or type of the error, or else the load generator's code."""
        words = (self.words.get("code", ""), self.words.get("type", ""))
        return next((word for word in words if word and not word.isdigit()), self.code)

    @property
    def statement(self) -> str:
        """A sentence with the status and the server's own message."""
        status = f"HTTP {self.http_status}" if self.http_status else self.code
        return f"It said ({status}): “{self.message}”."

    @property
    def needs_another_probe(self) -> bool:
        """Whether another request has to show if the refusal concerns this request or all of them."""
        return self.rule.cause_where(1.0) != "configuration" and self.rule.if_few_succeed is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseRule:
    """A row of the table. Without `statuses` a rule matches every status from 400 on; without words, every body."""

    name: str
    means: str
    cause: Cause
    """The cause if enough other requests passed."""
    if_few_succeed: Cause | None = None
    """The cause if too few other requests passed; None: the same."""
    few_succeed_below: float = 0.0
    """`if_few_succeed` applies if a smaller share passed; 0: only if none passed."""
    statuses: frozenset[int] = frozenset()
    codes: frozenset[str] = frozenset()
    """Values of the body's `code` or `type`."""
    text: re.Pattern[str] | None = None
    """Searched in the message."""
    names_option: bool = False
    """Matches if the body's `param` is a field of the request other than the prompt."""
    is_final: bool = False
    """It concerns the account: after one such response no request passes any more."""
    cure: str = ""

    def matches(self, failed: FailedRequest) -> bool:
        """Return whether the rule matches a failed request."""
        if self.statuses and failed.http_status not in self.statuses:
            return False
        if not (self.codes or self.text or self.names_option):
            return True
        words = {failed.words.get("code", ""), failed.words.get("type", "")}
        is_named = self.names_option and "param" in failed.words and not _OF_PROMPT.match(failed.words["param"])
        return bool(words & self.codes) or is_named or bool(self.text and self.text.search(failed.message))

    def cause_where(self, passed: float) -> Cause:
        """Return the cause, given the share of requests that passed."""
        few_succeeded = passed < self.few_succeed_below if self.few_succeed_below else passed == 0
        return self.if_few_succeed if self.if_few_succeed is not None and few_succeeded else self.cause


def _text(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


RULES = (
    CauseRule(
        name="key_refused",
        means="the endpoint refuses the key, or requires one",
        cause="configuration",
        statuses=frozenset({401, 407}),
        is_final=True,
        cure="Correct the secret that the target names as its key, then start the run again.",
    ),
    CauseRule(
        name="quota_used_up",
        means="the account has no credit left",
        cause="configuration",
        statuses=frozenset({402, 403, 429}),
        codes=frozenset(
            {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "credit_balance_exhausted"}
        ),
        text=_text(r"exceeded your current quota|insufficient (credit|balance|funds|quota)|payment required"),
        is_final=True,
        cure="Check the plan and the billing of the key's account.",
    ),
    CauseRule(
        name="busy",
        means="the server is busy, not available, or limits the rate",
        cause="infrastructure",
        statuses=_BUSY,
    ),
    CauseRule(
        name="content_refused",
        means="a filter refuses the content of this prompt",
        cause="sample",
        if_few_succeed="configuration",
        codes=frozenset(
            {"content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation", "invalid_prompt"}
        ),
        text=_text(
            r"content[ _](management )?(policy|filter)|flagged as potentially|safety (system|filter)|usage polic"
        ),
    ),
    CauseRule(
        name="output_limit",
        means="max_tokens is larger than the model's maximum output",
        cause="configuration",
        text=_text(r"supports at most \d+ completion tokens|max_tokens=\d+ cannot be greater than max_model_len"),
        cure="Lower max_tokens of the prompt's decoding.",
    ),
    CauseRule(
        name="context_exceeded",
        means="the prompt and the maximum answer exceed the context",
        cause="sample",
        if_few_succeed="configuration",
        codes=frozenset({"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"}),
        text=_text(
            r"context (length|size|window)|longer than the (maximum )?(model|context)|maximum (prompt|input) length"
            r"|too many (input )?tokens|prompt is too long|exceeds? the (maximum )?(number of )?tokens"
        ),
        cure="Start the server with a longer context, or lower max_tokens or the size of the images.",
    ),
    CauseRule(
        name="images_unsupported",
        means="the model, or the server as it was started, does not accept images",
        cause="configuration",
        text=_text(
            r"(image|vision|multimodal)s?( inputs?)? (is|are) not supported|does not support (image|vision|multimodal)"
            r"|only supports? text|not a multimodal model|at most 0 image|unsupported content type 'image"
            r"|image_url is only supported by"
        ),
        cure="Name a model that reads images, or start the server with its vision part (llama.cpp: --mmproj).",
    ),
    CauseRule(
        name="unreadable_image",
        means="the server cannot read an image of this prompt, or accepts fewer images",
        cause="sample",
        if_few_succeed="configuration",
        codes=frozenset({"invalid_image", "invalid_image_format", "invalid_image_url", "image_parse_error"}),
        text=_text(
            r"(fail|cannot|could not|unable|error)[a-z]*( to)? (load|loading|decod|open|process|identify|pars|read)"
            r"[a-z]* .{0,20}image|(invalid|corrupt[a-z]*|unsupported|malformed) image|at most \d+ image"
        ),
        cure="Check whether the server reads this image format; `vlmhyperbench doctor` shows what was sent.",
    ),
    CauseRule(
        name="unknown_model",
        means="the endpoint serves no model of this name",
        cause="configuration",
        codes=frozenset({"model_not_found", "model_not_available"}),
        text=_text(
            r"model\b.{0,200}\b(does not exist|not found|is not (available|served|loaded))"
            r"|(unknown|no such|invalid) model|server is pinned to"
        ),
        cure="Correct the model's name; GET /v1/models of the endpoint lists the models that it serves.",
    ),
    CauseRule(
        name="unknown_field",
        means="the endpoint does not know a field of the request, or does not accept it for this model",
        cause="configuration",
        codes=frozenset({"unsupported_parameter", "unknown_parameter", "extra_forbidden", "unsupported_value"}),
        text=_text(
            r"unsupported (parameter|value)|(unknown|unexpected|unrecognized|unrecognised) (request )?"
            r"(field|argument|parameter|keyword)|extra inputs are not permitted|not supported (with|by|for) this model"
        ),
        cure="Leave it out with omit (--omit FIELD), or rename it with max_tokens_field (--max-tokens-field NAME).",
    ),
    CauseRule(
        name="unsupported_format",
        means="the endpoint does not accept this response_format, or its schema",
        cause="configuration",
        codes=frozenset({"invalid_json_schema"}),
        text=_text(r"response_?format|json[ _]schema|\bgrammar\b|structured output|guided[ _]decoding"),
        cure="Correct the task's response_format, or leave it out.",
    ),
    CauseRule(
        name="option_refused",
        means="the endpoint refuses an option of the request by its name",
        cause="configuration",
        names_option=True,
        text=_text(
            r"^field '(?!messages)|'loc': \('body', '(?!messages)"
            r"|^(temperature|(top|min)_[pk]|[a-z]+_penalty|(max|min)(_[a-z]+)?_tokens|logit_bias|([a-z]+_)?seed) must "
        ),
        cure="Correct that option of the decoding, or leave it out.",
    ),
    CauseRule(
        name="wrong_address",
        means="the path does not exist on the endpoint",
        cause="infrastructure",
        if_few_succeed="configuration",
        few_succeed_below=MIN_PASSED_SHARE,
        statuses=frozenset({404, 405, 410, 501}),
        cure="Correct the endpoint's URL: it ends with /v1 where the server has /v1/chat/completions.",
    ),
    CauseRule(
        name="forbidden",
        means="the endpoint forbids the request: the key lacks a permission, or a filter refuses it",
        cause="infrastructure",
        if_few_succeed="configuration",
        few_succeed_below=MIN_PASSED_SHARE,
        statuses=frozenset({403}),
        cure="Check the permissions of the key; if the target has no key, name one.",
    ),
    CauseRule(
        name="refused",
        means="any other refusal that does not show that the prompt is the cause",
        cause="infrastructure",
        if_few_succeed="configuration",
        few_succeed_below=MIN_PASSED_SHARE,
        statuses=frozenset(range(400, 500)),
        cure="Correct the target, or the options of the run, as the endpoint's message says.",
    ),
)
"""The table; the first matching rule applies."""

SERVER_ERROR = CauseRule(name="server_error", means="the server failed, or the network did", cause="infrastructure")
"""Applies to an error that no rule matches."""
NOT_ENDED = CauseRule(name="not_ended", means="the answer did not end in time, or was too large", cause="model")
UNREADABLE = CauseRule(
    name=UNREADABLE_SAMPLE, means="the sample cannot be read, so nothing was sent", cause="infrastructure"
)
BAD_ANSWER = CauseRule(
    name="bad_answer",
    means="the server's response is not an answer by the protocol",
    cause="infrastructure",
    cure="docs/answers.md says what counts as an answer; correct the server.",
)
_OF_CODE = {
    "timeout": NOT_ENDED,
    "answer_too_large": NOT_ENDED,
    UNREADABLE_SAMPLE: UNREADABLE,
    "bad_answer": BAD_ANSWER,
}


def read_failure(*, status: str, http_status: int | None, error: str | None) -> FailedRequest | None:
    """Read the record of one request; None if its status is `ok`.

    Args:
        status: `ok`, `error` or `timeout`, as in the request record.
        http_status: status of the response, or None without a response.
        error: `code: message [code=…, type=…, param=…]` of the request record.
    """
    if status == "ok":
        return None
    code, _, text = (error or "").partition(":")
    return _read(code="timeout" if status == "timeout" else code or "unknown", http_status=http_status, text=text)


def read_row(*, error_code: str | None, http_status: int | None, error: str | None) -> FailedRequest:
    """Read a stored row of a failed request; the error of an imported row can have any form."""
    code = error_code or "unknown"
    return _read(code=code, http_status=http_status, text=(error or "").removeprefix(f"{code}:"))


def _read(*, code: str, http_status: int | None, text: str) -> FailedRequest:
    fields = _FIELDS.search(text)
    words = dict(word.partition("=")[::2] for word in fields["words"].split(", ")) if fields else {}
    if http_status is None or http_status < 400:
        http_status = int(words["code"]) if re.fullmatch("[45][0-9]{2}", words.get("code", "")) else None
    message = clean(text[: fields.start()] if fields else text)
    return FailedRequest(code=code, http_status=http_status, message=message, words=words)


def failure_of(failed: FailedRequest, *, passed: float = 1.0) -> Failure:
    """Return whether a failure counts against the model, given the share of requests that passed."""
    return "model" if failed.rule.cause_where(passed) in {"sample", "model"} else "infrastructure"


def find_configuration_error(failures: Iterable[tuple[FailedRequest, int]], *, ok: int) -> FailedRequest | None:
    """Return a refusal that shows that the run is misconfigured, so that its scores mean nothing; None without one.

    Such a refusal has the cause `configuration`, and more requests got it than were answered.

    Args:
        failures: failed requests, with the number of requests of each; the first one of a rule is returned for it.
        ok: number of answered requests.
    """
    counts: dict[str, int] = {}
    first: dict[str, FailedRequest] = {}
    for failed, count in failures:
        name = failed.rule.name
        counts[name] = counts.get(name, 0) + count
        first.setdefault(name, failed)
    for name in sorted(counts, key=counts.__getitem__, reverse=True):
        passed = ok / (ok + counts[name])
        if passed < MIN_PASSED_SHARE and first[name].rule.cause_where(passed) == "configuration":
            return first[name]
    return None


def find_refusal_of_all(probes: Sequence[FailedRequest]) -> FailedRequest | None:
    """Return the refusal that every request of a run would get, judging by its probes; None if they do not show it.

    Args:
        probes: failures of the requests that were sent before the samples, in order; none of them was answered.
    """
    rules = [failed.rule for failed in probes]
    for failed, rule in zip(probes, rules, strict=True):
        if rule.cause_where(1.0) == "configuration":
            return failed
    is_of_all = all(rule.if_few_succeed is not None and rule.few_succeed_below == MIN_PASSED_SHARE for rule in rules)
    return probes[0] if probes and is_of_all else None


def clean(text: str, *, limit: int = MAX_CHARACTERS) -> str:
    """Return a server's message as one bounded line without control characters."""
    shown = "".join(" " if unicodedata.category(character)[0] in "CZ" else character for character in text)
    line = " ".join(shown.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
