"""The golden file of sentences: it refuses others, and holds none that no test reads."""

import ast
from pathlib import Path

import pytest

from tests.support.wording import Sentences, read_golden
from vlmhyperbench.errors import NotFound

ROOT = Path(__file__).parents[2]


def functions(path):
    """Names of the functions of a file of tests."""
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if hasattr(node, "args") and hasattr(node, "name")
    }


def test_another_sentence_fails():
    sentences = Sentences(["NotFound not_found: No run TMP. List them.", "second"], {"TMP": "/tmp/x"})
    sentences.check(NotFound("No run /tmp/x.", cure="List them."))
    with pytest.raises(AssertionError):
        sentences.check_all_read()
    with pytest.raises(AssertionError):
        sentences.check("other")
    with pytest.raises(AssertionError):
        sentences.check("a third")


def test_every_sentence_is_read_by_a_test():
    files = {test.partition("::")[0] for test in read_golden()}
    known = {file: functions(ROOT / file) for file in files}
    assert [t for t in read_golden() if t.partition("::")[2].partition("[")[0] not in known[t.partition("::")[0]]] == []
