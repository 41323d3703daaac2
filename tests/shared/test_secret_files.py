"""Secrets are read from 0600 files by name; all other files are refused with a cure."""

from pathlib import Path

import pytest

from vlmhyperbench.secret_files import read_secrets
from vlmhyperbench_sdk.errors import InvalidInput, NotFound


def write(folder, name, text, mode=0o600):
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_secret_is_the_one_line_of_its_file(tmp_path):
    write(tmp_path, "openai", "sk-abc\n")
    assert read_secrets(tmp_path, ["openai"]) == {"openai": "sk-abc"}


def test_a_missing_secret_names_the_file_to_write(tmp_path):
    with pytest.raises(NotFound, match=str(tmp_path / "nobody")):
        read_secrets(tmp_path, ["nobody"])


def test_a_secret_that_other_users_may_read_is_refused(tmp_path):
    write(tmp_path, "open", "x", mode=0o644)
    with pytest.raises(InvalidInput, match="chmod 600"):
        read_secrets(tmp_path, ["open"])


def test_a_path_is_refused_as_a_name(tmp_path):
    with pytest.raises(InvalidInput, match="etc/passwd"):
        read_secrets(tmp_path, ["../etc/passwd"])


def test_a_link_is_refused(tmp_path):
    write(tmp_path, "real", "x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(InvalidInput):
        read_secrets(tmp_path, ["link"])


@pytest.mark.parametrize("text", ["", "  \n", "two\nlines", "tab\there"])
def test_a_value_that_cannot_be_in_a_header_is_refused(tmp_path, text):
    write(tmp_path, "bad", text)
    with pytest.raises(InvalidInput, match="control characters"):
        read_secrets(tmp_path, ["bad"])


def test_a_secret_that_is_not_utf8_is_refused_without_its_value(tmp_path: Path) -> None:
    (tmp_path / "KEY").write_bytes(b"\xff\xfesecret")
    (tmp_path / "KEY").chmod(0o600)
    with pytest.raises(InvalidInput, match="not UTF-8") as raised:
        read_secrets(tmp_path, ["KEY"])
    assert raised.value.cure
    assert "secret" not in raised.value.message.replace("The secret 'KEY'", "")
