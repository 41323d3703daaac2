"""Resolve and install conda packages with py-rattler: a child process of the installer.

    python -m vlmhyperbench.environments.conda_program resolve --channel NAME --out FILE NAME==VERSION[=BUILD] …
    python -m vlmhyperbench.environments.conda_program install FILE FOLDER

FILE has one line for each package, which is a comment to installers of Python's packages. It names channels and no
server: `CONDA_CHANNEL_ALIAS` says where the channels are, by default on the server of the conda project.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from rattler import (
    BuildString,
    Channel,
    ChannelConfig,
    MatchSpec,
    PackageRecord,
    RepoDataRecord,
    VirtualPackage,
    install,
    solve,
)

from vlmhyperbench.environments.conda_lines import MARK, conda_lines


async def resolve(packages: Sequence[str], channels: Sequence[str]) -> str:
    """Return the line of every package that the named ones need, with its hash."""
    sources = {name: _channel(name) for name in channels}
    records = await solve(
        list(sources.values()),
        [MatchSpec(_match(package)) for package in packages],
        virtual_packages=VirtualPackage.detect(),
    )
    names = {channel.base_url: name for name, channel in sources.items()}
    lines = [json.dumps(_written(record, names), sort_keys=True) for record in records]
    return "".join(f"{MARK}{line}\n" for line in sorted(lines))


async def install_all(resolved: str, folder: Path) -> None:
    """Create an environment of exactly the resolved packages; each file is checked by its hash."""
    records = [_record(line) for line in conda_lines(resolved)]
    for record in records:
        _verify_local(record)
    # Scripts of packages are not run: they could do anything, and few packages still have some.
    await install(records, folder, show_progress=False, execute_link_scripts=False)


def _channel(name: str) -> Channel:
    alias = os.environ.get("CONDA_CHANNEL_ALIAS")
    if alias and urlsplit(alias).password is not None:  # every environment would keep it beside its packages
        raise ValueError("CONDA_CHANNEL_ALIAS has a password. Write it into the file that RATTLER_AUTH_FILE names.")
    return Channel(name, ChannelConfig(alias.rstrip("/") + "/")) if alias else Channel(name)


def _match(package: str) -> str:
    """Return `NAME==VERSION=BUILD` in conda's own words; Python's version may lack its third number."""
    name, _, version = package.partition("==")
    version, _, build = version.partition("=")
    if name == "python" and version.count(".") == 1:
        return f"python {version}.*"
    return f"{name} =={version} {build}".strip()


def _written(record: RepoDataRecord, names: Mapping[str, str]) -> dict[str, Any]:
    sha256 = record.sha256
    if sha256 is None:
        raise ValueError(f"The channel states no SHA-256 of {record.file_name}. Take another channel or version.")
    [channel] = [name for url, name in names.items() if record.url.startswith(url.rstrip("/") + "/")]
    noarch = record.noarch
    return {
        "channel": channel,
        "subdir": record.subdir,
        "file": record.file_name,
        "sha256": sha256.hex(),
        "name": record.name.normalized,
        "version": str(record.version),
        "build": str(record.build),
        "build_number": record.build_number,
        "depends": record.depends,
        "noarch": "python" if noarch.python else "generic" if noarch.generic else None,
        "site_packages": record.python_site_packages_path,
    }


def _record(line: Mapping[str, Any]) -> RepoDataRecord:
    channel = _channel(line["channel"])
    record = PackageRecord(
        name=line["name"],
        version=line["version"],
        build=BuildString.new_unchecked(line["build"]),
        build_number=line["build_number"],
        subdir=line["subdir"],
        noarch=line["noarch"],
        depends=line["depends"],
        sha256=bytes.fromhex(line["sha256"]),
        python_site_packages_path=line["site_packages"],
    )
    url = f"{channel.base_url.rstrip('/')}/{line['subdir']}/{line['file']}"
    return RepoDataRecord(record, line["file"], url, channel.base_url)


def _verify_local(record: RepoDataRecord) -> None:
    """Check the hash of a file of this machine, which the library checks of downloads only."""
    url = urlsplit(record.url)
    if url.scheme != "file":
        return
    with Path(unquote(url.path)).open("rb") as file:
        if hashlib.file_digest(file, "sha256").digest() != record.sha256:
            raise ValueError(f"The file {record.file_name} is not the one that was resolved: its hash is another.")


def main() -> int:
    """Run a command; what goes wrong is printed without a traceback, since it becomes a user's message."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    resolving = commands.add_parser("resolve")
    resolving.add_argument("--channel", action="append", required=True)
    resolving.add_argument("--out", type=Path, required=True)
    resolving.add_argument("packages", nargs="+")
    installing = commands.add_parser("install")
    installing.add_argument("resolved", type=Path)
    installing.add_argument("folder", type=Path)
    given = parser.parse_args()
    try:
        if given.command == "resolve":
            given.out.write_text(asyncio.run(resolve(given.packages, given.channel)), encoding="utf-8")
        else:
            asyncio.run(install_all(given.resolved.read_text(encoding="utf-8"), given.folder))
    except Exception as error:  # noqa: BLE001 -- the library has forty classes of errors with no common base
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # the library's threads may still run, and abort an interpreter that ends in good order
