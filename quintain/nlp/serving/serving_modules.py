"""Language models with text in and text out, as SavedModels hold them."""

from quintain.nlp.tasks.prediction_serving import SentencePrediction as SentencePrediction
from quintain.nlp.tasks.translation_serving import TEXTS as TEXTS
from quintain.nlp.tasks.translation_serving import Translation as Translation
