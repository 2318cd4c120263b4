"""What a server needs of a model: texts in, plain data out."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal

from quintain import errors
from quintain.nlp.serving import classifier as classifier_lib
from quintain.nlp.serving import exporter, trained_run
from quintain.nlp.serving import translator as translator_lib
from quintain.nlp.tasks import translation

MAX_TEXT_BYTES: Final = 100_000
"""Longest text of a model that does not set a limit of its own."""

_BYTES_PER_TOKEN: Final = 64
"""More than any token of a vocabulary has."""

_CHECKED_BYTES: Final = 2**18
"""Texts that are cut into tokens at the same time only to count these. Cutting takes 250 times the
memory of the text."""

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

    max_text_bytes: int = MAX_TEXT_BYTES
    """Bytes of a text above which it need not be looked at."""

    def warm_up(self) -> None:
        """Answers something, so that the first request does not wait for the graph."""
        self.run(["a"] if self.num_fields == 1 else [["a"] * self.num_fields])


def load(
    model_dir: str,
    *,
    checkpoint: str | None = None,
    max_source_length: int | None = None,
    batch_size: int = translator_lib.BATCH_SIZE,
    **decoding: Any,
) -> ServedModel:
    """Loads a run, or an export.

    Args:
        model_dir: Directory of a run, or one that `quintain export` wrote.
        checkpoint: Checkpoint of a run. None takes the newest.
        max_source_length: Most tokens of a text to translate, if less than that of an export or
            `exporter.MAX_SOURCE_LENGTH`.
        batch_size: Most texts that the model is given at the same time, if a request has more.
        **decoding: Options of a translation run, such as `beam_size`.

    Raises:
        CheckpointError: If there is no checkpoint, or it does not fit.
        ConfigError: If the directory holds something else, or options that do not apply are given.
    """
    if exporter.is_export(model_dir):
        is_translation = exporter.Description.read(model_dir).kind == "translation"
    else:
        checkpoint = checkpoint or trained_run.choose_checkpoint(model_dir)
        config = trained_run.find_task_config(model_dir, exporter.KINDS, checkpoint=checkpoint)
        is_translation = isinstance(config, translation.TranslationConfig)
    if is_translation:
        translator = translator_lib.Translator.load(model_dir, checkpoint=checkpoint)
        return _serve_translator(translator, max_source_length, batch_size, decoding)
    given = [*decoding, *(["max_source_length"] if max_source_length is not None else [])]
    if given:
        raise errors.ConfigError(
            f"{', '.join(given)}: options of translation, but {model_dir!r} predicts sentences."
        )
    return _serve_classifier(
        classifier_lib.Classifier.load(model_dir, checkpoint=checkpoint), batch_size
    )


def _serve_translator(
    translator: translator_lib.Translator,
    limit: int | None,
    batch_size: int,
    decoding: dict[str, Any],
) -> ServedModel:
    most = translator.choose_max_source_length(limit)
    translator.choose_options(**decoding)

    def check(texts: Texts) -> None:
        number = 0
        for part in _split(texts):
            for count in translator.count_tokens(part):
                number += 1
                if count > most:
                    raise errors.DataError(
                        f"text {number}: has {count:,} tokens, expected at most {most:,}."
                    )

    def run(texts: Texts) -> list[dict[str, Any]]:
        found = translator.translate_with_scores(
            texts, batch_size=batch_size, max_source_length=most, **decoding
        )
        return [_describe_translations(ways) for ways in found]

    max_bytes = max(MAX_TEXT_BYTES, most * _BYTES_PER_TOKEN)
    return ServedModel("translation", run, check, max_text_bytes=max_bytes)


def _split(texts: Texts) -> Iterator[Texts]:
    """Yields texts in their order, a few at a time where they are long."""
    start, size = 0, 0
    for place, text in enumerate(texts):
        size += len(text)
        if size >= _CHECKED_BYTES:
            yield texts[start : place + 1]
            start, size = place + 1, 0
    yield texts[start:]


def _describe_translations(ways: Sequence[translator_lib.Translation]) -> dict[str, Any]:
    described = [{"text": way.text, "score": _to_json(way.score)} for way in ways]
    alternatives = {"alternatives": described[1:]} if len(described) > 1 else {}
    return {**described[0], **alternatives}


def _to_json(score: float) -> float | None:
    """Returns a number that JSON has; None for the others, as where no translation was found."""
    return score if math.isfinite(score) else None


def _serve_classifier(classifier: classifier_lib.Classifier, batch_size: int) -> ServedModel:
    def run(texts: Texts) -> list[dict[str, Any]]:
        found = classifier.classify(texts, batch_size=batch_size)
        return [_describe_prediction(one) for one in found]

    return ServedModel(
        "sentence_prediction", run, lambda texts: None, num_fields=classifier.num_fields
    )


def _describe_prediction(found: classifier_lib.Prediction) -> dict[str, Any]:
    score = _to_json(found.score)
    if found.label is None:
        return {"score": score}
    probabilities = {name: _to_json(value) for name, value in found.probabilities.items()}
    return {"label": found.label, "score": score, "probabilities": probabilities}
