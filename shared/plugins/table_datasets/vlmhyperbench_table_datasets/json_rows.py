"""Rows of JSON documents: one file for each document beside its pages, or one file in COCO's form for all images."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_table_datasets.json_text import NoJson, parse
from vlmhyperbench_table_datasets.rows import Facts, Row, RowError

PAGE_SUFFIXES: Final = (".png", ".jpg", ".jpeg", ".webp")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentsTable:
    """A JSON file for each document; a row has its members, and `key`, `pages` and `truth`.

    `key` is the path of the file without its suffix, `truth` the whole JSON, and `pages` the images of the same name:
    `7.png`, `7-1.png` and `7-2.png`, or the files of the folder `7`, in the order of their numbers.
    """

    files: tuple[Path, ...]
    root: Path
    images: str | None = None
    """Folder of the images, relative to the root; None: beside each file."""

    @property
    def name(self) -> str:
        return str(self.root)

    def facts(self) -> Facts:
        return Facts()

    def rows(self, columns: Collection[str] | None = None) -> Iterator[Row | RowError]:  # noqa: ARG002 - read whole
        for number, file in enumerate(self.files):
            try:
                document = parse(file.read_text(encoding="utf-8-sig"))
            except UnicodeDecodeError:
                yield RowError(str(file), "it is not UTF-8")
                continue
            except NoJson as error:
                yield RowError(str(file), str(error))
                continue
            members = document if isinstance(document, dict) else {}
            key = file.relative_to(self.root).with_suffix("").as_posix()
            cells = {**members, "key": key, "truth": document, "pages": self._pages(file)}
            yield Row(number, cells, str(file))

    def _pages(self, file: Path) -> list[str]:
        folder = file.parent if self.images is None else self.root / self.images
        own = folder / file.stem
        found = own.iterdir() if own.is_dir() else folder.glob(f"{_literal(file.stem)}*")
        pages = [
            path
            for path in found
            if path.suffix.lower() in PAGE_SUFFIXES and (own.is_dir() or _is_page_of(file.stem, path.stem))
        ]
        return [path.relative_to(self.root).as_posix() for path in sorted(pages, key=_numbers)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CocoTable:
    """A file in COCO's form; a row is an image with its `annotations`, whose categories are named.

    `truth` is the object `{"objects": [{"category", "bbox"}, …]}`, with `bbox` as COCO has it: x, y, width, height.
    """

    file: Path
    root: Path
    images: str | None = None

    @property
    def name(self) -> str:
        return str(self.file)

    def facts(self) -> Facts:
        return Facts()

    def rows(self, columns: Collection[str] | None = None) -> Iterator[Row | RowError]:  # noqa: ARG002 - read whole
        images, annotations, categories = self._parts()
        names = {category.get("id"): category.get("name") for category in categories}
        of_image: dict[object, list[dict[str, Any]]] = {}
        for annotation in annotations:
            named = {**annotation, "category": names.get(annotation.get("category_id"))}
            of_image.setdefault(annotation.get("image_id"), []).append(named)
        for number, image in enumerate(images):
            location = f"{self.file} images[{number}]"
            mine = of_image.get(image.get("id"), [])
            unnamed = next((item for item in mine if item["category"] is None), None)
            if unnamed is not None:
                yield RowError(
                    location, f"an annotation has the category {unnamed.get('category_id')!r}, which is none"
                )
                continue
            if not isinstance(image.get("file_name"), str):
                yield RowError(location, "it has no file_name")
                continue
            objects = [{"category": item["category"], "bbox": item.get("bbox")} for item in mine]
            path = image["file_name"] if self.images is None else f"{self.images}/{image['file_name']}"
            cells = {**image, "file_name": path, "annotations": mine, "truth": {"objects": objects}}
            yield Row(number, cells, location)

    def _parts(self) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        try:
            document = parse(self.file.read_text(encoding="utf-8-sig"))
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{self.file}: it is not UTF-8.", cure="Save it as UTF-8.") from error
        except NoJson as error:
            raise InvalidInput(f"{self.file}: {error}.", cure="Copy the file again, or correct it.") from error
        parts = [document.get(name) if isinstance(document, dict) else None for name in _COCO]
        for name, part in zip(_COCO, parts):  # noqa: B905 - one for each
            if not isinstance(part, list) or not all(isinstance(item, Mapping) for item in part):
                raise InvalidInput(
                    f"{self.file} has no list of objects {name!r}, which COCO's form has.",
                    cure="Name another format, or another file in params.files.",
                )
        return parts[0] or [], parts[1] or [], parts[2] or []


_COCO: Final = ("images", "annotations", "categories")


def _is_page_of(document: str, page: str) -> bool:
    """Return whether a name is that of the document, alone or with the number of a page."""
    return re.fullmatch(rf"{re.escape(document)}([-_.](page[-_]?)?[0-9]+)?", page) is not None


def _literal(stem: str) -> str:
    """Return a glob that matches a name only as it is written."""
    return re.sub(r"([*?\[])", r"[\1]", stem)


def _numbers(path: Path) -> list[tuple[int, int | str]]:
    """Return a key by which page 10 follows page 9."""
    parts = re.split(r"([0-9]+)", path.stem)
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in parts if part]
