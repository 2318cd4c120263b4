import numpy as np
import pytest
import tensorflow as tf

from quintain.garden.modeling import privacy_ops as ops
from quintain.modeling.privacy import configs


def test_gradients_are_scaled_by_the_norm_of_all_together():
    with pytest.warns(DeprecationWarning, match="clip_l2_norm"):
        pairs = ops.clip_l2_norm([(tf.constant([3.0]), "a"), (tf.constant([4.0]), "b")], 1.0)

    assert [name for _, name in pairs] == ["a", "b"]
    np.testing.assert_allclose([float(gradient[0]) for gradient, _ in pairs], [0.6, 0.8])


def test_noise_has_its_standard_deviation():
    with pytest.warns(DeprecationWarning, match="add_noise"):
        [(noisy, name)] = ops.add_noise([(tf.zeros([10_000]), "a")], 2.0)

    assert name == "a"
    np.testing.assert_allclose(np.std(noisy), 2.0, rtol=0.05)


def test_the_config_of_private_training_is_the_tasks():
    assert configs.DifferentialPrivacyConfig().noise_multiplier == 0.0
