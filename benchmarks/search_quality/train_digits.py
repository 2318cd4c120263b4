"""Makes `digits.npz`: the curves of small networks on scikit-learn's digits, by a `Trainer`.

python benchmarks/search_quality/train_digits.py FOLDER

All 512 configurations of `CHOICES` are trained three times for 30 epochs, and validated after each.
Those that differ in learning rate and seed alone share a traced loop. Each such group is a file in
FOLDER, so that the program goes on where it was stopped; in the end all become `digits.npz`.
"""

import itertools
import json
import os
import pathlib
import sys
from typing import Any, Final

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from sklearn import datasets

from quintain import orbit
from quintain.core import base_task, base_trainer
from quintain.settings import config_definitions as cfg

CHOICES: Final[dict[str, list[Any]]] = {
    "learning_rate": [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1],
    "width": [8, 16, 32, 72],
    "depth": [1, 3],
    "dropout": [0.0, 0.4],
    "batch_size": [32, 128],
    "optimizer": ["adam", "momentum"],
}
"""A grid, so that whatever a search asks for was trained; the learning rates come first."""

NUM_SEEDS: Final = 3
NUM_EPOCHS: Final = 30
NUM_TRAINED: Final = 1_152
"""Images to train on, a multiple of the batch sizes; the other 645 are one batch to validate on."""


class DigitsTask(base_task.Task):
    """Classification of digits; the data are given to the trainer."""

    def build_inputs(self, params: Any, input_context: Any = None) -> tf.data.Dataset:
        """Is not used."""
        raise NotImplementedError

    def build_losses(
        self, labels: tf.Tensor, model_outputs: tf.Tensor, aux_losses: Any = None
    ) -> tf.Tensor:
        """Returns the cross entropy."""
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model_outputs)
        return tf.reduce_mean(losses)


class Evaluator(orbit.StandardEvaluator):
    """Validates on one batch, without the trainer's copies of its state."""

    def __init__(self, model: keras.Model, images: np.ndarray, labels: np.ndarray) -> None:
        """Keeps the model."""
        data = tf.data.Dataset.from_tensors((images, labels)).repeat()
        options = orbit.StandardEvaluatorOptions(recreate_iterator_for_each_eval=False)
        super().__init__(data, options)
        self._model = model
        self._results = tf.Variable(tf.zeros(2))

    def eval_step(self, iterator: Any) -> None:
        """Measures loss and error."""
        images, labels = next(iterator)
        logits = self._model(images, training=False)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        is_wrong = tf.argmax(logits, -1, tf.int32) != labels
        error = tf.reduce_mean(tf.cast(is_wrong, tf.float32))
        self._results.assign([tf.reduce_mean(losses), error])

    def eval_end(self, *_: Any) -> dict[str, Any]:
        """Returns loss and error."""
        loss, error = self._results.numpy()
        return {"loss": loss, "error": error}


def load_data() -> tuple[np.ndarray, np.ndarray]:
    """Returns images and labels in an order that is the same for all."""
    digits = datasets.load_digits()
    order = np.random.RandomState(0).permutation(len(digits.target))
    return digits.data[order].astype(np.float32) / 16, digits.target[order].astype(np.int32)


def build_model(hparams: dict[str, Any]) -> keras.Model:
    """Returns the network of a configuration."""
    layers: list[Any] = [keras.Input((64,))]
    for _ in range(hparams["depth"]):
        layers += [
            keras.layers.Dense(hparams["width"], activation="relu"),
            keras.layers.Dropout(hparams["dropout"], seed=0),
        ]
    return keras.Sequential([*layers, keras.layers.Dense(10)])


class Group:
    """Trainings that share a loop."""

    def __init__(self, hparams: dict[str, Any]) -> None:
        """Builds model, optimizer and trainer."""
        images, labels = load_data()
        self._batch_size = hparams["batch_size"]
        self._train = (images[:NUM_TRAINED], labels[:NUM_TRAINED])
        self._model = build_model(hparams)
        self._evaluator = Evaluator(self._model, images[NUM_TRAINED:], labels[NUM_TRAINED:])
        self._optimizer = (
            keras.optimizers.Adam(0.0)
            if hparams["optimizer"] == "adam"
            else keras.optimizers.SGD(0.0, momentum=0.9)
        )
        config = cfg.ExperimentConfig(runtime=cfg.RuntimeConfig(distribution_strategy="off"))
        self._trainer = base_trainer.Trainer(
            config,
            DigitsTask(cfg.TaskConfig()),
            self._model,
            self._optimizer,
            evaluate=False,
            train_dataset=self._batch(0),
        )

    def _batch(self, seed: int) -> tf.data.Dataset:
        data = tf.data.Dataset.from_tensor_slices(self._train)
        shuffled = data.cache().shuffle(NUM_TRAINED, seed=seed).repeat()
        return shuffled.batch(self._batch_size, drop_remainder=True)

    def train(self, learning_rate: float, seed: int) -> tuple[list[float], list[float]]:
        """Returns loss and error of each epoch's validation."""
        random = keras.initializers.GlorotUniform(seed=keras.random.SeedGenerator(seed))
        for weight in self._model.variables:
            if weight.name == "kernel":
                weight.assign(random(weight.shape))
            elif "seed" in weight.path:
                weight.assign(np.array([seed, weight.shape[0]], weight.dtype))
            else:
                weight.assign(tf.zeros_like(weight))
        for variable in self._optimizer.variables:
            variable.assign(tf.zeros_like(variable))
        self._optimizer.learning_rate = learning_rate
        self._trainer.global_step.assign(0)
        self._trainer.train_iterator = iter(self._batch(seed))
        found: list[dict[str, float]] = []
        steps = NUM_TRAINED // self._batch_size
        controller = orbit.Controller(
            global_step=self._trainer.global_step,
            trainer=self._trainer,
            evaluator=self._evaluator,
            steps_per_loop=steps,
            eval_actions=[found.append],
        )
        controller.train_and_evaluate(NUM_EPOCHS * steps, eval_steps=1, eval_interval=steps)
        return [one["loss"] for one in found], [one["error"] for one in found]


def main() -> None:
    """Trains what is missing, and writes the table once nothing is."""
    here = pathlib.Path(__file__).parent
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    rates = CHOICES["learning_rate"]
    rest = {name: values for name, values in CHOICES.items() if name != "learning_rate"}
    shape = [len(values) for values in CHOICES.values()]
    table = np.zeros((2, *shape, NUM_SEEDS, NUM_EPOCHS), np.float32)
    for places in itertools.product(*map(range, shape[1:])):
        path = folder / f"{'-'.join(map(str, places))}.npy"
        if not path.exists():
            chosen = zip(rest.items(), places, strict=True)
            group = Group({name: values[place] for (name, values), place in chosen})
            curves = [[group.train(rate, seed) for seed in range(NUM_SEEDS)] for rate in rates]
            partial = path.with_suffix(".partial")
            with partial.open("wb") as file:
                np.save(file, np.moveaxis(np.array(curves, np.float32), 2, 0))
            partial.rename(path)
            keras.backend.clear_session()
            print(path.stem, flush=True)
        table[(slice(None), slice(None), *places)] = np.load(path)
    with np.errstate(over="ignore"):
        losses = np.minimum(np.nan_to_num(table[0], nan=np.inf), 1e4).astype(np.float16)
    errors = np.round(table[1] * (1797 - NUM_TRAINED)).astype(np.uint16)
    np.savez_compressed(
        here / "digits.npz", losses=losses, errors=errors, choices=json.dumps(CHOICES)
    )


if __name__ == "__main__":
    main()
