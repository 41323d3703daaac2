"""The command line of the server."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the adapter states; all of it is required, so that no default is chosen here."""

    host: str
    port: int
    name: str
    folder: Path
    dtype: str
    attention: str
    compile: str
    device: str
    device_map: str
    sampling_defaults: str
    trust_remote_code: bool
    max_context: int
    max_batch: int
    max_waiting: int
    threads: int


def read_options(arguments: list[str]) -> Options:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="vlmhyperbench-transformers", description=__doc__)
    for name in ("host", "name", "dtype", "attention", "compile", "device", "device-map", "sampling-defaults"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("port", "max-context", "max-batch", "max-waiting", "threads"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--trust-remote-code", choices=("off", "on"), required=True)
    given = vars(parser.parse_args(arguments))
    return Options(**{**given, "trust_remote_code": given["trust_remote_code"] == "on"})
