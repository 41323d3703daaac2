"""Write a tokenizer of a thousand words into a folder: peers require one, although the server counts the tokens."""

from __future__ import annotations

import json
import sys
from pathlib import Path

folder = Path(sys.argv[1])
vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2} | {f"w{number}": number + 3 for number in range(1000)}
tokenizer: dict[str, object] = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
}
marks = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
(folder / "tokenizer.json").write_text(json.dumps(tokenizer))
(folder / "tokenizer_config.json").write_text(
    json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 100_000, **marks})
)
(folder / "config.json").write_text(json.dumps({"model_type": "llama", "vocab_size": len(vocabulary)}))
