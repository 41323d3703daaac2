"""The SGLang adapter: SGLang's own OpenAI server, started with pinned arguments."""
