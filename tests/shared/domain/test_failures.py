"""Whose fault a failed request is."""

import pytest

from vlmhyperbench.domain.failures import classify


def verdict(status, http_status, error=None):
    found = classify(status=status, http_status=http_status, error=error)
    return found and (found.failure, found.code)


def test_an_answer_is_no_failure():
    assert verdict("ok", 200) is None


@pytest.mark.parametrize("status", [400, 413, 415, 422])
def test_a_refused_request_counts_against_the_model(status):
    assert verdict("error", status, f"http_{status}: too long") == ("model", f"http_{status}")


@pytest.mark.parametrize("status", [401, 403, 404, 408, 409, 429, 500, 502, 503, 507])
def test_a_wrong_key_a_busy_or_a_broken_server_never_counts_against_the_model(status):
    assert verdict("error", status, f"http_{status}: no") == ("infrastructure", f"http_{status}")


def test_a_generation_that_takes_too_long_counts_against_the_model():
    assert verdict("timeout", None, "timeout: 300 s") == ("model", "timeout")


def test_an_answer_without_end_counts_against_the_model():
    assert verdict("error", 200, "answer_too_large: 8 MiB") == ("model", "answer_too_large")


@pytest.mark.parametrize("code", ["connect_failed", "connection_lost"])
def test_a_lost_connection_never_counts_against_the_model(code):
    assert verdict("error", None, f"{code}: refused") == ("infrastructure", code)


def test_an_answer_that_breaks_off_is_the_infrastructure_s():
    assert verdict("error", 200, "incomplete_stream: no end") == ("infrastructure", "incomplete_stream")


def test_an_error_without_a_word_is_the_infrastructure_s():
    assert verdict("error", None) == ("infrastructure", "unknown")


@pytest.mark.parametrize("code", ["bad_answer", "stream_error"])
def test_an_answer_that_breaks_the_protocol_is_never_the_models_empty_answer(code):
    assert verdict("error", 200, f"{code}: its content is no text: {{}}") == ("infrastructure", code)
