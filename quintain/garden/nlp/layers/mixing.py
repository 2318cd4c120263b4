"""Token mixing without attention, for FNet and its kin.

They are called as attention is, with `query` and `value`, and use the query alone.

Shapes:
    B  examples in the batch
    S  positions
    D  width of the model
"""

import enum
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import override

from quintain.modeling import tf_utils

default_kernel_initializer = tf_utils.build_constant_initializer(2e-2)


class MixingMechanism(enum.StrEnum):
    """Mechanisms that mix positions."""

    FOURIER = "fourier"
    """By the Fourier transform."""

    HARTLEY = "hartley"
    """By the Hartley transform."""

    LINEAR = "linear"
    """By matrices that are learnt."""


class MixingLayer(keras.layers.Layer):
    """Base of mixing layers, which are called as attention is."""

    def __init__(self, name: str = "mixing", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    @override
    def call(self, query: tf.Tensor, value: tf.Tensor, **kwargs: Any) -> tf.Tensor:
        """Mixes the positions of `query`.

        Args:
            query: `[B, S, D]`.
            value: Not used, as other arguments of attention.
            **kwargs: Not used.

        Returns:
            `[B, S, D]`.
        """
        raise NotImplementedError("A mixing layer defines `call`.")


class _TransformLayer(MixingLayer):
    """A transform of the two last dimensions, by a fast algorithm or by matrices."""

    def __init__(self, use_fft: bool = False, name: str = "mixing", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.use_fft = use_fft

    @override
    def build(self, input_shape: Any) -> None:
        self._matrices = None if self.use_fft else [_build_dft(size) for size in input_shape[-2:]]
        self.built = True

    def transform(self, query: tf.Tensor) -> tf.Tensor:
        """Returns the Fourier transform of `[B, S, D]`, complex64."""
        x = tf.cast(query, tf.complex64)
        if self._matrices is None:
            return tf.signal.fft2d(x)
        over_positions, over_width = self._matrices
        return tf.matmul(over_positions, tf.matmul(x, over_width))

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "use_fft": self.use_fft}


def _build_dft(size: int) -> np.ndarray:
    """Returns the matrix of the discrete Fourier transform."""
    steps = np.arange(size)
    return np.exp(-2j * np.pi * np.outer(steps, steps) / size).astype(np.complex64)


@keras.saving.register_keras_serializable(package="Text")
class FourierTransformLayer(_TransformLayer):
    """The real part of the Fourier transform over positions and width.

    Source:
        Lee-Thorp et al., 2022 (https://aclanthology.org/2022.naacl-main.319).
    """

    def __init__(
        self, use_fft: bool = False, name: str = "fourier_transform", **kwargs: Any
    ) -> None:
        super().__init__(use_fft=use_fft, name=name, **kwargs)

    @override
    def call(self, query: tf.Tensor, value: tf.Tensor = None, **kwargs: Any) -> tf.Tensor:
        """Returns `[B, S, D]` float32."""
        return tf.math.real(self.transform(query))


@keras.saving.register_keras_serializable(package="Text")
class HartleyTransformLayer(_TransformLayer):
    """The real part of the Fourier transform less the imaginary one.

    Source:
        Lee-Thorp et al., 2022 (https://aclanthology.org/2022.naacl-main.319).
    """

    def __init__(
        self, use_fft: bool = False, name: str = "hartley_transform", **kwargs: Any
    ) -> None:
        super().__init__(use_fft=use_fft, name=name, **kwargs)

    @override
    def call(self, query: tf.Tensor, value: tf.Tensor = None, **kwargs: Any) -> tf.Tensor:
        """Returns `[B, S, D]` float32."""
        frequencies = self.transform(query)
        return tf.math.real(frequencies) - tf.math.imag(frequencies)


@keras.saving.register_keras_serializable(package="Text")
class LinearTransformLayer(MixingLayer):
    """Products with a matrix over positions and one over the width, both learnt.

    Source:
        Lee-Thorp and Ainslie, 2022 (https://arxiv.org/abs/2205.12399).
    """

    def __init__(
        self,
        kernel_initializer: Any = default_kernel_initializer,
        name: str = "linear_transform",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    @override
    def build(self, input_shape: Any) -> None:
        sizes = {"hidden_kernel": input_shape[-1], "seq_kernel": input_shape[-2]}
        self.mat_hidden, self.mat_seq = (
            self.add_weight(
                shape=(size, size),
                initializer=tf_utils.clone_initializer(self.kernel_initializer),
                name=name,
            )
            for name, size in sizes.items()
        )
        self.built = True

    @override
    def call(self, query: tf.Tensor, value: tf.Tensor = None, **kwargs: Any) -> tf.Tensor:
        """Returns `[B, S, D]`."""
        over_width = tf.matmul(query, tf.convert_to_tensor(self.mat_hidden))
        return tf.matmul(tf.convert_to_tensor(self.mat_seq), over_width)

    @override
    def get_config(self) -> dict[str, Any]:
        initializer = keras.initializers.serialize(self.kernel_initializer)
        return {**super().get_config(), "kernel_initializer": initializer}
