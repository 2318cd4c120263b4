"""Trained models that answer about the words of texts: labels, entities, and parts that answer.

Shapes:
    B  examples in the batch
    S  positions
    C  classes
"""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.nlp.data.labelled_tokens import (
    squad_features,
    squad_files,
    tagged_sentences,
    token_examples,
)
from quintain.nlp.metrics import entity_scores
from quintain.serving import exporter, instances, servable, text_tensors

MAX_TEXT_BYTES: Final = 100_000
"""Longest text."""

_MAX_ALTERNATIVES: Final = 4

_WORDS: Final = re.compile(r"\w+(?:['\u2019.-]\w+)*|[^\w\s]")
"""Words as files of tagged sentences have them: punctuation apart, but not within a word."""


@dataclasses.dataclass(frozen=True)
class TokenModel:
    """A model of token ids and what cuts words into them, of a run or of an export."""

    tokenize: token_examples.Tokenizer
    """Cuts words into tokens."""

    serve: Callable[..., Mapping[str, tf.Tensor]]
    """The function of a `token_task.TokenModule`."""

    details: Mapping[str, Any]
    """What the module says of itself."""

    owner: Any
    """The module, which has to live as long as its functions."""

    @classmethod
    def load(cls, model_dir: str, found: servable.Servable | None) -> "TokenModel":
        """Returns the model of a run that is loaded, or of the export in a directory."""
        if found is not None:
            module: Any = found.module
            tokenizer = token_examples.build_tokenizer(module.tokenize)
            return cls(tokenizer, module.serve, module.describe(), module)
        description = exporter.Description.read(model_dir)
        loaded = exporter.load_saved_model(model_dir)
        cut = loaded.signatures["tokenize"]
        tokenizer = token_examples.build_tokenizer(lambda words: cut(words=words))
        serve = loaded.signatures[tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY]
        details = {**description.details, "labels": description.labels}
        return cls(tokenizer, serve, details, loaded)

    @property
    def special_ids(self) -> token_examples.SpecialIds:
        """Ids of the special tokens."""
        return token_examples.SpecialIds(*self.details["special_ids"])

    def run(
        self, examples: Sequence[token_examples.Example], batch_size: int
    ) -> dict[str, np.ndarray]:
        """Returns the outputs of examples, one row each."""
        names = ("input_word_ids", "input_mask", "input_type_ids")
        found: dict[str, list[np.ndarray]] = {}
        for start in range(0, len(examples), batch_size):
            chunk = examples[start : start + batch_size]
            batch = {name: np.stack([one[name] for one in chunk]) for name in names}
            outputs = self.serve(
                **{name: tf.constant(values, tf.int32) for name, values in batch.items()}
            )
            for name, value in outputs.items():
                found.setdefault(name, []).append(value.numpy())
        return {name: np.concatenate(parts) for name, parts in found.items()}


def check_text(value: Any, name: str, most_bytes: int) -> None:
    """Refuses what is no text, or too long.

    Raises:
        DataError: Naming the text.
    """
    if not isinstance(value, str):
        raise errors.DataError(f"{name}: got {errors.show(value)[:80]}, expected a string.")
    if not text_tensors.is_valid(value):
        raise errors.DataError(f"{name}: is not valid Unicode.")
    if (count := len(value.encode())) > most_bytes:
        raise errors.DataError(f"{name}: has {count:,} bytes, expected at most {most_bytes:,}.")


@dataclasses.dataclass(frozen=True)
class _WordModel:
    """A model that answers about words."""

    model: TokenModel
    """Its model."""

    image_input: ClassVar = None
    """Input that takes encoded images: none."""

    gaps: ClassVar = instances.NO_GAPS
    """What instances may lack: nothing."""


@dataclasses.dataclass(frozen=True)
class Tagger(_WordModel):
    """Labels the words of texts."""

    inputs: ClassVar = {"text": tf.TensorSpec([None], tf.string)}
    """What files of instances have."""

    def parse(self, instance: Any) -> Any:
        """Returns a text, a list of words, or a mapping with a `text`, as `run` takes it.

        Raises:
            DataError: If it is something else, or too long.
        """
        if isinstance(instance, Mapping) and list(instance) == ["text"]:
            instance = instance["text"]
        if not isinstance(instance, list):
            check_text(instance, "text", MAX_TEXT_BYTES)
        else:
            for word in instance:
                check_text(word, "word", MAX_TEXT_BYTES)
            check_text(" ".join(instance), "text", MAX_TEXT_BYTES)
            if not all(map(str.strip, instance)):
                raise errors.DataError(f"words: got {errors.show(instance)[:80]}, one is empty.")
        return instance

    def run(self, texts: Sequence[Any], batch_size: int) -> list[dict[str, Any]]:
        """Labels the words of texts.

        Returns:
            For each text its `words` and their `labels`; and where one of the classes is `O`
            `entities`, each with `label`, `text`, the characters `start` to `end` of the text (of
            words, with a space between), and `score`, the least probability of its labels.
        """
        rows = [_find_words(text) for text in texts]
        examples = list(
            tagged_sentences.encode(
                (([word for _, word in row], [0] * len(row)) for row in rows),
                self.model.tokenize,
                self.model.special_ids,
                self.model.details["seq_length"],
            )
        )
        if not examples:
            return []
        logits = self.model.run(examples, batch_size)["logits"].astype(np.float64)  # [B, S, C]
        parts: list[list[np.ndarray]] = [[] for _ in texts]
        for example, row in zip(examples, logits, strict=True):
            is_word = example["label_ids"] != tagged_sentences.IGNORED
            parts[int(example["sentence_id"][0])].append(row[is_word])
        names = self.model.details["labels"]
        return [
            _describe_tags(text, row, np.concatenate(part), names)
            for text, row, part in zip(texts, rows, parts, strict=True)
        ]


