"""The transformers adapter and the server that batches requests to one Hugging Face model."""
