"""Compile the receiver when the package is built; without a compiler the package is the same, and reads in Python."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = ("vlmhyperbench_loadgen/receiving.c", "vlmhyperbench_loadgen/relaying.c")
LIBRARY = "vlmhyperbench_loadgen/libreceiving.so"


class CompileReceiver(BuildHookInterface[Any]):
    """Runs before a wheel or an editable installation is put together."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 -- hatchling's signature
        """Put the library beside its source, where it can be compiled."""
        if self.target_name != "wheel" or not sys.platform.startswith("linux"):
            return
        command = [*shlex.split(os.environ.get("CC", "cc")), "-O2", "-shared", "-fPIC", "-o", LIBRARY, *SOURCES]
        try:
            subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            Path(self.root, LIBRARY).unlink(missing_ok=True)
            said = getattr(error, "stderr", None) or error
            self.app.display_warning(f"The receiver is not compiled, answers will be read in Python: {said}")
            return
        build_data["artifacts"].append(LIBRARY)
        build_data["pure_python"] = False
        # It knows nothing of Python: one build serves all of its versions.
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
