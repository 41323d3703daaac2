"""Text metrics: exact match, token F1, ANLS, CER, WER, BLEU, chrF, TER, ROUGE, VQA accuracy, classes and more."""

from vlmhyperbench_text_metrics.accuracy import Accuracy
from vlmhyperbench_text_metrics.anls import Anls
from vlmhyperbench_text_metrics.bleu import Bleu
from vlmhyperbench_text_metrics.cer import Cer
from vlmhyperbench_text_metrics.chrf import Chrf
from vlmhyperbench_text_metrics.classification import Classification
from vlmhyperbench_text_metrics.confusion import ClassScores, Confusion, confusion_of
from vlmhyperbench_text_metrics.exact_match import ExactMatch
from vlmhyperbench_text_metrics.relaxed_accuracy import RelaxedAccuracy
from vlmhyperbench_text_metrics.rouge import Rouge
from vlmhyperbench_text_metrics.ter import Ter
from vlmhyperbench_text_metrics.token_f1 import TokenF1
from vlmhyperbench_text_metrics.vqa_accuracy import VqaAccuracy
from vlmhyperbench_text_metrics.wer import Wer

__all__ = [
    "Accuracy",
    "Anls",
    "Bleu",
    "Cer",
    "Chrf",
    "ClassScores",
    "Classification",
    "Confusion",
    "ExactMatch",
    "RelaxedAccuracy",
    "Rouge",
    "Ter",
    "TokenF1",
    "VqaAccuracy",
    "Wer",
    "confusion_of",
]
