"""The third-party script in a page is the pinned file, or the page is not written."""

from __future__ import annotations

import base64
import gzip
import hashlib
from dataclasses import replace
from importlib.resources import files

import pytest

from tests.support.wording import Wording
from vlmhyperbench.errors import Conflict
from vlmhyperbench.reports.writers.vendored import plotly


def test_plotly_is_the_pinned_file_with_its_licence_beside_it() -> None:
    script = plotly()
    content = gzip.decompress(script.compressed)
    assert (script.name, script.version, script.license) == ("plotly.js-cartesian-dist-min", "4.1.1", "MIT")
    assert hashlib.sha256(content).hexdigest() == script.sha256
    assert b"plotly.js (cartesian - minified) v4.1.1" in content[:200]
    assert "MIT License" in (files("vlmhyperbench.reports.writers") / "vendor" / "LICENSE.plotly").read_text()


def test_plotly_needs_no_evaluation_of_text() -> None:
    content = gzip.decompress(plotly().compressed)
    assert b"new Function" not in content
    assert b"eval(" not in content


def test_plotly_costs_a_page_less_than_700_kb() -> None:
    assert len(plotly().base64) < 700_000
    assert base64.b64decode(plotly().base64) == plotly().compressed


@pytest.mark.parametrize(
    "compressed",
    [gzip.compress(b"alert(1)", mtime=0), b"no gzip", b"", plotly().compressed[:-9], plotly().compressed + b"x"],
    ids=["another", "no gzip", "empty", "cut", "longer"],
)
def test_any_other_file_is_refused(compressed: bytes, wording: Wording) -> None:
    with pytest.raises(Conflict) as refused:
        replace(plotly(), compressed=compressed).check()
    wording(refused.value)
