"""Text metrics: exact match, ANLS, CER, WER, BLEU, accuracy."""
