"""Text metrics: exact match, token F1, ANLS, CER, WER, BLEU, chrF, TER, ROUGE, VQA accuracy, classes and more."""
