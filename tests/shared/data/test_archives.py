"""Archives as datasets: read like folders, and refused whole where they hold what could do harm."""

from __future__ import annotations

import hashlib
import io
import random
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from vlmhyperbench.data.archives import FREE_BYTES, Bounds, unpacked
from vlmhyperbench.data.datasets import on_this_machine
from vlmhyperbench.data.repositories import Arrival
from vlmhyperbench.domain.specs import DatasetSpec
from vlmhyperbench.errors import Conflict, InvalidInput
from vlmhyperbench.settings import Settings

FILES = {"set/annotation.csv": b"question,answer\nq,a\n", "set/pages/1.png": b"one"}


def zipped(path: Path, *entries: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return path


def tarred(path: Path, *entries: tuple[str, bytes], kind: bytes = b"", to: str = "") -> Path:
    """Write a tar; `kind` is the type of a special entry, and `to` what it links to."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        if kind:
            info = tarfile.TarInfo("special")
            info.type, info.linkname = kind, to
            archive.addfile(info)
    return path


def spec(path: Path, **fields: object) -> DatasetSpec:
    return DatasetSpec.model_validate({"name": "d", "version": "1.0.0", "type": "table", "path": str(path), **fields})


def unpack(dataset: DatasetSpec, folder: Path, bounds: Bounds | None = None) -> None:
    with unpacked(dataset, folder / "home", bounds or Bounds()):
        pass


@pytest.mark.parametrize(("name", "make"), [("d.zip", zipped), ("d.tar.gz", tarred), ("d.TGZ", tarred)])
def test_an_archive_is_unpacked_once_and_is_its_only_folder(
    name: str, make: Callable[..., Path], tmp_path: Path
) -> None:
    path = make(tmp_path / name, ("set/", b"") if make is zipped else ("set/notes.txt", b"n"), *FILES.items())
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    settings = Settings(home=tmp_path / "home")
    for _ in range(2):
        with on_this_machine(spec(path, sha256={".": sha256}), settings, Arrival()) as local:
            folder = Path(local.path or "")
    assert folder == settings.home / "unpacked" / sha256 / "set"
    assert {name: (folder.parent / name).read_bytes() for name in FILES} == FILES
    assert {each.name for each in folder.parents[1].iterdir()} == {sha256, ".locks"}
    with pytest.raises(Conflict):
        unpack(spec(path, sha256={".": "0" * 64}), tmp_path)


def _linked(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    return info


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: zipped(p / "d.zip", ("a.csv", b"a"), ("../out", b"x")), "leads out"),
        (lambda p: zipped(p / "d.zip", ("/etc/out", b"x")), "absolute"),
        (lambda p: zipped(p / "d.zip", ("C:/out", b"x")), "absolute"),
        (lambda p: zipped(p / "d.zip", ("..\\out", b"x")), "characters"),
        (lambda p: zipped(p / "d.zip", (_linked("l", stat.S_IFLNK | 0o777), b"/etc/passwd")), "symbolic link"),
        (lambda p: zipped(p / "d.zip", ("a", b"x"), ("a/b", b"x")), "two entries"),
        (lambda p: zipped(p / "d.zip"), "no files"),
        (lambda p: zipped(p / "d.zip", ("zeros", bytes(FREE_BYTES + 1))), "larger than"),
        (lambda p: zipped(p / "d.zip", *((str(n), b"x") for n in range(11))), "more than 10 files"),
        (lambda p: tarred(p / "d.tar", ("../out", b"x")), "leads out"),
        (lambda p: tarred(p / "d.tar", ("/out", b"x")), "absolute"),
        (lambda p: tarred(p / "d.tar", ("a\nb", b"x")), "characters"),
        (lambda p: tarred(p / "d.tar", kind=tarfile.SYMTYPE, to="/etc/passwd"), "symbolic link"),
        (lambda p: tarred(p / "d.tar", kind=tarfile.LNKTYPE, to="/etc/passwd"), "hard link"),
        (lambda p: tarred(p / "d.tar", kind=tarfile.CHRTYPE), "device"),
        (lambda p: tarred(p / "d.tar", kind=tarfile.FIFOTYPE), "device or a pipe"),
    ],
)
def test_what_could_do_harm_refuses_the_whole_archive(make: Callable[[Path], Path], words: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=words) as refused:
        unpack(spec(make(tmp_path)), tmp_path, Bounds(files=10))
    assert refused.value.code == "bad_archive"
    assert [path.name for path in (tmp_path / "home").iterdir()] == [".locks"]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["gztar", "bztar", "xztar"])
def test_a_byte_that_differs_is_damage(kind: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(random.Random(1).randbytes(50_000))
    path = Path(shutil.make_archive(str(tmp_path / "d"), kind, tmp_path, "a"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(InvalidInput) as refused:
        unpack(spec(path), tmp_path)
    assert refused.value.code == "bad_archive"


@pytest.mark.parametrize("name", ["d.zip", "d.tar.gz"])
def test_half_an_archive_is_damaged(name: str, tmp_path: Path) -> None:
    make = zipped if name == "d.zip" else tarred
    path = make(tmp_path / name, ("a", bytes(range(256)) * 400))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(InvalidInput, match="damaged"):
        unpack(spec(path), tmp_path)
