"""What a server needs of a model: texts in, plain data out."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal

from quintain import errors
from quintain.nlp import classifier as classifier_lib
from quintain.nlp import translator as translator_lib
from quintain.nlp.serving import exporter, trained_run
from quintain.nlp.tasks import translation

Texts = Sequence[Any]
"""Strings, or lists of strings of a model of several text fields."""


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """A model, ready to answer."""

    kind: Literal["translation", "sentence_prediction"]
    """What it does."""

    run: Callable[[Texts], list[dict[str, Any]]]
    """Answers texts, each by a dictionary of plain data."""

    check: Callable[[Texts], None]
    """Raises a `DataError` that says which text can't be answered, counted from 1, and why."""

    num_fields: int = 1
    """Texts of an example."""

    def warm_up(self) -> None:
        """Answers something, so that the first request does not wait for the graph."""
        self.run(["a"] if self.num_fields == 1 else [["a"] * self.num_fields])


def load(
    model_dir: str,
    *,
    checkpoint: str | None = None,
    max_source_length: int | None = None,
    **decoding: Any,
) -> ServedModel:
    """Loads a run, or an export.

    Args:
        model_dir: Directory of a run, or one that `quintain export` wrote.
        checkpoint: Checkpoint of a run. None takes the newest.
        max_source_length: Most tokens of a text to translate, if less than that of an export or
            `exporter.MAX_SOURCE_LENGTH`.
        **decoding: Options of a translation run, such as `beam_size`.

    Raises:
        CheckpointError: If there is no checkpoint, or it does not fit.
        ConfigError: If the directory holds something else, or options that do not apply are given.
    """
    if exporter.is_export(model_dir):
        is_translation = exporter.Description.read(model_dir).kind == "translation"
    else:
        run = trained_run.find_task_config(model_dir, exporter.KINDS, checkpoint=checkpoint)
        is_translation = isinstance(run, translation.TranslationConfig)
    if is_translation:
        return _load_translation(model_dir, checkpoint, max_source_length, decoding)
    if decoding:
        raise errors.ConfigError(
            f"{', '.join(decoding)}: options of decoding, but {model_dir!r} predicts sentences."
        )
    return _load_classifier(model_dir, checkpoint)


def _load_translation(
    model_dir: str, checkpoint: str | None, limit: int | None, decoding: dict[str, Any]
) -> ServedModel:
    translator = translator_lib.Translator.load(model_dir, checkpoint=checkpoint)
    most = min(limit or translator.max_source_length, translator.max_source_length)
    translator.choose_options(**decoding)

    def check(texts: Texts) -> None:
        for number, count in enumerate(translator.count_tokens(texts), start=1):
            if count > most:
                raise errors.DataError(
                    f"text {number}: has {count:,} tokens, expected at most {most:,}."
                )

    def run(texts: Texts) -> list[dict[str, Any]]:
        found = translator.translate_with_scores(
            texts, batch_size=len(texts), max_source_length=most, **decoding
        )
        return [
            {
                "text": ways[0].text,
                "score": ways[0].score,
                **(
                    {"alternatives": [dataclasses.asdict(way) for way in ways[1:]]}
                    if len(ways) > 1
                    else {}
                ),
            }
            for ways in found
        ]

    return ServedModel("translation", run, check)


def _load_classifier(model_dir: str, checkpoint: str | None) -> ServedModel:
    classifier = classifier_lib.Classifier.load(model_dir, checkpoint=checkpoint)

    def run(texts: Texts) -> list[dict[str, Any]]:
        found = classifier.classify(texts, batch_size=len(texts))
        return [
            {"score": one.score}
            if one.label is None
            else {"label": one.label, "score": one.score, "probabilities": one.probabilities}
            for one in found
        ]

    return ServedModel(
        "sentence_prediction", run, lambda texts: None, num_fields=classifier.num_fields
    )
