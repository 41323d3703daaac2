"""A cluster of Slurm for tests: `sbatch` is the stand-in of sbatch.py, which starts real tasks on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from tests.support.processes import PATIENCE_S
from tests.support.stack import until

_SBATCH = Path(__file__).with_name("sbatch.py")


class Cluster:
    """A file for sbatch, and the tasks that the stand-in for Slurm has started of it."""

    def __init__(
        self, folder: Path, token: str, *, node: Sequence[str] = (), variables: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Make the stand-in.

        Args:
            folder: Folder of its files.
            token: Join token of the workers.
            node: Beginning of the command that runs a program on the node; empty: here.
            variables: Those of the node and of the GPUs that Slurm gives to a task.
        """
        self.folder, self.token = folder, token
        self.file = folder / "workers.sbatch"
        self.token_file = folder / "token"
        self.token_file.write_text(token)
        self.token_file.chmod(0o600)
        (folder / "node.json").write_text(json.dumps(dict(variables)))
        program = folder / "bin" / "sbatch"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {" ".join((*node, sys.executable, str(_SBATCH)))} {folder} "$@"\n')
        program.chmod(0o755)

    def submit(self) -> None:
        """Run `sbatch FILE`, found on the path, with a secret in the submitter's environment."""
        for old in self.folder.glob("*.code"):
            old.unlink()
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        subprocess.run(
            ["sbatch", str(self.file)], env=os.environ | {"PATH": path, "HF_TOKEN": "hf_x"}, check=True, timeout=60
        )

    def logs(self) -> str:
        """Return what the tasks have written."""
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def codes(self, workers: int) -> list[str]:
        """Wait until all tasks have ended, and return their exit codes."""
        files = [self.folder / f"{number}.code" for number in range(workers)]
        until(lambda: all(file.exists() for file in files), "the end of all tasks", 2 * PATIENCE_S, last=self.logs)
        return [file.read_text() for file in files]
