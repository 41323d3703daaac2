"""A batch is a function of seed and step, and holds complete questions and answers that do not see each other."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import yaml
from training import vocabulary
from training.asking import ALL_HABITS, FIRST_HABITS, READER_PROMPT, ask_page
from training.batches import NO_TARGET, Batch, Mixture, draw_batch
from training.held_out import draw_items
from training.recipes import RECIPES

import vlmhyperbench_tiny_doc_vlm as tiny
from vlmhyperbench_document_datasets.pages import compose_page
from vlmhyperbench_document_datasets.questions import ABSENT_RULE, ask

CLEAN = Mixture(tiers={"clean": 1}, dense=0, digits=0, habits=FIRST_HABITS)
ALL = RECIPES["v2"].mixture


def _text(ids: list[int]) -> str:
    names = vocabulary.tokens()
    return "".join(names[number] for number in ids).replace("Ġ", " ").replace("Ċ", "\n")


def _exchanges(batch: Batch, row: int) -> list[tuple[str, str]]:
    """Return what each segment of a row asks, and what its targets say."""
    found = []
    for segment in range(1, batch.segments[row].max() + 1):
        here = batch.segments[row] == segment
        targets = batch.targets[row][here]
        asked = int((targets == NO_TARGET).sum()) + 1
        found.append((_text(batch.ids[row][here][:asked]), _text(targets[targets != NO_TARGET])))
    return found


def test_a_step_is_the_same_in_every_run_and_unlike_its_neighbour() -> None:
    first, again, next_step = (draw_batch(ALL, seed=1, step=step, rows=4) for step in (5, 5, 6))
    for name in ("tiles", "characters", "ids", "targets", "positions", "segments"):
        assert np.array_equal(getattr(first, name), getattr(again, name))
    assert not np.array_equal(first.tiles, next_step.tiles)


def test_every_question_is_followed_by_its_whole_answer_and_the_end_of_the_turn() -> None:
    batch = draw_batch(CLEAN, seed=1, step=1, rows=4)
    for row in range(4):
        for question, answer in _exchanges(batch, row):
            assert question.endswith("<end_of_utterance>\nAssistant: ")
            assert answer.endswith("<end_of_utterance>")
            assert "<" not in answer.removesuffix("<end_of_utterance>")


def test_what_is_read_is_the_target_one_place_on() -> None:
    batch = draw_batch(CLEAN, seed=1, step=1, rows=2)
    for row in range(2):
        same = batch.segments[row][1:] == batch.segments[row][:-1]
        wanted = batch.targets[row][:-1] != NO_TARGET
        both = same & wanted
        assert both.any()
        assert np.array_equal(batch.targets[row][:-1][both], batch.ids[row][1:][both])


def test_every_question_begins_where_the_page_ends() -> None:
    batch = draw_batch(CLEAN, seed=1, step=2, rows=2)
    for row in range(2):
        page_tokens = int((batch.segments[row] == 0).sum())
        for segment in range(1, batch.segments[row].max() + 1):
            positions = batch.positions[row][batch.segments[row] == segment]
            assert positions.tolist() == list(range(page_tokens, page_tokens + len(positions)))


def test_a_row_has_as_many_image_tokens_as_its_tiles_need() -> None:
    for step in range(8):
        batch = draw_batch(ALL, seed=1, step=step, rows=2)
        assert ((batch.ids == vocabulary.IMAGE).sum(axis=1) == 36 * batch.tiles.shape[1]).all()


def test_no_question_ends_beyond_what_the_model_can_read() -> None:
    habits = replace(ALL_HABITS, system_prompt=1)
    for step in range(12):
        batch = draw_batch(Mixture(tiers={"clean": 1}, dense=1, digits=0, habits=habits), seed=1, step=step, rows=4)
        assert batch.positions.max() < tiny.CONTEXT_TOKENS


def test_a_dense_batch_holds_dense_pages_only_and_half_as_many() -> None:
    batch = draw_batch(Mixture(tiers={"clean": 1}, dense=1, digits=0, habits=ALL_HABITS), seed=1, step=1, rows=4)
    assert batch.tiers == ("dense", "dense")
    assert batch.tiles.shape == (2, 5, 96, 96)


def test_a_digit_is_asked_for_once() -> None:
    batch = draw_batch(Mixture(tiers={"clean": 1}, dense=0, digits=1, habits=ALL_HABITS), seed=1, step=1, rows=2)
    assert batch.tiers == ("digits", "digits")
    assert [len(_exchanges(batch, row)) for row in range(2)] == [1, 1]
    assert "Which digit is this?" in _exchanges(batch, 0)[0][0]


def test_a_step_without_text_gets_pages_for_digits_and_no_questions() -> None:
    mixture = Mixture(tiers={"clean": 1}, dense=0, digits=1, habits=ALL_HABITS)
    batch = draw_batch(mixture, seed=1, step=1, rows=2, has_text=False)
    assert batch.tiers == ("clean", "clean")
    assert batch.segments.max() == 0


def test_where_there_is_room_long_answers_come_first_and_every_kind_of_them_in_turn() -> None:
    rng = random.Random(5)
    firsts = Counter(
        ask_page(compose_page(rng), ALL_HABITS, rng, budget_tokens=360, is_long=True)[0].kind for _ in range(400)
    )
    assert set(firsts) == {"schema", "json", "read", "reasons"}
    assert min(firsts.values()) > 30


def test_under_the_system_prompt_absent_fields_are_asked_for_without_a_rule_of_their_own() -> None:
    rng = random.Random(6)
    asked = [
        exchange
        for _ in range(60)
        for exchange in ask_page(compose_page(rng), ALL_HABITS, rng, budget_tokens=300, has_system_prompt=True)
    ]
    assert {exchange.kind for exchange in asked} >= {"absent", "field"}
    assert not any(ABSENT_RULE in _text(exchange.question) for exchange in asked)
    assert all("not stated" in _text(exchange.answer) for exchange in asked if exchange.kind == "absent")


def test_the_system_prompt_that_training_knows_is_the_one_that_the_platform_ships() -> None:
    prompts = Path(__file__).parents[4] / "registries" / "prompts"
    assert yaml.safe_load((prompts / "document-reader.yaml").read_text())["system_prompt"] == READER_PROMPT


def test_held_out_questions_under_the_system_prompt_do_not_repeat_it() -> None:
    items = list(draw_items("prompted", 3))
    assert {item.system_prompt for item in items} == {READER_PROMPT}
    assert sum(item.expected == "not stated" for item in items) == 6
    assert not any("state" in item.question for item in items)
    assert not any(item.system_prompt for item in draw_items("unanswerable", 1))


def test_the_first_habits_ask_in_the_first_words_and_the_answers_are_the_datasets() -> None:
    rng = random.Random(4)
    for _ in range(10):
        page = compose_page(rng)
        known = {(question.wordings()[0], question.answer) for question in ask(page)}
        for exchange in ask_page(page, FIRST_HABITS, rng, budget_tokens=400):
            question = _text(exchange.question).removesuffix("<end_of_utterance>\nAssistant: ")
            assert (question, _text(exchange.answer).removesuffix("<end_of_utterance>")) in known


def test_a_budget_too_small_for_any_question_still_asks_one() -> None:
    assert len(ask_page(compose_page(random.Random(1)), FIRST_HABITS, random.Random(1), budget_tokens=1)) == 1


def test_stages_follow_each_other_and_the_last_one_does_not_end() -> None:
    recipe = RECIPES["v2"]
    tower, connector, transcribing, reading = recipe.stages
    assert recipe.stage_at(0) == (tower, 0)
    assert recipe.stage_at(tower.steps) == (connector, 0)
    assert recipe.first_step_of("reading") == tower.steps + connector.steps + transcribing.steps
    assert recipe.stage_at(recipe.steps + 5) == (reading, reading.steps + 5)


def test_the_text_model_begins_with_whole_pages_and_nothing_else() -> None:
    transcribing = next(stage for stage in RECIPES["v2"].stages if stage.name == "transcribing")
    assert transcribing.mixture is not None
    batch = draw_batch(transcribing.mixture, seed=1, step=1, rows=4)
    assert batch.kinds == (("read",),) * 4


def test_held_out_questions_of_a_style_expect_the_whole_sentence() -> None:
    items = list(draw_items("sentences", 2))
    assert {item.group for item in items} >= {"kind"}
    assert all(item.expected.startswith("The ") and item.expected.endswith(".") for item in items)
    assert {item.group for item in draw_items("schemas", 1)} == {"schema"}
