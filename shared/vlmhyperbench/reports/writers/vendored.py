"""The JavaScript of others that a page carries: one pinned file, and a reader that refuses any other.

`vendor/plotly-cartesian.min.js.gz` is the file of the package that `vendor/vendor.json` names, compressed; its licence
lies beside it.
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
    """Name of the package, as its registry knows it."""
    version: str
    license: str
    sha256: str
    """Of the script itself, in hexadecimal; browsers check it too, before they run it."""
    compressed: bytes
    """The script by gzip."""

    @property
    def base64(self) -> str:
        """The compressed script as text."""
        return base64.b64encode(self.compressed).decode()

    def check(self) -> None:
        """Make sure that the script is the pinned one.

        Raises:
            Conflict: it is another, or no gzip.
        """
        try:
            found = hashlib.sha256(gzip.decompress(self.compressed)).hexdigest()
        except (OSError, EOFError, zlib.error):
            found = ""
        if found != self.sha256:
            raise Conflict(
                f"The file of {self.name} {self.version} that lies in this installation is not the pinned one.",
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
