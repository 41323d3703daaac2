"""Whose fault a failed request is."""

import pytest
from vlmhyperbench.domain.failures import classify


def verdict(status, http_status):
    found = classify(status=status, http_status=http_status)
    return found and (found.failure, found.code)


def test_an_answer_is_no_failure():
    assert verdict("ok", 200) is None


@pytest.mark.parametrize("status", [400, 413, 415, 422])
def test_a_refused_request_counts_against_the_model(status):
    assert verdict("error", status) == ("model", f"http_{status}")


@pytest.mark.parametrize("status", [401, 403, 404, 408, 409, 429, 500, 502, 503, 507])
def test_a_wrong_key_a_busy_or_a_broken_server_never_counts_against_the_model(status):
    assert verdict("error", status) == ("infrastructure", f"http_{status}")


def test_a_generation_that_takes_too_long_counts_against_the_model():
    assert verdict("timeout", None) == ("model", "timeout")


def test_a_lost_connection_never_counts_against_the_model():
    assert verdict("error", None) == ("infrastructure", "connection")


def test_an_answer_that_breaks_off_is_the_infrastructure_s():
    assert verdict("error", 200) == ("infrastructure", "broken_answer")
