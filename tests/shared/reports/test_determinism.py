"""The same evidence gives the same bytes in every process, whatever its hash seed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from tests.shared.reports.builders import comparison_of, document_of, evidence, fact, thumbnail
from tests.shared.reports.counting_metrics import Fields, Labels
from vlmhyperbench.reports.document import Document
from vlmhyperbench.reports.writers.html import to_html
from vlmhyperbench.reports.writers.json import to_json
from vlmhyperbench.reports.writers.markdown import markdown_files
from vlmhyperbench.reports.writers.plots import to_svg
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench_text_metrics.exact_match import ExactMatch


def _run(name: str, answers: str) -> RunEvidence:
    rows = [
        fact(i, answer, "b", images=[f"{i // 2:064x}"], latency_ns=(20 + i % 7) * 1_000_000)
        for i, answer in enumerate(answers)
    ]
    return evidence(rows, name=name, id=name, metrics=[ExactMatch(), Labels(), Fields()])


def _digest(document: Document) -> str:
    drawings = {figure.name: to_svg(figure) for figure in document.figures}
    thumbnails = {image: thumbnail() for image in document.images}
    files = {
        "report.html": to_html(document, drawings=drawings, thumbnails=thumbnails),
        "report.json": to_json(document),
        **markdown_files(document, drawings=drawings, thumbnails=thumbnails),
    }
    return " ".join(f"{name}:{hashlib.sha256(content).hexdigest()[:16]}" for name, content in files.items())


def digests() -> list[str]:
    """Name and hash of every file of a run's report and of a comparison."""
    runs = [_run("a", "bbbbbcab"), _run("b", "abbcbbab"), _run("c", "bbbbbbbb")]
    return [_digest(document_of(runs[0])), _digest(comparison_of("e", "demo", "DONE", runs))]


def test_a_report_has_the_same_bytes_in_another_process_with_another_hash_seed() -> None:
    seed = 1 if hash("a") == _hash_of_a(seed=0) else 0
    code = "from tests.shared.reports.test_determinism import digests; print(*digests(), sep='\\n')"
    first = _output(code, seed=seed).splitlines()
    assert first == digests()
    assert [line.count("report.html:") for line in first] == [1, 1]


def _hash_of_a(*, seed: int) -> int:
    return int(_output("print(hash('a'))", seed=seed))


def _output(code: str, *, seed: int) -> str:
    return subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONHASHSEED": str(seed)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=240,
    ).stdout
