"""A stack of containers is backed up while a run goes on, removed, and restored, by the commands of the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.containers.composed import composed
from tests.containers.pages import commands, follow
from tests.containers.room import need
from tests.containers.test_upgrade_of_images import LONG, SHORT, end_of, facts, report, run
from tests.support.audit import audit
from tests.support.processes import PATIENCE_S
from tests.support.stack import until

pytestmark = pytest.mark.timeout(1500)  # it builds the images


def test_a_backup_of_a_running_stack_is_restored_with_the_same_numbers(tmp_path: Path) -> None:
    need("docker")
    with composed() as stack:
        ended = run(stack, *SHORT)
        assert end_of(stack, ended) == "SUCCEEDED"
        shown = report(stack, ended, tmp_path / "before")
        opened = run(stack, *LONG)
        until(lambda: len(facts(stack, opened)) >= 20, "20 answers", PATIENCE_S)
        follow(stack, commands("backup.md", containing="pg_dump --username"), backups=tmp_path)
        assert len(facts(stack, opened)) < 240, "the run is under way"

        follow(stack, commands("backup.md", containing="pg_restore --username"), backups=tmp_path)
        until(lambda: stack.cli("ls", "runs", "--json").returncode == 0, "answer of the API", PATIENCE_S)
        assert report(stack, ended, tmp_path / "after") == shown
        assert end_of(stack, opened) == "SUCCEEDED"
        audit(stack)
