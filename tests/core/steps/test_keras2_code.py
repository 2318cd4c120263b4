import keras
import tensorflow as tf

from quintain.core.steps import keras2_code


def test_losses_have_the_names_that_keras_has():
    keras2_code.complete_tf_keras()

    for part in (tf.keras.losses, tf.keras.metrics):  # noqa: TID251 - what users write
        assert part.mean_squared_error is keras.losses.mean_squared_error
        assert part.log_cosh is keras.losses.log_cosh
