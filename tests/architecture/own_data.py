"""Walk the way of somebody with data and metrics of their own, from wheels, in a folder outside of any checkout.

Twelve own images as a CSV, as JSON Lines and as a folder of the hub give equal answers and scores; a metric and a
dataset, made by template and committed to git, run from there; and `evaluate()` scores a function on the same data.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Run = Callable[..., str]
"""Runs a command with `env` and `cwd`, and returns its output, or ends everything."""

DRAW = """
import csv, json
from pathlib import Path
import polars
from PIL import Image, ImageDraw
rows = []
Path("pages").mkdir()
for number in range(12):
    page = Image.new("L", (240, 80), 255)
    ImageDraw.Draw(page).text((10, 30), f"TOTAL {7 * number + 3}.50", fill=0)
    page.save(f"pages/{number}.png")
    row = {"question": "What is the total?", "image": f"pages/{number}.png", "answer": f"{7 * number + 3}.50"}
    rows.append({**row, "kind": "receipt" if number % 2 else "ticket"})
with Path("mine.csv").open("w", newline="") as file:
    writer = csv.DictWriter(file, rows[0])
    writer.writeheader()
    writer.writerows(rows)
Path("mine-lines.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
Path("mine-hub/data").mkdir(parents=True)
image = lambda path: {"bytes": Path(path).read_bytes(), "path": path}
table = polars.DataFrame([{**row, "image": image(row["image"])} for row in rows])
table.write_parquet("mine-hub/data/test-00000-of-00001.parquet")
"""
WAYS = ("mine.csv", "mine-lines.jsonl", "mine-hub")

COMPARE = """
import sys
from vlmhyperbench.client import Client
from vlmhyperbench.evaluation import evaluate

columns = ["key", "question", "references", "images", "text", "kind", "anls", "exact_match"]
with Client() as client:
    first, *others = [client.runs.get(run).samples().to_polars().select(columns) for run in sys.argv[1:]]
assert first.height == 12 and all(other.equals(first) for other in others), [first, *others]
seen = []
for task in ("mine", "mine-lines", "mine-hub"):
    answer = lambda prompt, images: seen.extend(images) or "3.50"
    evaluation = evaluate(task, answer, metrics=["exact_match", "overlap"])
    values = evaluation.metrics().to_polars().select("value", "n").rows()
    assert [(round(value, 6), n) for value, n in values] == [(0.083333, 12), (0.083333, 12)], values
assert (len(seen), len(set(seen))) == (36, 12)
evaluation.report("evaluation.html")
"""


def check_own_data(run: Run, programs: Path, project: Path, env: Mapping[str, str]) -> None:
    """Use own data and plugins in a project whose stack is up."""
    command, python = str(programs / "vlmhyperbench"), str(programs / "python")
    run([python, "-c", DRAW], cwd=project)

    def measured(*chosen: str) -> dict[str, Any]:
        lines = run([command, "run", "--model", "tiny-doc-vlm", *chosen, "--json"], env=env, cwd=project).splitlines()
        done: dict[str, Any] = json.loads(lines[-1])["data"]
        assert (done["state"], done["failed"]) == ("SUCCEEDED", 0), done
        return done

    metrics = ("--metric", "anls", "--metric", "exact_match", "--group-by", "kind")
    runs = [measured("--data", way, *metrics)["id"] for way in WAYS]
    for kind, name, package in (("metric", "overlap", "overlap"), ("dataset", "sums", "sums")):
        run([command, "new", kind, name], env=env, cwd=project)
        made = project / package
        for arguments in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "Begin")):
            who = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.com")
            run(["git", *who, *arguments], cwd=made)
        run([command, "registry", "add", "package", package, "--git", made.as_uri()], env=env, cwd=project)
        shutil.copytree(made / "registries", project / "registries", dirs_exist_ok=True)
    done = measured("--task", "sums", "--metric", "overlap", "--limit", "4")
    assert [score["metric"] for score in done["headline"]["scores"]] == ["overlap"], done["headline"]
    listed = json.loads(run([command, "envs", "list", "--json"], env=env, cwd=project))["data"]
    ready = {entry for row in listed if row["state"] != "not built" for entry in row["entries"]}
    assert {"metrics/overlap", "datasets/sums"} <= ready, listed
    run([python, "-c", COMPARE, *runs], env=env, cwd=project)
    assert (project / "evaluation.html").is_file()
