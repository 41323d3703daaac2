"""Training computes what the exported model computes, goes on where it stopped, and exports the same bytes twice."""

from __future__ import annotations

import dataclasses
import io
import multiprocessing
import os
import signal
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from PIL import Image
from training import vocabulary
from training.asking import FIRST_HABITS
from training.batches import Mixture, draw_batch
from training.export import export
from training.held_out import draw_items
from training.muon import orthogonal
from training.network import Reader, make_processor
from training.recipes import RECIPES, Recipe
from training.steps import Optimizers, Tally, train_step
from training.train import CHECKPOINT, NOTHING_LEFT, Plan, Schedule, main, train

import vlmhyperbench_tiny_doc_vlm as tiny

CLEAN = Mixture(tiers={"clean": 1}, dense=0, digits=0, habits=FIRST_HABITS)
FOLDER = tiny.path("config.json").parent


def _plan(out: Path, until: int | None) -> Plan:
    stages = tuple(dataclasses.replace(stage, rows=2, steps=1) for stage in RECIPES["v1"].stages)
    recipe = Recipe(mixture=CLEAN, stages=stages, decay_steps=0)
    return Plan(recipe=recipe, out=out, start=None, seed=1, device="cpu", workers=1, until=until)


def _checkpoint(plan: Plan) -> dict[str, torch.Tensor]:
    kept = torch.load(plan.out / CHECKPOINT)
    return {f"{part}.{name}": weight for part in ("reader", "mean") for name, weight in kept[part].items()}


def test_questions_side_by_side_are_read_as_each_would_be_alone() -> None:
    reader = Reader()
    reader.load_weights(FOLDER)
    batch = draw_batch(CLEAN, seed=1, step=3, rows=2)
    ids, positions, segments = (torch.from_numpy(array) for array in (batch.ids, batch.positions, batch.segments))
    tiles = torch.from_numpy(batch.tiles)
    assert segments.max() > 1
    with torch.no_grad():
        _, image = reader.look(tiles.flatten(0, 1))
        everywhere = torch.ones_like(segments, dtype=torch.bool)
        hidden = reader.read(ids, image, positions, segments, everywhere)
        together = reader.model.lm_head(hidden).unflatten(0, segments.shape)
        some = torch.rand(segments.shape, generator=torch.Generator().manual_seed(1)) < 0.3
        assert torch.allclose(reader.read(ids, image, positions, segments, some), hidden[some.flatten()], atol=1e-4)
        rows = (segments > 0).nonzero()[:, 0]
        pixels = (tiles.float() / 127.5 - 1).unsqueeze(2).expand(-1, -1, 3, -1, -1)
        for row, segment in {*zip(rows.tolist(), segments[segments > 0].tolist(), strict=True)}:
            here = (segments[row] == 0) | (segments[row] == segment)
            alone = reader.model(input_ids=ids[row][here][None], pixel_values=pixels[row : row + 1]).logits
            assert torch.allclose(together[row][here], alone[0], atol=1e-3)


def test_multiplying_in_bfloat16_reads_nearly_the_same_and_keeps_the_names_of_the_weights() -> None:
    reader = Reader()
    reader.load_weights(FOLDER)
    tiles = torch.from_numpy(draw_batch(CLEAN, seed=1, step=3, rows=1).tiles).flatten(0, 1)
    names = list(reader.state_dict())
    with torch.no_grad():
        _, exact = reader.look(tiles)
        reader.multiply_in_bfloat16()
        _, rounded = reader.look(tiles)
    assert not torch.equal(rounded, exact)
    assert (rounded - exact).norm() < 0.03 * exact.norm()
    assert list(reader.state_dict()) == names


def test_the_processor_makes_the_same_tokens_and_tiles_as_training() -> None:
    (item, *_) = draw_items("dense", 1)
    page = Image.open(io.BytesIO(item.image)).convert("RGB")
    content = [{"type": "image"}, {"type": "text", "text": "A"}]
    processor = make_processor()
    text = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
    made = processor(text=[text], images=[[page]], return_tensors="np")
    assert made["input_ids"][0].tolist() == [
        vocabulary.START,
        *vocabulary.encode("User: "),
        *vocabulary.image_tokens(2, 2),
        *vocabulary.encode("A"),
        vocabulary.END,
        *vocabulary.encode("\nAssistant: "),
    ]
    assert made["pixel_values"].shape == (1, 5, 3, 96, 96)
    grey = np.asarray(page.convert("L"), dtype=np.float32)
    assert np.allclose(made["pixel_values"][0, 1, 0], grey[:96, 96:] / 127.5 - 1, atol=1e-5)


