"""The DeepSeek-OCR adapter: vLLM with the model's own prompts, stop text and rule against repetition."""
