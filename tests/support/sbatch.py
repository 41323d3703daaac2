"""A stand-in for Slurm's `sbatch`: records what a file asks for, and runs each task of its array as Slurm would.

    python sbatch.py FOLDER FILE

Each task is a process of its own in a session of its own, with the variables of Slurm and none of the submitter's
(`--export=NONE`); FOLDER/node.json has those of the node. FOLDER gets `options.json`, and for each
task `N.pid`, `N.log` and in the end `N.code`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

JOB = 4200
TASK = """
import os, pathlib, subprocess, sys
folder, name, file = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
task = subprocess.Popen(["bash", file])
(folder / f"{name}.part").write_text(str(task.pid))
(folder / f"{name}.part").rename(folder / f"{name}.pid")
code = task.wait()
(folder / f"{name}.part").write_text(str(code))
(folder / f"{name}.part").rename(folder / f"{name}.code")
"""


def main() -> None:
    """Record the options of the file and start its tasks."""
    folder, file = Path(sys.argv[1]), Path(sys.argv[2])
    lines = file.read_text().splitlines()
    options = dict(line[10:].partition("=")[::2] for line in lines if line.startswith("#SBATCH --"))
    (folder / "options.json").write_text(json.dumps(options))
    first, _, last = options["array"].partition("-")
    for number in range(int(first), int(last) + 1):
        own = {
            "PATH": os.defpath,
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "SLURM_JOB_ID": str(JOB + number),
            "SLURM_ARRAY_JOB_ID": str(JOB),
            "SLURM_ARRAY_TASK_ID": str(number),
            **json.loads((folder / "node.json").read_text()),
        }
        with (folder / f"{number}.log").open("ab") as log:
            subprocess.Popen(
                [sys.executable, "-c", TASK, str(folder), str(number), str(file)],
                env=own,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
    print(f"Submitted batch job {JOB}")


if __name__ == "__main__":
    main()
