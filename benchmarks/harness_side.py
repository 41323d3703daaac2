"""Score answers with the code of evaluation harnesses; runs in an environment of theirs, started by `harness_scores`.

Reads task → list of [row of the data, answer] from standard input, and writes task → score. Only scoring functions are
called: of lmms-eval those of its tasks' files, which are loaded without the package's own start-up. Its base class of
models, which needs torch and scores nothing, is replaced by an empty one.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
import types
from contextlib import redirect_stdout
from functools import partial
from importlib.metadata import distribution
from pathlib import Path
from statistics import fmean
from typing import Any

Pairs = list[tuple[dict[str, Any], str]]
"""Rows of the data with their answers."""


def lmms_task(name: str) -> Any:
    """Load the functions of a task of lmms-eval."""
    models: Any = sys.modules.setdefault("lmms_eval.api.model", types.ModuleType("lmms_eval.api.model"))
    models.lmms = type("lmms", (), {})
    return task_of("lmms_eval", name)


def task_of(harness: str, name: str, module: str = "utils") -> Any:
    """Load the functions of a task without the start-up of its packages."""
    folder = Path(str(distribution(harness).locate_file(harness)))
    for package, path in ((harness, folder), (f"{harness}.tasks", folder / "tasks")):
        if package not in sys.modules:
            stub: Any = types.ModuleType(package)
            stub.__path__ = [str(path)]
            sys.modules[package] = stub
    return importlib.import_module(f"{harness}.tasks.{name}.{module}")


def docvqa(pairs: Pairs) -> float:
    """Score by the ANLS of lmms-eval."""
    lmms_task("docvqa")
    anls = importlib.import_module("lmms_eval.api.metrics").anls
    return fmean(anls(references=row["answers"], predictions=[answer])["anls"] for row, answer in pairs)


def chartqa(pairs: Pairs) -> float:
    """Score by the relaxed correctness of lmms-eval."""
    process = lmms_task("chartqa").chartqa_process_results
    return fmean(process(row, [answer])["relaxed_overall"] for row, answer in pairs)


def textvqa(pairs: Pairs) -> float:
    """Score by the VQA accuracy of lmms-eval."""
    process = lmms_task("textvqa").textvqa_process_results
    return fmean(process(row, [answer])["exact_match"] for row, answer in pairs)


def ocrbench(pairs: Pairs) -> float:
    """Score by the contains match of lmms-eval."""
    process = lmms_task("ocrbench").ocrbench_process_results
    return fmean(process(row, [answer])["ocrbench_accuracy"]["score"] for row, answer in pairs)


def exact_after(pattern: str, pairs: Pairs, reference: str, *, group: int = 0, **options: object) -> float:
    """Read answers by a filter of lm-evaluation-harness, and compare them by its exact match."""
    compare = importlib.import_module("lm_eval.api.metrics").exact_match_hf_evaluate
    regex_filter = importlib.import_module("lm_eval.filters.extraction").RegexFilter
    read = regex_filter(regex_pattern=pattern, group_select=group).apply([[answer] for _, answer in pairs], [])
    scores = [
        compare(predictions=texts, references=[row[reference]], ignore_case=True, **options)
        for (row, _), texts in zip(pairs, read, strict=True)
    ]
    return fmean(float(score["exact_match"]) for score in scores)


IGNORED = [",", "\\$", "(?s).*#### ", "\\.$"]
"""What the task gsm8k removes before it compares."""


def gsm8k_strict(pairs: Pairs) -> float:
    """Score by the filter strict-match."""
    return exact_after("#### (\\-?[0-9\\.\\,]+)", pairs, "answer", regexes_to_ignore=IGNORED)


def gsm8k_flexible(pairs: Pairs) -> float:
    """Score by the filter flexible-extract."""
    return exact_after("(-?[$0-9.,]{2,})|(-?[0-9]+)", pairs, "answer", group=-1, regexes_to_ignore=IGNORED)


def mmlu_pro(pairs: Pairs) -> float:
    """Score by the filter custom-extract."""
    return exact_after(r"answer is \(?([ABCDEFGHIJ])\)?", pairs, "answer", ignore_punctuation=True)


def hallusion(pairs: Pairs, number: str) -> float:
    """Score by the reading of lmms-eval that asks no model; it takes an answer without yes for no."""
    task = task_of("lmms_eval", "hallusion_bench", "evaluate_hb")
    samples = [task.hb_process_results({**row, "image": None}, [answer])[number] for row, answer in pairs]
    return float(task.hb_aggregation_result_intern(samples, number))


hallusion_facc = partial(hallusion, number="fAcc")
hallusion_qacc = partial(hallusion, number="qAcc")


def mathvista_quick(pairs: Pairs) -> float:
    """Score by the quick extraction and the normalisation of lmms-eval."""
    evals = task_of("lmms_eval", "mathvista", "mathvista_evals")
    evaluator = object.__new__(evals.MathVistaEvaluator)  # its start-up opens a connection to a model
    return fmean(float(_is_right(evaluator, row, answer)) for row, answer in pairs)


def _is_right(evaluator: Any, row: dict[str, Any], answer: str) -> bool:
    evaluator.get_chat_response = lambda *_, **__: answer  # in place of the model's extraction: the answer as it is
    extracted = evaluator.extract_answer(answer, row, quick_extract=True)
    precision = None if row["precision"] is None else int(row["precision"])
    normalised = evaluator.normalize_extracted_answer(
        extracted, row["choices"] or [], row["question_type"], row["answer_type"], precision
    )
    return bool(evaluator.safe_equal(normalised, row["answer"]))


def omnidocbench(pairs: Pairs, element: str) -> float:
    """Score by the task omnidocbench of lmms-eval."""
    task = task_of("lmms_eval", "omnidocbench")
    pages = [task.omnidocbench_process_results(row, [answer])[f"omnidocbench_{element}"] for row, answer in pairs]
    return float(getattr(task, f"omnidocbench_aggregate_{element}")(pages))


omnidocbench_text = partial(omnidocbench, element="text_edit")
omnidocbench_table = partial(omnidocbench, element="table_teds")
omnidocbench_formula = partial(omnidocbench, element="formula_edit")


def ifeval(pairs: Pairs, level: str) -> float:
    """Score by the task ifeval of lm-evaluation-harness, whose data of NLTK no instruction of the fixture needs."""
    os.environ["LOCAL_RANK"] = "1"  # only the first rank downloads them
    task = task_of("lm_eval", "ifeval")
    scores = [task.process_results(row, [answer])[level] for row, answer in pairs]
    return float(task.agg_inst_level_acc(scores)) if level.startswith("inst") else fmean(scores)


ifeval_prompt_strict = partial(ifeval, level="prompt_level_strict_acc")
ifeval_prompt_loose = partial(ifeval, level="prompt_level_loose_acc")
ifeval_instruction_strict = partial(ifeval, level="inst_level_strict_acc")
ifeval_instruction_loose = partial(ifeval, level="inst_level_loose_acc")


def mmmu(pairs: Pairs) -> float:
    """Score by the task mmmu of lmms-eval, with the seed of the harness: it draws a letter that it cannot read."""
    task = lmms_task("mmmu")
    random.seed(0)
    return float(
        task.mmmu_aggregate_results([task.mmmu_process_results(row, [text])["mmmu_acc"] for row, text in pairs])
    )


def ai2d(pairs: Pairs) -> float:
    """Score by the filter and the exact match of the task ai2d of lmms-eval."""
    task = lmms_task("ai2d")
    compare = importlib.import_module("lmms_eval.api.metrics").exact_match_hf_evaluate
    rows = [row for row, _ in pairs]
    texts = task.MultiChoiceRegexFilter("([A-Z])\\.").apply([[text] for _, text in pairs], rows)
    options = {"ignore_case": True, "ignore_punctuation": True}
    scores = [
        compare(predictions=[text], references=[task.ai2d_doc_to_target(row, "mcq")], **options)
        for row, text in zip(rows, texts, strict=True)
    ]
    return fmean(float(score["exact_match"]) for score in scores)


ai2d_letter = ai2d


def pope(pairs: Pairs, name: str) -> float:
    """Score by the task pope of lmms-eval."""
    task = lmms_task("pope")
    results = [task.pope_process_results(row, [text])[f"pope_{name}"] for row, text in pairs]
    return float(getattr(task, f"pope_aggregate_{name}")(results))


pope_f1 = partial(pope, name="f1_score")
pope_accuracy = partial(pope, name="accuracy")
pope_precision = partial(pope, name="precision")
pope_recall = partial(pope, name="recall")


def realworldqa(pairs: Pairs) -> float:
    """Score by the task realworldqa of lmms-eval."""
    process = lmms_task("realworldqa").realworldqa_process_results
    return fmean(process(row, [text])["exact_match"] for row, text in pairs)


def fields(pairs: Pairs) -> float:
    """Score by the fields' F1 of the task cc_ocr_kie of lmms-eval, which is that of VLMEvalKit."""
    lmms_task("cc_ocr")
    metric = importlib.import_module("lmms_eval.tasks.cc_ocr.evaluators.kie_metric")
    results = [
        {"pred": text, "gt": _truth(row), "image_name": str(number), "subset": "all"}
        for number, (row, text) in enumerate(pairs)
    ]
    return float(metric.compute_track(results, "f1_score"))


def _truth(row: dict[str, Any]) -> Any:
    return row["entities"] if "entities" in row else json.loads(row["ground_truth"])["gt_parse"]


cord = sroie = fields


def teds(pairs: Pairs, *, structure_only: bool) -> float:
    """Score by the TEDS of the task ocrbench_v2 of lmms-eval, which is the code of PubTabNet's authors."""
    metric = task_of("lmms_eval", "ocrbench_v2", "TEDS_metric").TEDS(structure_only=structure_only)
    page = "<html><body>{}</body></html>".format
    return fmean(metric.evaluate(page(text), page(row["html_table"])) for row, text in pairs)


teds_pubtabnet = partial(teds, structure_only=False)
teds_structure = partial(teds, structure_only=True)


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    with redirect_stdout(sys.stderr):  # some of the code prints its scores
        scores = {name: globals()[name](pairs) for name, pairs in asked.items()}
    json.dump(scores, sys.stdout)
