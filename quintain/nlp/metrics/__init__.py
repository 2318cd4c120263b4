"""Scores of generated text."""

from quintain.nlp.metrics import bleu as bleu
