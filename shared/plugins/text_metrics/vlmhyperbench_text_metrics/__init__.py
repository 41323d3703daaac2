"""Text metrics: exact match, ANLS, CER, WER, BLEU, accuracy."""

from vlmhyperbench_text_metrics.accuracy import Accuracy
from vlmhyperbench_text_metrics.anls import Anls
from vlmhyperbench_text_metrics.bleu import Bleu
from vlmhyperbench_text_metrics.cer import Cer
from vlmhyperbench_text_metrics.exact_match import ExactMatch
from vlmhyperbench_text_metrics.wer import Wer

__all__ = ["Accuracy", "Anls", "Bleu", "Cer", "ExactMatch", "Wer"]
