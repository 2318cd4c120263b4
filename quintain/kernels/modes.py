"""Values of `runtime.kernels`. Nothing here imports TensorFlow."""

import enum


class KernelMode(enum.StrEnum):
    """Kernels that training steps use."""

    AUTO = "auto"
    """The native ones where they can be built or loaded, else TensorFlow's."""

    NATIVE = "native"
    """The native ones; an error where that is impossible."""

    TENSORFLOW = "tensorflow"
    """TensorFlow's."""
