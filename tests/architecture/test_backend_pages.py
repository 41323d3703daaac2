"""The table of docs/backends.md is what the adapters answer today."""

from __future__ import annotations

from tests.architecture.backend_pages import FEATURES, PAGE, ROOT, registered, table, takes, written
from vlmhyperbench_simulated.adapter import Simulated

REGEX = FEATURES["`response_format`: `regex`"]


def test_the_page_has_the_table_of_the_adapters() -> None:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    assert table(registered()) in page
    assert page == written(page, registered()), "run `make docs`"


def test_an_adapter_takes_what_it_does_not_refuse() -> None:
    backends = registered()
    assert {name for name, backend in backends.items() if takes(backend, REGEX)} >= {"vllm", "sglang"}
    assert not takes(Simulated(), REGEX)
    assert takes(Simulated(), {"ignore_eos": True})


def test_a_row_says_yes_or_no_of_each_adapter() -> None:
    lines = table({"sim": Simulated(), "vllm": registered()["vllm"]}).splitlines()
    assert lines[0] == "| | sim | vllm |"
    assert "| `response_format`: `regex` | no | yes |" in lines
    assert lines[-1].endswith("| refused | refused |")
