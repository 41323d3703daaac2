"""Training computes what the exported model computes, goes on where it stopped, and exports the same bytes twice."""

from __future__ import annotations

import dataclasses
import io
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
from training.train import CHECKPOINT, Plan, rate_at, train

import vlmhyperbench_tiny_doc_vlm as tiny

CLEAN = Mixture(tiers={"clean": 1}, dense=0, digits=0, habits=FIRST_HABITS)
FOLDER = tiny.path("config.json").parent


def _plan(out: Path, until: int) -> Plan:
    stages = tuple(dataclasses.replace(stage, rows=2, steps=1) for stage in RECIPES["v1"].stages)
    recipe = Recipe(mixture=CLEAN, stages=stages, decay_steps=0)
    return Plan(recipe=recipe, out=out, start=None, seed=1, device="cpu", until=until, decay_steps=0, workers=1)


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


def test_a_run_that_was_cut_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    whole, cut = _plan(tmp_path / "whole", 4), _plan(tmp_path / "cut", 2)
    train(whole)
    train(cut)
    train(dataclasses.replace(cut, until=4, workers=2))
    expected, got = _checkpoint(whole), _checkpoint(cut)
    assert expected.keys() == got.keys()
    assert all(torch.equal(expected[name], got[name]) for name in expected)


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
    assert capsys.readouterr().out == (
        "Nothing is left to train: the next step would be 1, and the run ends before 1.\n"
    )
    for other, option in (
        (dataclasses.replace(plan, seed=5), "--seed"),
        (dataclasses.replace(plan, is_rounded=True), "--bfloat16"),
        (dataclasses.replace(plan, recipe=dataclasses.replace(plan.recipe, decay_steps=7)), "recipe"),
    ):
        with pytest.raises(SystemExit, match=f"begun with another {option}: give --out another folder"):
            train(dataclasses.replace(other, until=2))


def test_the_learning_rate_rises_and_falls_in_every_stage_and_at_the_end() -> None:
    naming, *_, reading = RECIPES["v1"].stages
    naming = dataclasses.replace(naming, steps=300, decay_steps=100)
    recipe = Recipe(mixture=CLEAN, stages=(naming, reading), decay_steps=100)
    plan = dataclasses.replace(_plan(Path(), 1000), recipe=recipe, decay_steps=100)
    assert [rate_at(plan, step) for step in (0, 49, 99, 200, 250, 299)] == [0.01, 0.5, 1, 1, 0.5, 0.1]
    assert [rate_at(plan, step) for step in (300, 349, 399, 500, 950, 999)] == [0.01, 0.5, 1, 1, 0.5, 0.01]


def test_the_second_version_is_byte_by_byte_what_the_command_writes(tmp_path: Path) -> None:
    reader = Reader()
    reader.load_weights(tiny.path("config.json", "0.2").parent)
    torch.save({"mean": reader.model.state_dict()}, tmp_path / CHECKPOINT)
    export(tmp_path / CHECKPOINT, tmp_path / "files", name="tiny-doc-vlm")
    for name in tiny.names("0.2"):
        assert (tmp_path / "files" / name).read_bytes() == tiny.path(name, "0.2").read_bytes(), name


def test_exports_of_the_same_weights_are_the_same_bytes_and_those_of_the_first_version(tmp_path: Path) -> None:
    reader = Reader()
    reader.load_weights(FOLDER)
    torch.save({"mean": reader.model.state_dict()}, tmp_path / CHECKPOINT)
    for name in ("first", "second"):
        export(tmp_path / CHECKPOINT, tmp_path / name, name="tiny-doc-vlm")
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
        export(tmp_path / CHECKPOINT, tmp_path / "first", name="tiny-doc-vlm")
