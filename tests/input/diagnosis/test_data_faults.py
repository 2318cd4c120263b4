import gzip

import pytest
import tensorflow as tf

from quintain import errors
from quintain.input.diagnosis import data_faults
from quintain.settings import config_definitions as cfg

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


def find(files, sources=None, dataset=None):
    dataset = dataset or read(files)
    with (
        pytest.raises(errors.DataError) as caught,
        data_faults.data_errors_explained(lambda: sources or [dataset]),
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

    context = data_faults.data_errors_explained(lambda: [dataset])
    with pytest.raises(errors.DataError, match=r"part-1.tfrecord: the file is not there"), context:
        list(dataset)


@pytest.mark.parametrize(
    ("value", "problem"),
    [(None, "has no feature 'x'; there are y"), (1, "has the feature 'x' as int64_list, expected")],
)
def test_the_record_that_lacks_a_feature_is_named(files, value, problem):
    write(files[1], [1.0, 1.0, value])

    assert find(files).startswith(f"{files[1]}: record 3 {problem}")


def decode(path):
    return tf.data.TextLineDataset(str(path)).map(
        lambda line: tf.io.decode_csv(line, [0, tf.constant([], tf.int32)])
    )


def decode_batches(path):
    return decode(path).batch(2)


def split_and_convert(path):
    return tf.data.TextLineDataset(str(path)).map(
        lambda line: tf.strings.to_number(tf.strings.split(line, ","))
    )


def read_csv(path):
    return tf.data.experimental.CsvDataset(str(path), [0, 0])


def read_compressed(path):
    path.write_bytes(gzip.compress(path.read_bytes()))
    return tf.data.TextLineDataset(str(path), "GZIP").map(
        lambda line: tf.strings.to_number(tf.strings.split(line, ","))
    )


@pytest.mark.parametrize(
    ("line", "pipeline", "cause"),
    [
        ("3,b", decode, "Field 1 in record 0 is not a valid int32: b"),
        ("3,b", split_and_convert, "could not correctly convert string: b"),
        ("3,b", read_compressed, "could not correctly convert string: b"),
        ("3,b", read_csv, "Field 1 in record is not a valid int32: b"),
        ("3", decode_batches, "Expect 2 fields but have 1 in record"),
        ('"3,3"', decode, "Expect 2 fields but have 1 in record"),
        ("3,", decode, "Field 1 is required but missing in record 0!"),
    ],
)
def test_a_line_that_can_not_be_taken_is_named(tmp_path, line, pipeline, cause):
    path = tmp_path / "a [1] ü.csv"
    path.write_text(f"1,2\n5,6\n{line}\n7,8\n")

    message = find([], dataset=pipeline(path))

    assert message.startswith(f"{path}:3: {line!r}: InvalidArgumentError: ")
    assert cause in message


def test_files_of_a_config_are_looked_through(files, tmp_path):
    files[1].write_text("hello world, and more of it", encoding="utf-8")
    pattern = str(tmp_path / "a ?1? ü" / "*.tfrecord")

    assert find(files, [cfg.DataConfig(input_path=pattern)]).startswith(f"{files[1]}: record 1")


def test_an_error_of_something_else_stays_as_it_is(files):
    error = tf.errors.InvalidArgumentError(None, None, "Matrix size-incompatible")

    with (
        pytest.raises(tf.errors.InvalidArgumentError),
        data_faults.data_errors_explained(lambda: [read(files)]),
    ):
        raise error


@pytest.mark.parametrize("num_left", [1, 11, 12, 30])
def test_a_cut_is_found_before_the_first_step_however_little_is_left(files, num_left):
    """TensorFlow takes what is shorter than a header for the end of the file."""
    content = files[1].read_bytes()
    length = len(content) // 5
    files[1].write_bytes(content[: 2 * length + num_left])

    with pytest.raises(errors.DataError) as caught:
        data_faults.check_files(read(files).repeat())

    assert str(caught.value).startswith(f"{files[1]}: record 3, at byte {2 * length}, is ")


@pytest.mark.parametrize("text", [b"hello world", b"hello world, and more of it"])
def test_a_text_is_found_before_the_first_step(files, text):
    files[1].write_bytes(text)

    with pytest.raises(errors.DataError, match=r"part-1.tfrecord: is no TFRecord file"):
        data_faults.check_files(read(files))


@pytest.mark.parametrize("num_lost", [1, 8, 12, 45])
def test_a_cut_in_a_compressed_file_is_found_before_the_first_step(files, num_lost):
    write(files[1], [float(number) for number in range(5)], compression="GZIP")
    files[1].write_bytes(files[1].read_bytes()[:-num_lost])
    dataset = tf.data.TFRecordDataset(str(files[1]), compression_type="GZIP")

    with pytest.raises(errors.DataError, match=r"part-1.tfrecord: is damaged or cut"):
        data_faults.check_files(dataset)


def test_a_compressed_file_that_is_read_as_plain_is_found_before_the_first_step(files):
    write(files[1], [1.0], compression="GZIP")

    with pytest.raises(errors.DataError, match=r"part-1.tfrecord: is compressed with gzip, but"):
        data_faults.check_files(read(files))


def test_a_plain_file_that_is_read_as_compressed_is_found_before_the_first_step(files):
    dataset = tf.data.TFRecordDataset(str(files[1]), compression_type="GZIP")

    with pytest.raises(errors.DataError, match=r"part-1.tfrecord: is read as if it were compr"):
        data_faults.check_files(dataset)


def test_compression_that_is_known_by_the_name_is_no_fault(files):
    zipped = files[0].with_name("zipped.gz")
    write(zipped, [1.0], compression="GZIP")
    names = tf.data.Dataset.from_tensor_slices([str(path) for path in [*files, zipped]])

    data_faults.check_files(names.flat_map(data_faults.input_files.read_records))


def test_files_opened_in_a_function_are_looked_through_by_relative_names(files, monkeypatch):
    monkeypatch.chdir(files[0].parent)
    files[1].write_bytes(files[1].read_bytes()[:-3])
    names = tf.data.Dataset.from_tensor_slices([path.name for path in files])

    with pytest.raises(errors.DataError, match=r"^part-1.tfrecord: record 5"):
        data_faults.check_files(names.interleave(tf.data.TFRecordDataset).batch(2))


def test_empty_files_are_named_in_one_warning(files, caplog):
    for path in files[:2]:
        path.write_bytes(b"")

    data_faults.check_files(read(files))

    assert caplog.messages == [f"There is no record in {files[0]}, {files[1]}."]


def test_damage_that_the_pipeline_ignores_is_a_warning(files, caplog):
    files[1].write_bytes(files[1].read_bytes()[:-3])

    data_faults.check_files(read(files).ignore_errors())

    assert caplog.messages == [f"{files[1]}: record 5, at byte 132, is cut."]


def test_other_files_of_a_pipeline_are_left_alone(files, tmp_path):
    text = tmp_path / "words.txt"
    text.write_text("hello", encoding="utf-8")
    lines = tf.data.TextLineDataset(str(text))

    data_faults.check_files(tf.data.Dataset.zip(read(files), lines))


def test_a_pipeline_without_records_is_not_serialized(monkeypatch):
    monkeypatch.setattr(data_faults.pipeline_inspection, "serialize", pytest.fail)

    data_faults.check_files(tf.data.Dataset.range(3).map(lambda number: number + 1))
