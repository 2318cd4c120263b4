"""Registers the experiments of this package; importing it is all that is needed."""

from quintain.nlp.experiments import translation as translation
