"""Images of imported answers are stored as those of a dataset; a hostile one is only missing in its own sample."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from pathlib import Path

import pytest
from PIL import Image as Pillow

from tests.shared.exchange.reading import DATA
from vlmhyperbench.data.enumerating import index
from vlmhyperbench.data.images import image_key
from vlmhyperbench.data.manifest import ManifestSample, manifest_key, read, samples_of
from vlmhyperbench.domain.specs import ANSWERS_DATASET, DatasetSpec, Limits
from vlmhyperbench.exchange.answers import AnswersFile, ImportedAnswer, write_answers
from vlmhyperbench.exchange.pictures import data_url, digest_of_url
from vlmhyperbench.exchange.reading import read as read_file
from vlmhyperbench.storage import open_storage

LOG = DATA / "inspect_ai-0.3.285-images.eval"


def _png(colour: str = "red") -> bytes:
    file = io.BytesIO()
    Pillow.new("RGB", (8, 4), colour).save(file, "PNG")
    return file.getvalue()


def _bomb() -> bytes:
    """Make the head of a PNG of 3,600,000,000 pixels."""
    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    parts = [b"IHDR" + head, b"IDAT" + zlib.compress(b""), b"IEND"]
    framed = [struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part)) for part in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


def _indexed(folder: Path, file: AnswersFile, limits: Limits | None = None) -> list[ManifestSample]:
    write_answers(folder / "answers.jsonl", file)
    storage = open_storage(str(folder / "storage"))
    spec = DatasetSpec(name="d", version="1", type=ANSWERS_DATASET, path=str(folder / "answers.jsonl"))
    result = index(spec, limits or Limits(), storage)
    return list(samples_of(read(folder / "storage" / manifest_key(result.manifest_id))))


def _file(*answers: ImportedAnswer) -> AnswersFile:
    return AnswersFile(format="inspect", tool=None, model=None, task=None, decoding={}, answers=iter(answers), notes=[])


def test_images_of_a_real_log_are_stored_by_content_and_shared(tmp_path: Path) -> None:
    samples = _indexed(tmp_path, read_file(LOG))
    by_key = {sample.key: sample for sample in samples}
    assert {key: [(image.width, image.height) for image in item.images] for key, item in by_key.items()} == {
        "red-1": [(32, 24)],
        "red-2": [(32, 24)],
        "both": [(32, 24), (32, 24)],
        "broken": [],
    }
    red, blue = by_key["both"].images
    assert by_key["red-1"].images == by_key["red-2"].images == (red,)
    for image, colour in ((red, (255, 0, 0)), (blue, (0, 0, 255))):
        shown = Pillow.open(tmp_path / "storage" / image_key(image.sha256))
        assert shown.convert("RGB").getpixel((0, 0)) == colour
    assert [sample.key for sample in samples if sample.error] == ["broken"]
    assert "WEBP" in (by_key["broken"].error or "")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("/etc/passwd", "'/etc/passwd'"),
        ("file:///etc/passwd", "'file:///etc/passwd'"),
        ("http://169.254.169.254/", "'http://169.254.169.254/'"),
        ("<base64-data-removed>", "base64-data-removed"),
        ("attachment://0123", "attachment://0123"),
        ("same:" + "0" * 64, "does not hold"),
        ("data:image/png,abc", "without base64"),
        ("data:image/png;base64,ab_!", "no base64"),
        ("data:image/png;base64,", "empty"),
        ("data:image/svg+xml;base64," + base64.b64encode(b"<svg/>").decode(), "PNG, JPEG or WEBP"),
        (data_url(_bomb()), "pixels"),
        (data_url(_png()[:-20]), "broken"),
        (data_url(_png() + b"x" * 3000), "larger than 2,000 bytes"),
    ],
)
def test_an_unreadable_image_is_refused_with_its_reason_and_the_others_are_stored(
    tmp_path: Path, url: str, reason: str
) -> None:
    good = data_url(_png())
    answers = [
        ImportedAnswer(key="bad", text="x", references=("x",), image_urls=(good, url)),
        ImportedAnswer(key="good", text="x", references=("x",), image_urls=(f"same:{digest_of_url(good)}",)),
    ]
    bad, other = _indexed(tmp_path, _file(*answers), Limits(max_image_bytes=2000))
    assert reason in (bad.error or "")
    assert (other.error, other.images, len(bad.images)) == (None, bad.images, 1)


def test_too_many_images_of_one_sample_are_refused(tmp_path: Path) -> None:
    answer = ImportedAnswer(key="a", text="x", references=("x",), image_urls=(data_url(_png()),) * 257)
    (sample,) = _indexed(tmp_path, _file(answer))
    assert (sample.images, "257 images" in (sample.error or "")) == ((), True)
