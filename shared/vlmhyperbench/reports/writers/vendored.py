"""Third-party JavaScript of the HTML report: a pinned file, and a reader that refuses any other.

`vendor/plotly-cartesian.min.js.gz` is the compressed file of the package that `vendor/vendor.json` names; its licence
is in the same folder.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import zlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from vlmhyperbench.errors import Conflict


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendored:
    """A script, compressed as pages carry it."""

    name: str
    """Name of the package in its registry."""
    version: str
    license: str
    sha256: str
    """Hash of the script in hexadecimal; browsers check it before they run the script."""
    compressed: bytes
    """The script, compressed by gzip."""

    @property
    def base64(self) -> str:
        """The compressed script as text."""
        return base64.b64encode(self.compressed).decode()

    def check(self) -> None:
        """Make sure that the script is the pinned one.

        Raises:
            Conflict: it is another script, or not compressed by gzip.
        """
        try:
            sha256 = hashlib.sha256(gzip.decompress(self.compressed)).hexdigest()
        except (OSError, EOFError, zlib.error):
            sha256 = ""
        if sha256 != self.sha256:
            raise Conflict(
                f"The file of {self.name} {self.version} in this installation is not the pinned one.",
                cure="Install vlmhyperbench again.",
            )


@cache
def plotly() -> Vendored:
    """Return the pinned part of Plotly.

    Raises:
        Conflict: the installed file is not the pinned one.
    """
    folder = files("vlmhyperbench.reports.writers") / "vendor"
    pinned = json.loads((folder / "vendor.json").read_text(encoding="utf-8"))
    compressed = (folder / pinned.pop("file")).read_bytes()
    script = Vendored(**pinned, compressed=compressed)
    script.check()
    return script
