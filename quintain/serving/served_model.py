"""Interface of a served model: texts or other instances in, plain data out."""

import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from quintain import errors
from quintain.core import export_base
from quintain.hub import chat as chat_lib
from quintain.nlp.tasks import dual_encoder
from quintain.serving import classifier as classifier_lib
from quintain.serving import (
    exporter,
    instances,
    servable,
    signature_model,
    text_tensors,
    token_models,
)
from quintain.serving import translator as translator_lib

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

    kind: str
    """Kind of the model; see `ExportModule.kind`."""

    run: Callable[[Sequence[Any]], list[Any]]
    """Answers what `check` returned, each by plain data."""

    check: Callable[[Sequence[Any]], Sequence[Any]]
    """Returns instances as `run` takes them. Raises a `DataError` that says which can't be, counted
    from 1, and why."""

    example: Any
    """An instance."""

    path: str = "/predict"
    """Path of the server, besides that of TensorFlow Serving."""

    field: str = "texts"
    """Name of the instances in a request to `path`."""

    result: str = "predictions"
    """Name of the results in an answer."""

    schema: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """JSON Schema of an instance."""

    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Details that the server shows."""

    join: Callable[[Sequence[Any], Callable[[], bool]], list[Any]] | None = None
    """Like `run`, where several threads may call it, whose instances then share the work, so that
    nothing has to be gathered in batches. It is also given whether somebody waits for the answers
    still, and gives them up where nobody does. None where threads share nothing."""

    chat: chat_lib.Chat | None = None
    """What answers conversations; None of a model that does something else."""

    def warm_up(self) -> None:
        """Answers something, so that the first request does not wait for the graph."""
        self.run(self.check([self.example]))


def load(
    model_dir: str,
    *,
    checkpoint: str | None = None,
    batch_size: int = translator_lib.BATCH_SIZE,
    **options: Any,
) -> ServedModel:
    """Loads a run, or an export.

    Args:
        model_dir: Directory of a run, or of an export; or a Keras model, see `servable.load`.
        checkpoint: Checkpoint of a run. None takes the newest.
        batch_size: Most instances that the model is given at the same time.
        **options: Options of the task's `build_export_module`. An export, which has its own, takes
            those that change how it is asked.

    Raises:
        CheckpointError: If there is no checkpoint, or it does not fit.
        ConfigError: If the directory holds something else, or options that do not apply are given.
    """
    found, kind = _open(model_dir, checkpoint, options)
    if kind in _LOADERS:
        return _LOADERS[kind](model_dir, found, batch_size, options)
    if found is None and options:
        raise errors.ConfigError(
            f"{', '.join(options)}: an export of the kind {kind!r} takes no options; export the "
            "run anew with them."
        )
    model = (
        signature_model.SignatureModel.load(model_dir)
        if found is None
        else signature_model.SignatureModel.from_module(found.module)
    )
    served = _serve_signature(model, kind, batch_size)
    if kind != dual_encoder.TextEncoding.kind:
        return served
    return dataclasses.replace(served, field="texts", result="vectors")


PlainModel = signature_model.SignatureModel | token_models.Tagger | token_models.Answerer
"""Models that parse instances one by one."""


def load_plain(model_dir: str, *, checkpoint: str | None = None) -> PlainModel:
    """Loads a model to ask about instances, one by one: in words of its own, or by its signature.

    Raises:
        CheckpointError: If there is no checkpoint, or it does not fit.
        ConfigError: If the directory holds no model, or one without a signature.
    """
    found, kind = _open(model_dir, checkpoint, {})
    if kind in _TOKEN_MODELS:
        return _TOKEN_MODELS[kind](token_models.TokenModel.load(model_dir, found))
    if found is None:
        return signature_model.SignatureModel.load(model_dir)
    return signature_model.SignatureModel.from_module(found.module)


def _open(
    model_dir: str, checkpoint: str | None, options: Mapping[str, Any]
) -> tuple[servable.Servable | None, str]:
    """Loads a run, unless the directory is an export, and returns its kind."""
    if exporter.is_export(model_dir):
        exporter.refuse_checkpoint(checkpoint)
        return None, exporter.find_kind(model_dir)
    found = servable.load(model_dir, checkpoint=checkpoint, options=options)
    return found, found.module.kind


def _serve_translator(
    model_dir: str, found: servable.Servable | None, batch_size: int, options: dict[str, Any]
) -> ServedModel:
    if found is None:
        translator = translator_lib.Translator.load(model_dir)
    else:
        task: Any = found.task
        translator = translator_lib.Translator(
            found.module.model, task.tokenizer, task.target_tokenizer, kernels=found.kernels
        )
    decoding = dict(options)
    most = translator.choose_max_source_length(decoding.pop("max_source_length", None))
    settings = translator.choose_options(**decoding)
    max_bytes = max(MAX_TEXT_BYTES, most * _BYTES_PER_TOKEN)

    def check(texts: Texts) -> Texts:
        check_texts(texts, 1, max_bytes)
        number = 0
        for part in _split(texts):
            for count in translator.count_tokens(part):
                number += 1
                if count > most:
                    raise errors.DataError(
                        f"text {number}: has {count:,} tokens, expected at most {most:,}."
                    )
        return texts

    def join(texts: Texts, is_wanted: Callable[[], bool]) -> list[dict[str, Any]]:
        found = translator.translate_with_scores(
            texts,
            batch_size=batch_size,
            max_source_length=most,
            is_wanted=is_wanted,
            **decoding,
        )
        return [_describe_translations(ways) for ways in found]

    return ServedModel(
        "translation",
        lambda texts: join(texts, lambda: True),
        check,
        example="some text",
        path="/translate",
        result="translations",
        schema={"type": "string"},
        details={"num_fields": 1},
        join=join if translator.is_native(settings) else None,
    )


def check_texts(texts: Texts, num_fields: int, most: int) -> None:
    """Refuses what is no text, or too long for certain, before it costs the time to cut it.

    Raises:
        DataError: If an instance can't be answered; it says which, counted from 1.
    """
    for number, text in enumerate(texts, start=1):
        fields = [text] if isinstance(text, str) else text
        is_text = isinstance(fields, list) and all(isinstance(one, str) for one in fields)
        is_row = isinstance(text, list)
        if not is_text or len(fields) != num_fields or is_row != (num_fields > 1):
            expected = "a string" if num_fields == 1 else f"a list of {num_fields} strings"
            shown = json.dumps(text)[:80]
            raise errors.DataError(f"text {number}: got {shown}, expected {expected}.")
        if not text_tensors.is_valid(text):
            raise errors.DataError(f"text {number}: is not valid Unicode.")
        for field in fields:
            # A character has at most four bytes.
            if len(field) * 4 > most and (count := len(field.encode())) > most:
                raise errors.DataError(
                    f"text {number}: has {count:,} bytes, expected at most {most:,}."
                )


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


def _serve_classifier(
    model_dir: str, found: servable.Servable | None, batch_size: int, options: dict[str, Any]
) -> ServedModel:
    _refuse_options(options, model_dir, "predicts sentences")
    classifier = (
        classifier_lib.Classifier.load(model_dir)
        if found is None
        else classifier_lib.Classifier.from_module(found.module)
    )
    num_fields = classifier.num_fields

    def check(texts: Texts) -> Texts:
        check_texts(texts, num_fields, MAX_TEXT_BYTES)
        return texts

    def run(texts: Texts) -> list[dict[str, Any]]:
        found = classifier.classify(texts, batch_size=batch_size)
        return [_describe_prediction(one) for one in found]

    text = {"type": "string"}
    row = {"type": "array", "items": text, "minItems": num_fields, "maxItems": num_fields}
    return ServedModel(
        "sentence_prediction",
        run,
        check,
        example="some text" if num_fields == 1 else ["some text"] * num_fields,
        schema=text if num_fields == 1 else row,
        details={"num_fields": num_fields},
    )


def _describe_prediction(found: classifier_lib.Prediction) -> dict[str, Any]:
    score = _to_json(found.score)
    if found.label is None:
        return {"score": score}
    probabilities = {name: _to_json(value) for name, value in found.probabilities.items()}
    return {"label": found.label, "score": score, "probabilities": probabilities}


def _serve_chat(
    model_dir: str, found: servable.Servable | None, batch_size: int, options: dict[str, Any]
) -> ServedModel:
    _refuse_options(options, model_dir, "answers conversations as requests say")
    if found is None:  # An export has no tokenizer.
        loaded = signature_model.SignatureModel.load(model_dir)
        return _serve_signature(loaded, export_base.ExportModule.kind, batch_size)
    module: Any = found.module

    def check(texts: Texts) -> Texts:
        check_texts(texts, 1, MAX_TEXT_BYTES)
        return texts

    def run(texts: Texts) -> list[dict[str, Any]]:
        asked = [module.chat.answer([{"role": "user", "content": text}]) for text in texts]
        return [{"text": one.text, "finish_reason": one.finish_reason} for one in asked]

    return ServedModel(
        module.kind,
        run,
        check,
        example="some text",
        schema={"type": "string"},
        details={"num_fields": 1, "chat": "/v1/chat/completions"},
        chat=module.chat,
    )


def _serve_signature(
    model: signature_model.SignatureModel, kind: str, batch_size: int
) -> ServedModel:
    names = list(model.outputs)

    def run(examples: Sequence[Any]) -> list[Any]:
        found = model.run(examples, batch_size)
        # One output goes without its name, as TensorFlow Serving has it.
        return [one[names[0]] for one in found] if len(names) == 1 else list(found)

    return ServedModel(
        kind,
        run,
        model.check,
        example=model.example,
        field="instances",
        schema=instances.build_schema(model.inputs),
        details=model.describe(),
    )


def _serve_tagger(
    model_dir: str, found: servable.Servable | None, batch_size: int, options: dict[str, Any]
) -> ServedModel:
    _refuse_options(options, model_dir, "labels words")
    tagger = token_models.Tagger(token_models.TokenModel.load(model_dir, found))
    word = {"type": "string", "pattern": r"\S"}
    return ServedModel(
        "tagging",
        lambda texts: tagger.run(texts, batch_size),
        lambda texts: signature_model.parse_each(tagger.parse, texts, "text"),
        example="some text",
        schema={"anyOf": [{"type": "string"}, {"type": "array", "items": word}]},
        details={"labels": list(tagger.model.details["labels"])},
    )


def _serve_answerer(
    model_dir: str, found: servable.Servable | None, batch_size: int, options: dict[str, Any]
) -> ServedModel:
    _refuse_options(options, model_dir, "answers questions")
    answerer = token_models.Answerer(token_models.TokenModel.load(model_dir, found))
    return ServedModel(
        "question_answering",
        lambda questions: answerer.run(questions, batch_size),
        lambda given: signature_model.parse_each(answerer.parse, given, "instance"),
        example={"question": "Who?", "context": "some text"},
        field="instances",
        schema=instances.build_schema(answerer.inputs),
    )


def _refuse_options(options: Mapping[str, Any], model_dir: str, what: str) -> None:
    if options:
        raise errors.ConfigError(
            f"{', '.join(options)}: {model_dir!r} {what}, which takes no options."
        )


_LOADERS: Final = {
    "translation": _serve_translator,
    "sentence_prediction": _serve_classifier,
    "chat": _serve_chat,
    "tagging": _serve_tagger,
    "question_answering": _serve_answerer,
}
"""Kinds that are asked in words of their own."""

_TOKEN_MODELS: Final[dict[str, type[token_models.Tagger | token_models.Answerer]]] = {
    "tagging": token_models.Tagger,
    "question_answering": token_models.Answerer,
}
"""Those of them that parse instances one by one."""
