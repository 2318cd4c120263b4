import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.records.rows import trial
from quintain.trials import base_trial, trial_context
from quintain.trials.keras import keras_loaders, keras_trial

X = np.arange(22, dtype="float32")[:, None]


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return X[8 * index : 8 * index + 8], X[8 * index : 8 * index + 8]


class DataTrial(keras_trial.KerasTrial):
    """Data in batches of 8, 8 and 6."""

    make = staticmethod(lambda context: tf.data.Dataset.from_tensor_slices((X, X)).batch(8))

    def build_model(self):
        """Not needed."""

    def build_training_data_loader(self):
        return self.make(self.context)

    def build_validation_data_loader(self):
        return self.make(self.context)


class WrappedTrial(DataTrial):
    @staticmethod
    def make(context):
        data = context.wrap_dataset(tf.data.Dataset.from_tensor_slices((X, X)))
        return data.batch(context.get_per_slot_batch_size())


class SequenceTrial(DataTrial):
    make = staticmethod(lambda context: Batches())


class ArraysTrial(DataTrial):
    make = staticmethod(lambda context: (X, X))


class UndividedTrial(DataTrial):
    @staticmethod
    def make(context):
        return tf.data.Dataset.from_tensor_slices(X).batch(context.get_per_slot_batch_size())


def load(trial_class, rank, size, batch_size=8):
    spec = trial.TrialSpec(
        experiment_id=1,
        trial_id=1,
        experiment_config={},
        hparams={"global_batch_size": batch_size},
        seed=3,
        model_dir="",
        entrypoint=None,
        checkpoint_dir="",
        scratch_dir="",
        rank=rank,
        peers=tuple(trial.Peer("", "", "", number) for number in range(size)) * (size > 1),
    )
    context = trial_context.TrialContext(spec)
    call = functools.partial(base_trial.call_with_hparams, context=context)
    keras.utils.set_random_seed(3)
    return keras_loaders.Loaders(trial_class(context), context, call, is_own=True)


def read_training(loaders):
    """Returns the examples of three batches, batch by batch."""
    return [loaders.training.next_batch()[0].numpy()[:, 0].tolist() for _ in range(3)]


@pytest.mark.parametrize("trial_class", [DataTrial, SequenceTrial, ArraysTrial])
def test_a_step_of_all_processes_sees_the_batch_of_a_single_one(trial_class):
    alone = read_training(load(trial_class, 0, 1))

    parts = [read_training(load(trial_class, rank, 4)) for rank in range(4)]

    joined = [[number for part in parts for number in part[step]] for step in range(3)]
    assert joined == alone
    assert [[len(batch) for batch in part] for part in parts] == [
        [2, 2, 1],
        [2, 2, 2],
        [2, 2, 1],
        [2, 2, 2],
    ]


@pytest.mark.parametrize("trial_class", [DataTrial, SequenceTrial, ArraysTrial, WrappedTrial])
def test_each_example_is_validated_by_one_process(trial_class):
    seen = [
        number
        for rank in range(2)
        for batch in keras_loaders.keras_data.iterate(load(trial_class, rank, 2).validation)
        for number in batch[0].numpy()[:, 0].tolist()
    ]

    assert sorted(seen) == X[:, 0].tolist()


def test_data_that_were_divided_are_left_as_they_are():
    loaders = [load(WrappedTrial, rank, 2) for rank in range(2)]

    assert [each.has_own_position for each in loaders] == [True, True]
    assert [read_training(each)[0] for each in loaders] == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_a_batch_of_fewer_examples_than_processes_goes_to_all():
    assert keras_loaders.take_part(tf.constant([7]), 1, 3).numpy().tolist() == [7]


def test_batches_of_one_process_need_its_share_of_the_data():
    with pytest.raises(errors.TrialError, match=r"make\(\)|wrap_dataset\(dataset\).batch"):
        load(UndividedTrial, 0, 2)


def test_a_batch_has_an_example_for_each_process():
    with pytest.raises(base_trial.InvalidHP, match="got 3, expected at least 4"):
        load(WrappedTrial, 0, 4, batch_size=3)
