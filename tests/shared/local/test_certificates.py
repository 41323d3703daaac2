from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from vlmhyperbench.errors import Conflict
from vlmhyperbench.local.certificates import Certificates


def _write_garbage(folder: Path) -> None:
    (folder / "ca.key").write_text("no key")


def _take_the_key_of_another(folder: Path) -> None:
    Certificates(folder / "other").prepare({"other"})
    (folder / "ca.key").write_bytes((folder / "other" / "ca.key").read_bytes())


def _write_garbage_for_the_certificate(folder: Path) -> None:
    (folder / "server.pem").write_text("no certificate")


@pytest.mark.parametrize("spoil", [_write_garbage, _take_the_key_of_another, _write_garbage_for_the_certificate])
def test_files_that_the_stack_did_not_make_are_refused(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    certificates = Certificates(tmp_path)
    certificates.prepare({"first"})
    spoil(tmp_path)
    with pytest.raises(Conflict) as refused:
        certificates.prepare({"second"})
    assert refused.value.code == "certificates"
    assert str(tmp_path) in refused.value.message
