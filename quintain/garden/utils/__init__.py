"""Helpers of programs: shapes, activations, flags, callbacks, test fixtures.

It has the functions of `quintain.modeling.tf_utils` too. All load when they are first used.
"""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    ("flags", "hyperparams_flags", "misc", "testing"),
    find_names=lambda: _find_functions(),
)


def _find_functions() -> dict[str, str]:
    """Returns the functions of `tf_utils`, which programs know as `tfm.utils`."""
    from quintain.modeling import tf_utils  # noqa: PLC0415 - TensorFlow is loaded when it is used

    home = tf_utils.__name__
    return {name: home for name in vars(tf_utils) if not name.startswith("_")}
