"""An API key is looked up by its prefix and verified by an HMAC with a pepper; the secret is never stored."""

import pytest

from vlmhyperbench.domain.api_keys import hmac_of, prefix_of

KEY = "vlmhb12ab_" + "x" * 43


def test_the_prefix_is_what_stands_before_the_secret():
    assert prefix_of(KEY) == "vlmhb12ab"


@pytest.mark.parametrize("text", ["", "vlmhb", "vlmhb_short", "_" + "x" * 43, "a b_" + "x" * 43, KEY + "\n"])
def test_a_text_that_is_not_a_key_has_no_prefix(text):
    assert prefix_of(text) is None


def test_the_stored_hmac_depends_on_key_and_pepper():
    stored = hmac_of(KEY, "pepper")
    assert len(stored) == 64
    assert stored == hmac_of(KEY, "pepper")
    assert len({stored, hmac_of(KEY + "y", "pepper"), hmac_of(KEY, "salt")}) == 3
    assert "x" * 10 not in stored
