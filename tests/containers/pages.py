"""Commands of the pages of docs/deploy, run as they stand there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.containers.composed import IMAGES, ROOT, Composed


def commands(page: str, *, containing: str) -> str:
    """Return the one block of commands of a page that contains a text."""
    text = (ROOT / "docs" / "deploy" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (block,) = [block for block in blocks if containing in block]
    return str(block)


def follow(stack: Composed, block: str, *, backups: Path, timeout_s: float = 600) -> None:
    """Run a block of commands in the folder of a stack, without those that bring its code to another version.

    The names of the volumes and images are those of the stack, and `/backups` is a folder of the test.
    """
    lines = [line for line in block.splitlines(keepends=True) if not line.startswith(("git ", ".venv/"))]
    script = "".join(lines).replace("/backups", str(backups)).replace(" vlmhyperbench-api ", f" {IMAGES}-api ")
    script = re.sub(r"vlmhyperbench_(home|postgres)", rf"{stack.project}_\1", script)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        cwd=stack.folder,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
