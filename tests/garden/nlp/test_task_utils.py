import tensorflow as tf

from quintain.garden.nlp import task_utils as utils


def test_a_dataset_is_predicted_to_its_end():
    dataset = tf.data.Dataset.range(5).batch(2)

    def collect(state, outputs):
        return (state or []) + [number for part in outputs for number in part.numpy().tolist()]

    assert utils.predict(lambda numbers: numbers * 10, collect, dataset) == [0, 10, 20, 30, 40]
