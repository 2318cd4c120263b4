"""Registered experiments on text; importing this package registers them."""

from quintain.nlp.experiments import fine_tuning as fine_tuning
from quintain.nlp.experiments import multitask_translation as multitask_translation
from quintain.nlp.experiments import pretraining as pretraining
from quintain.nlp.experiments import progressive_translation as progressive_translation
from quintain.nlp.experiments import retrieval as retrieval
from quintain.nlp.experiments import translation as translation
