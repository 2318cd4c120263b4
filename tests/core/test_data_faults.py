import pytest
import tensorflow as tf

from quintain import errors
from quintain.core import config_definitions as cfg
from quintain.core import data_faults

SPEC = {"x": tf.io.FixedLenFeature([], tf.float32)}


def write(path, values, *, compression=""):
    """Writes an example with the feature `x` for each value, floats as floats."""
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for value in values:
            feature = (
                tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
                if isinstance(value, float)
                else tf.train.Feature(int64_list=tf.train.Int64List(value=[value or 0]))
            )
            name = "y" if value is None else "x"
            features = tf.train.Features(feature={name: feature})
            writer.write(tf.train.Example(features=features).SerializeToString())


@pytest.fixture
def files(tmp_path):
    """Three whole files in a directory with an unusual name."""
    directory = tmp_path / "a [1] ü"
    directory.mkdir()
    paths = [directory / f"part-{number}.tfrecord" for number in range(3)]
    for path in paths:
        write(path, [1.0] * 5)
    return paths


def read(files):
    dataset = tf.data.TFRecordDataset([str(path) for path in files])
    return dataset.map(lambda record: tf.io.parse_single_example(record, SPEC))


def find(files, sources=None):
    dataset = read(files)
    with (
        pytest.raises(errors.DataError) as caught,
        data_faults.naming(lambda: sources or [dataset]),
    ):
        list(dataset)
    return str(caught.value)


def test_a_flipped_bit_is_found_in_its_file(files):
    content = bytearray(files[1].read_bytes())
    length = len(content) // 5
    content[2 * length + 20] ^= 4
    files[1].write_bytes(content)

    message = find(files)

    assert message.startswith(f"{files[1]}: record 3, at byte {2 * length + 12}, is damag")


def test_a_cut_file_is_named(files):
    files[2].write_bytes(files[2].read_bytes()[:-3])

    assert find(files).startswith(f"{files[2]}: record 5, at byte")


def test_text_is_no_file_of_records(files):
    files[1].write_text("hello world, and more of it", encoding="utf-8")

    message = find(files)

    assert message.startswith(f"{files[1]}: record 1")
    assert message.endswith(
        "Is it a TFRecord file? One that is compressed has a name that ends in '.gz'."
    )


def test_a_compressed_file_without_its_ending_is_named(files):
    write(files[1], [1.0], compression="GZIP")

    assert find(files).startswith(f"{files[1]}: record 1")


def test_a_file_that_is_gone_is_named(files):
    dataset = read(files)
    files[1].unlink()

    context = data_faults.naming(lambda: [dataset])
    with pytest.raises(errors.DataError, match=r"part-1.tfrecord: the file is not there"), context:
        list(dataset)


@pytest.mark.parametrize(
    ("value", "problem"),
    [(None, "has no feature 'x'; there are y"), (1, "has the feature 'x' as int64_list, expected")],
)
def test_the_record_that_lacks_a_feature_is_named(files, value, problem):
    write(files[1], [1.0, 1.0, value])

    assert find(files).startswith(f"{files[1]}: record 3 {problem}")


def test_files_of_a_config_are_looked_through(files, tmp_path):
    files[1].write_text("hello world, and more of it", encoding="utf-8")
    pattern = str(tmp_path / "a ?1? ü" / "*.tfrecord")

    assert find(files, [cfg.DataConfig(input_path=pattern)]).startswith(f"{files[1]}: record 1")


def test_an_error_of_something_else_stays_as_it_is(files):
    error = tf.errors.InvalidArgumentError(None, None, "Matrix size-incompatible")

    with pytest.raises(tf.errors.InvalidArgumentError), data_faults.naming(lambda: [read(files)]):
        raise error
