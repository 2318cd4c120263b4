"""Text tasks: the glue between a config, a model, its data and its scores.

Names load on first use, so that naming the package does not load TensorFlow.
"""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    (
        "masked_lm",
        "question_answering",
        "sentence_prediction",
        "tagging",
        "translation",
        "vocabulary",
    ),
    names={
        "electra_task": ("ElectraPretrainConfig", "ElectraPretrainTask"),
        "masked_lm": ("MaskedLMConfig", "MaskedLMTask"),
        "question_answering": ("QuestionAnsweringConfig", "QuestionAnsweringTask"),
        "sentence_prediction": ("SentencePredictionConfig", "SentencePredictionTask"),
        "tagging": ("TaggingConfig", "TaggingTask"),
        "translation": ("EncDecoder", "ModelConfig", "TranslationConfig", "TranslationTask"),
    },
)
