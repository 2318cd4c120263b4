"""Predicts classes, or numbers, of texts with a trained model."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.core import text_prediction
from quintain.hub import configs as hub_configs
from quintain.nlp.tasks import prediction_serving, sentence_prediction
from quintain.serving import exporter, servable, text_tensors, trained_run

BATCH_SIZE: Final = 64
"""Texts predicted together unless the caller says otherwise."""


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Prediction for a text."""

    label: str | None
    """Name of the most probable class; None of a regression."""

    score: float
    """Its probability; of a regression the number."""

    probabilities: dict[str, float]
    """Probabilities of all classes by name, the largest first; empty of a regression."""


class Classifier:
    """Predicts a class, or a number, of texts or of pairs of texts.

    Example:
        classifier = Classifier.load("runs/languages")
        classifier.classify(["Wo ist der Bahnhof?"])[0].label
    """

    def __init__(
        self,
        predict: Callable[[tf.Tensor], dict[str, tf.Tensor]],
        *,
        labels: Sequence[str] | None,
        num_fields: int,
    ) -> None:
        """Stores the parts.

        Args:
            predict: Maps strings `[B]`, or `[B, num_fields]`, to `probabilities` `[B, C]`, or
                `scores` `[B]` of a regression.
            labels: Names of the C classes; None if it is a regression.
            num_fields: Texts of an example.
        """
        self._predict = predict
        self._labels = labels
        self.num_fields = num_fields

    @classmethod
    def load(cls, model_dir: str, *, checkpoint: str | None = None) -> "Classifier":
        """Returns the classifier of a run's directory, or of one that `quintain export` wrote.

        Raises:
            CheckpointError: If there is no checkpoint or it does not fit.
            ConfigError: If the directory holds something else.
        """
        if exporter.is_export(model_dir):
            return cls._from_export(model_dir, checkpoint)
        kinds = (sentence_prediction.SentencePredictionConfig, hub_configs.HubConfig)
        run = trained_run.load(model_dir, kinds, checkpoint=checkpoint)
        if isinstance(run.task, sentence_prediction.SentencePredictionTask):
            return cls.from_module(prediction_serving.build_text_prediction(run.task, run.model))
        return cls.from_module(run.task.build_export_module(run.model))

    @classmethod
    def fits(cls, model_dir: str, *, checkpoint: str | None = None) -> bool:
        """Returns whether a directory holds a model of texts that `load` takes.

        Raises:
            CheckpointError: If there is no checkpoint, or an export is damaged.
            ConfigError: If `params.yaml` is missing or can't be read.
        """
        if exporter.is_export(model_dir):
            return exporter.find_kind(model_dir) == text_prediction.TextPrediction.kind
        if servable.find_keras_file(model_dir):
            return False
        config = trained_run.find_task_config(model_dir, checkpoint=checkpoint)
        if isinstance(config, hub_configs.HubConfig):
            return config.model.head == "text_classification"
        kind = sentence_prediction.SentencePredictionConfig
        return isinstance(config, kind) and isinstance(
            config.train_data, sentence_prediction.TextConfig
        )

    @classmethod
    def from_module(cls, module: Any) -> "Classifier":
        """Returns the classifier of a `TextPrediction`."""
        return cls(module.predictor, labels=module.labels, num_fields=module.num_fields)

    @classmethod
    def _from_export(cls, directory: str, checkpoint: str | None) -> "Classifier":
        exporter.refuse_checkpoint(checkpoint)
        description = exporter.Description.read_kind(directory, "sentence_prediction")
        loaded = exporter.load_saved_model(directory)
        serve = loaded.signatures[tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY]

        def predict(texts: tf.Tensor, model: Any = loaded) -> dict[str, tf.Tensor]:
            del model  # Only has to live as long as its function.
            return serve(inputs=texts)

        return cls(predict, labels=description.labels, num_fields=description.num_fields)

    def classify(
        self, texts: Sequence[str | Sequence[str]], batch_size: int = BATCH_SIZE
    ) -> list[Prediction]:
        """Predicts texts.

        Args:
            texts: Texts; of a model of several fields, a sequence of them for each example. What
                the model can't read at once is cut at the end.
            batch_size: Texts predicted at the same time.

        Returns:
            A prediction for each.

        Raises:
            ValueError: If `batch_size` is less than 1.
            DataError: If an example has another number of texts than the model, or one that can't
                be written as UTF-8.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size: got {batch_size!r}, expected an integer >= 1.")
        rows = [self._to_row(number, text) for number, text in enumerate(texts, start=1)]
        order = sorted(range(len(rows)), key=lambda place: sum(map(len, rows[place])))
        found: dict[int, Prediction] = {}
        for start in range(0, len(order), batch_size):
            places = order[start : start + batch_size]
            chosen = [rows[place] for place in places]
            inputs = [row[0] for row in chosen] if self.num_fields == 1 else chosen
            outputs = self._predict(tf.constant(inputs))
            found.update(zip(places, self._read(outputs), strict=True))
        return [found[place] for place in range(len(rows))]

    def classify_stream(
        self, texts: Iterable[str | Sequence[str]], batch_size: int = BATCH_SIZE
    ) -> Iterator[Prediction]:
        """Yields predictions one by one, reading `batch_size` texts ahead."""
        waiting: list[str | Sequence[str]] = []
        for text in texts:
            waiting.append(text)
            if len(waiting) == batch_size:
                yield from self.classify(waiting, batch_size)
                waiting = []
        yield from self.classify(waiting, batch_size)

    def _to_row(self, number: int, text: str | Sequence[str]) -> list[str]:
        row = [text] if isinstance(text, str) else list(text)
        if len(row) != self.num_fields:
            raise errors.DataError(
                f"example {number}: got {len(row)} texts, expected {self.num_fields}."
            )
        if not text_tensors.is_valid(row):
            raise errors.DataError(f"example {number}: is not valid Unicode.")
        return row

    def _read(self, outputs: dict[str, tf.Tensor]) -> list[Prediction]:
        if self._labels is None:
            return [Prediction(None, float(score), {}) for score in outputs["scores"].numpy()]
        return [_name_probabilities(self._labels, row) for row in outputs["probabilities"].numpy()]


def _name_probabilities(labels: Sequence[str], row: np.ndarray) -> Prediction:
    order = np.argsort(-row, kind="stable")
    probabilities = {labels[index]: float(row[index]) for index in order}
    return Prediction(labels[order[0]], float(row[order[0]]), probabilities)