def test_an_orthogonal_update_has_singular_values_near_one() -> None:
    matrices = torch.randn(3, 8, 20, generator=torch.Generator().manual_seed(1))
    for given in (matrices, matrices.mT):
        values = torch.linalg.svdvals(orthogonal(given))
        assert ((values > 0.6) & (values < 1.3)).all()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """A run of four steps, the rate falling over the last two, in one go."""
    plan = dataclasses.replace(_plan(tmp_path_factory.mktemp("whole"), 4), decay_steps=2)
    train(plan)
    return _checkpoint(plan)


def _is_same(got: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> bool:
    return got.keys() == expected.keys() and all(torch.equal(got[name], expected[name]) for name in expected)


def test_a_run_that_is_stopped_goes_on_as_if_it_had_not_been(whole: dict[str, torch.Tensor], tmp_path: Path) -> None:
    plan = dataclasses.replace(_plan(tmp_path, 4), decay_steps=2)
    asked = iter((False, True))
    train(plan, is_stopped=lambda: next(asked))
    assert torch.load(tmp_path / CHECKPOINT)["step"] == 2
    train(dataclasses.replace(plan, until=None, decay_steps=None, workers=2))
    assert _is_same(_checkpoint(plan), whole)


def test_who_draws_outlives_a_signal_to_the_whole_group(whole: dict[str, torch.Tensor], tmp_path: Path) -> None:
    """Else who trains could not save: a worker that dies ends it in the middle of a step."""
    plan = dataclasses.replace(_plan(tmp_path, 4), decay_steps=2)
    hit = set[int]()

    def signal_those_who_draw() -> bool:
        for worker in multiprocessing.active_children():
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGTERM)
            hit.add(worker.pid)
        return False

    train(plan, is_stopped=signal_those_who_draw)
    assert len(hit) == 1
    assert _is_same(_checkpoint(plan), whole)


def test_the_average_begins_as_the_weights_and_then_remembers(tmp_path: Path) -> None:
    stage = dataclasses.replace(RECIPES["v1"].stages[0], rows=1)
    for until, is_same in ((10, True), (11, False)):
        plan = _plan(tmp_path / str(until), until)
        train(dataclasses.replace(plan, recipe=Recipe(mixture=CLEAN, stages=(stage,), decay_steps=0)))
        kept = torch.load(plan.out / CHECKPOINT)
        inner = {name.removeprefix("model."): weight for name, weight in kept["reader"].items()}
        assert all(torch.equal(weight, inner[name]) for name, weight in kept["mean"].items()) == is_same


def test_a_run_that_starts_from_weights_begins_with_the_connector(tmp_path: Path) -> None:
    plan = dataclasses.replace(_plan(tmp_path, 2), start=FOLDER, recipe=RECIPES["v1"])
    first = plan.recipe.first_step_of("connector")
    train(dataclasses.replace(plan, until=first + 1, decay_steps=0))
    kept = torch.load(tmp_path / CHECKPOINT)
    assert (kept["began"], kept["step"]) == (first, first + 1)
    reader = Reader()
    reader.load_weights(FOLDER)
    text = "model.model.text_model.layers.0.self_attn.q_proj.weight"
    assert torch.equal(kept["reader"][text], reader.state_dict()[text])
    with pytest.raises(FileNotFoundError, match="nowhere"):
        train(dataclasses.replace(plan, out=tmp_path / "other", start=Path("nowhere"), decay_steps=0))


def test_a_stage_that_names_no_characters_trains_the_text_model_alone() -> None:
    torch.manual_seed(2)
    reader = Reader()
    before = {name: weight.clone() for name, weight in reader.named_parameters()}
    stage = dataclasses.replace(RECIPES["v1"].stages[-1], rows=1, connector=0)
    batch = draw_batch(CLEAN, seed=1, step=3, rows=1)
    train_step(reader, Optimizers(reader), batch, stage, learning_rate=0.1, tally=Tally())
    changed = {name for name, weight in reader.named_parameters() if not torch.equal(weight, before[name])}
    assert changed == {name for name in before if "text_model" in name}


