"""The error for a missing library names the extra that installs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from vlmhyperbench.cli.main import main
from vlmhyperbench.client.tables import MetricRow, Rows
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.extras import extra_of, needed_for


@pytest.mark.parametrize(
    ("library", "extra"),
    [
        ("polars", "data"),
        ("PIL", "data"),
        ("httpx2", "client"),
        ("pydantic_settings", "platform"),
        ("re2", "scoring"),
        ("vlmhyperbench_loadgen", "load"),
        ("matplotlib", "reports"),
        ("no_such_library", None),
    ],
)
def test_the_extra_of_a_library_is_found(library: str, extra: str | None) -> None:
    assert extra_of(library) == extra


def test_without_polars_the_error_of_a_table_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    rows: Rows[MetricRow] = Rows([])
    with pytest.raises(Unavailable) as refused:
        rows.to_polars()
    assert (refused.value.code, refused.value.cure) == ("not_installed", "pip install 'vlmhyperbench[data]'")
    assert rows.to_dicts() == []


def test_for_a_library_without_an_extra_the_extra_embedded_is_named() -> None:
    with pytest.raises(Unavailable) as refused, needed_for("it"):
        import no_such_library  # noqa: F401 -- there is none
    assert "no_such_library" in refused.value.message
    assert refused.value.cure == "pip install 'vlmhyperbench[embedded]'"


def test_the_error_of_a_command_without_its_library_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "vlmhyperbench.cli.doctor", None)
    monkeypatch.setattr(
        "importlib.import_module", lambda _: (_ for _ in ()).throw(ModuleNotFoundError("no", name="pgserver.pg"))
    )
    assert main(["doctor"]) == 3
    assert "pip install 'vlmhyperbench[embedded]'" in capsys.readouterr().err


def test_the_error_of_the_client_without_its_libraries_names_the_extra() -> None:
    code = "import sys; sys.modules['httpx2'] = None; import vlmhyperbench.client"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'vlmhyperbench[client]'" in done.stderr
