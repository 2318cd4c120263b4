"""Writer of small data sets, for tests and trials of a pipeline."""

from collections.abc import Sequence
from typing import Final

import tensorflow as tf

from quintain import errors
from quintain.files import file_io

_COMPRESSIONS: Final = {
    "tfrecord": "",
    "tfrecords": "",
    "tfrecord_compressed": "GZIP",
    "tfrecords_gzip": "GZIP",
}


def write_small_dataset(
    examples: Sequence[tf.train.Example | tf.train.SequenceExample],
    output_path: str,
    file_type: str = "tfrecord",
) -> None:
    """Writes examples to one file, one after the other.

    Args:
        examples: `tf.train.Example`s or `tf.train.SequenceExample`s.
        output_path: The file. To be read as compressed by its name, it ends in `.gz`.
        file_type: `tfrecord` or `tfrecords`; `tfrecord_compressed` or `tfrecords_gzip`. Upper and
            lower case are the same.

    Raises:
        ConfigError: If the type is another. Riegeli files can't be written: nothing here reads
            them, and the package is none of the dependencies.
    """
    kind = file_type.lower()
    if kind == "riegeli":
        raise errors.ConfigError(
            f"file_type: got {file_type!r}, but the riegeli package is no dependency and nothing "
            "here reads its files. Use 'tfrecord' or 'tfrecord_compressed'."
        )
    if kind not in _COMPRESSIONS:
        raise errors.ConfigError(
            f"file_type: got {file_type!r}, which is unknown; expected one of "
            f"{', '.join(map(repr, _COMPRESSIONS))}.{errors.suggest(kind, list(_COMPRESSIONS))}"
        )
    file_io.check_writable(output_path, "output_path")
    with tf.io.TFRecordWriter(output_path, _COMPRESSIONS[kind]) as writer:
        for example in examples:
            writer.write(example.SerializeToString())