@dataclasses.dataclass(frozen=True)
class Answerer(_WordModel):
    """Answers questions on paragraphs."""

    inputs: ClassVar = {
        "question": tf.TensorSpec([None], tf.string),
        "context": tf.TensorSpec([None], tf.string),
    }
    """What files of instances have."""

    def parse(self, instance: Any) -> squad_files.Question:
        """Returns a mapping with `question` and `context` as `run` takes it.

        Raises:
            DataError: If it is something else, or too long.
        """
        if not isinstance(instance, Mapping) or set(instance) != set(self.inputs):
            raise errors.DataError(
                f"got {errors.show(instance)[:80]}, expected an object with question and context."
            )
        for name in self.inputs:
            check_text(instance[name], name, MAX_TEXT_BYTES)
        return squad_files.Question("", instance["question"], instance["context"])

    def run(
        self, questions: Sequence[squad_files.Question], batch_size: int
    ) -> list[dict[str, Any]]:
        """Answers questions.

        Returns:
            For each the `answer`, empty where there is none; the characters `start` to `end` of
            the context; its `score`, a probability among the `alternatives`, which are the next
            best answers likewise. Where questions may have no answer, `null_odds` say how much
            more likely, in logits, that is.
        """
        details = self.model.details
        windows = list(
            squad_features.encode(
                questions,
                self.model.tokenize,
                self.model.special_ids,
                squad_features.WindowSettings(**details["windows"]),
            )
        )
        examples = [window.example for window in windows]
        outputs = self.model.run(examples, batch_size) if examples else {}
        by_question: list[list[Any]] = [[] for _ in questions]
        for row, window in enumerate(windows):
            logits = (outputs[name][row] for name in ("start_logits", "end_logits"))
            by_question[window.index].append((window, *logits))
        settings = squad_features.RankingSettings(**details["ranking"])
        return [
            _describe_answers(squad_features.rank(question, found, settings), settings)
            for question, found in zip(questions, by_question, strict=True)
        ]


def _describe_answers(
    ranking: squad_features.Ranking, settings: squad_features.RankingSettings
) -> dict[str, Any]:
    scores = np.array([answer.score for answer in ranking.answers])
    odds = np.exp(scores - scores.max(initial=-np.inf))
    probabilities = (odds / odds.sum()).tolist() if len(scores) else []
    described = [
        {"answer": one.text, "start": one.start, "end": one.end, "score": probability}
        for one, probability in zip(ranking.answers, probabilities, strict=True)
    ]
    place = next((n for n, one in enumerate(described) if one["answer"] == ranking.best), None)
    nothing = {"answer": "", "start": 0, "end": 0, "score": 0.0}
    best = nothing if place is None else described.pop(place)
    null = {"null_odds": ranking.null_odds} if settings.has_null else {}
    return {**best, **null, "alternatives": described[:_MAX_ALTERNATIVES]}


def _find_words(text: str | Sequence[str]) -> list[tuple[int, str]]:
    """Returns words and where they begin: of a text, or of words with a space between."""
    if isinstance(text, str):
        return [(found.start(), found.group()) for found in _WORDS.finditer(text)]
    starts = np.cumsum([0, *(len(word) + 1 for word in text)])
    return list(zip(starts.tolist(), text, strict=False))


def _describe_tags(
    text: str | Sequence[str],
    words: Sequence[tuple[int, str]],
    logits: np.ndarray,
    names: Sequence[str],
) -> dict[str, Any]:
    labels = [names[index] for index in logits.argmax(axis=1)]
    described: dict[str, Any] = {"words": [word for _, word in words], "labels": labels}
    if tagged_sentences.OUTSIDE not in names:
        return described
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    scores = (odds.max(axis=1) / odds.sum(axis=1)).tolist() if len(words) else []
    whole = text if isinstance(text, str) else " ".join(text)
    entities = []
    for entity in entity_scores.find_entities(labels):
        last_start, last = words[entity.end - 1]
        start, end = words[entity.start][0], last_start + len(last)
        entities.append(
            {
                "label": entity.kind,
                "text": whole[start:end],
                "start": start,
                "end": end,
                "score": min(scores[entity.start : entity.end]),
            }
        )
    return {"entities": entities, **described}
