"""Write the averaged weights of a checkpoint for every engine: `python -m training.export CHECKPOINT FOLDER`.

The files are reproducible: they depend on no time, machine or random number.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

from training import vocabulary
from training.gguf_files import QUANTIZATIONS, write_text_model, write_vision_tower
from training.network import make_model, make_processor
from training.options import run
from vlmhyperbench_tiny_doc_vlm import NAME

SUMS = "SHA256SUMS"


def main(arguments: list[str]) -> None:
    """Parse the command line, export, and print each file's size."""
    parser = argparse.ArgumentParser(prog="python -m training.export", description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("folder", type=Path, help="new, or empty")
    given = parser.parse_args(arguments)
    for file in export(given.checkpoint, given.folder):
        print(f"{file.stat().st_size:>9} {file.name}")


def export(checkpoint: Path, folder: Path) -> list[Path]:
    """Write the Hugging Face files, the GGUF files and their checksums.

    Raises:
        FileExistsError: the folder is not empty; files of another export would get into the checksums.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty.")
    model = make_model()
    model.load_state_dict(torch.load(checkpoint, map_location="cpu")["mean"])
    model.generation_config.pad_token_id = vocabulary.PAD
    model.generation_config.bos_token_id = vocabulary.START
    model.generation_config.eos_token_id = vocabulary.END
    model.save_pretrained(folder)
    make_processor().save_pretrained(folder)

    weights = {key: weight.numpy() for key, weight in load_file(folder / "model.safetensors").items()}
    for quantization in QUANTIZATIONS:
        file = folder / f"{NAME}-{quantization}.gguf"
        write_text_model(file, weights, model.config, quantization=quantization, name=NAME)
    write_vision_tower(folder / f"{NAME}-mmproj-f16.gguf", weights, model.config, name=NAME)

    files = sorted(folder.iterdir())
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (folder / SUMS).write_text("".join(lines), encoding="ascii")
    return files


if __name__ == "__main__":
    sys.exit(run(main))
