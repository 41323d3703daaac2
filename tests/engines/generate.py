"""Answer questions by transformers' own `generate`, one at a time: `generate.py FOLDER < requests > answers`.

It runs in the engine's environment. Each line of its input is an OpenAI request, each line of its output a text.
"""

from __future__ import annotations

import base64
import io
import json
import sys

import torch
from PIL import Image
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoProcessor, AutoTokenizer


def main(folder: str) -> None:
    """Read the requests, and write the text of each answer as JSON."""
    torch.set_num_threads(1)
    has_vision = hasattr(AutoConfig.from_pretrained(folder), "vision_config")
    kind = AutoModelForImageTextToText if has_vision else AutoModelForCausalLM
    model = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa").eval()
    processor = (AutoProcessor if has_vision else AutoTokenizer).from_pretrained(folder)
    for line in sys.stdin:
        request = json.loads(line)
        messages = [_message(message, has_vision=has_vision) for message in request["messages"]]
        inputs = processor.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
        )
        with torch.inference_mode():
            tokens = model.generate(**inputs, do_sample=False, max_new_tokens=request["max_tokens"])
        answer = tokens[0, inputs["input_ids"].shape[1] :]
        print(json.dumps(processor.decode(answer, skip_special_tokens=True)), flush=True)


def _message(message: dict, *, has_vision: bool) -> dict:
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": [{"type": "text", "text": content}] if has_vision else content}
    return {**message, "content": [_part(part) for part in content]}


def _part(part: dict) -> dict:
    if part["type"] == "text":
        return part
    data = part["image_url"]["url"].partition(",")[2]
    return {"type": "image", "image": Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")}


if __name__ == "__main__":
    main(sys.argv[1])
