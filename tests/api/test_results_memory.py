"""Results state the memory of the accelerators per request, also where a chunk is older than those columns."""

from __future__ import annotations

from pathlib import Path

import polars

from tests.support.builders import chunk_frame
from vlmhyperbench_api.results import _megabytes
from vlmhyperbench_api.samples import _PAYLOAD, _payload_of


def test_a_chunk_of_an_earlier_version_has_no_memory(tmp_path: Path) -> None:
    frame = chunk_frame(["yes"]).with_columns(vram_before_bytes=1, vram_peak_bytes=2)
    frame.write_parquet(tmp_path / "new")
    frame.drop("vram_before_bytes", "vram_peak_bytes").write_parquet(tmp_path / "old")
    read = {name: _payload_of(tmp_path / name, _PAYLOAD).row(0, named=True) for name in ("new", "old")}
    assert (read["new"]["vram_before_bytes"], read["new"]["vram_peak_bytes"]) == (1, 2)
    assert (read["old"]["vram_before_bytes"], read["old"]["vram_peak_bytes"]) == (None, None)
    assert read["old"]["text"] == "yes"
    assert _payload_of(tmp_path / "new", _PAYLOAD).schema["vram_peak_bytes"] != polars.Null


def test_memory_is_unknown_where_one_of_its_values_is() -> None:
    assert _megabytes(5 * 2**20) == 5.0
    assert _megabytes(5 * 2**20, 2**20) == 4.0
    assert (_megabytes(None), _megabytes(5, None), _megabytes(None, 5)) == (None, None, None)