def test_a_run_goes_on_as_what_it_began_and_not_beyond_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = _plan(tmp_path, until=1)
    train(plan)
    train(plan)
    assert capsys.readouterr().out == f"{NOTHING_LEFT.format(step=1, until=1)}\n"
    for other, option in (
        (dataclasses.replace(plan, seed=5), "--seed"),
        (dataclasses.replace(plan, is_rounded=True), "--bfloat16"),
        (dataclasses.replace(plan, start=FOLDER), "--start"),
        (dataclasses.replace(plan, recipe=dataclasses.replace(plan.recipe, decay_steps=7)), "recipe"),
    ):
        with pytest.raises(SystemExit, match=f"{option}.*--out"):
            train(dataclasses.replace(other, until=2))


def test_the_learning_rate_rises_and_falls_in_every_stage_and_at_the_end() -> None:
    naming, *_, reading = RECIPES["v1"].stages
    naming = dataclasses.replace(naming, steps=300, decay_steps=100)
    recipe = Recipe(mixture=CLEAN, stages=(naming, reading), decay_steps=100)
    schedule = Schedule(recipe=recipe, until=1000, decay_steps=100)
    assert [schedule.rate_at(step) for step in (0, 49, 99, 200, 250, 299)] == [0.01, 0.5, 1, 1, 0.5, 0.1]
    assert [schedule.rate_at(step) for step in (300, 349, 399, 500, 950, 999)] == [0.01, 0.5, 1, 1, 0.5, 0.01]


def test_a_rate_that_would_fall_over_more_steps_than_there_are_is_refused(tmp_path: Path) -> None:
    plan = dataclasses.replace(_plan(tmp_path, 2), decay_steps=3000)
    with pytest.raises(SystemExit, match=r"3000 of 2 .*--decay"):
        train(plan)


@pytest.mark.parametrize(("option", "value"), [("--decay", "-1"), ("--until", "0"), ("--workers", "x")])
def test_a_count_that_is_none_is_refused(
    option: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["v1", "--out", str(tmp_path), "--until", "1", option, value])
    assert f"argument {option}: '{value}'" in capsys.readouterr().err


def test_a_new_end_has_the_recipe_s_decay_and_no_end_the_one_given_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = dataclasses.replace(RECIPES["v1"].stages[0], rows=1)
    plan = dataclasses.replace(_plan(tmp_path, None), recipe=Recipe(mixture=CLEAN, stages=(stage,), decay_steps=2))
    for until, decay_steps, kept in ((2, 0, (2, 0)), (None, None, (2, 0)), (4, None, (4, 2))):
        train(dataclasses.replace(plan, until=until, decay_steps=decay_steps))
        saved = torch.load(tmp_path / CHECKPOINT)
        assert (saved["until"], saved["decay_steps"]) == kept
    assert capsys.readouterr().out.count(NOTHING_LEFT.partition(":")[0]) == 1


@pytest.mark.parametrize("version", tiny.versions()[1:])
def test_a_version_is_byte_by_byte_what_the_command_writes(version: str, tmp_path: Path) -> None:
    reader = Reader()
    reader.load_weights(tiny.path("config.json", version).parent)
    torch.save({"mean": reader.model.state_dict()}, tmp_path / CHECKPOINT)
    export(tmp_path / CHECKPOINT, tmp_path / "files")
    for name in tiny.names(version):
        assert (tmp_path / "files" / name).read_bytes() == tiny.path(name, version).read_bytes(), name


def test_exports_of_the_same_weights_are_the_same_bytes_and_those_of_the_first_version(tmp_path: Path) -> None:
    reader = Reader()
    reader.load_weights(FOLDER)
    torch.save({"mean": reader.model.state_dict()}, tmp_path / CHECKPOINT)
    for name in ("first", "second"):
        export(tmp_path / CHECKPOINT, tmp_path / name)
    first, second = (
        {file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("first", "second")
    )
    assert first == second
    assert sum(map(len, first.values())) < 14_000_000
    assert first["model.safetensors"] == tiny.path("model.safetensors").read_bytes()
    for name in (name for name in tiny.names() if name.endswith(".gguf")):
        ours, committed = (gguf.GGUFReader(file).tensors for file in (tmp_path / "first" / name, tiny.path(name)))
        kept = {tensor.name: tensor.data for tensor in committed}
        assert {tensor.name for tensor in ours} == set(kept)
        assert all(np.array_equal(tensor.data, kept[tensor.name]) for tensor in ours)
    with pytest.raises(FileExistsError):
        export(tmp_path / CHECKPOINT, tmp_path / "first")
