"""Files are found and read; the orders in which they are read are tested with the reader."""

import gzip
import itertools

import pytest
import tensorflow as tf
from tensorflow.python.autograph.impl import api

from quintain import errors
from quintain.input import dataset_fn, input_files
from quintain.settings import config_definitions as cfg


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Four files of three records: 0 1 2, 3 4 5, 6 7 8 and 9 10 11."""
    directory = tmp_path_factory.mktemp("records")
    for file in range(4):
        with tf.io.TFRecordWriter(str(directory / f"part-{file}.tfrecord")) as writer:
            for i in range(3):
                writer.write(str(3 * file + i).encode())
    return directory


def test_patterns_lists_and_comma_separated_paths_name_files(directory):
    first, second = (str(directory / f"part-{i}.tfrecord") for i in range(2))

    assert input_files.match_files(f"{second}, {first}") == [second, first]
    assert input_files.match_files([first, f"{directory}/part-?.tfrecord"])[:2] == [first, first]
    assert len(input_files.match_files(f"{directory}/*")) == 4


@pytest.mark.parametrize("input_path", ["", [], " , "])
def test_no_path_is_an_error(input_path):
    with pytest.raises(errors.ConfigError, match=r"input_path: got .*, expected a file"):
        input_files.match_files(input_path)


@pytest.mark.parametrize("input_path", [{"a": "b"}, 3, ["a", None]])
def test_what_is_no_path_is_an_error(input_path):
    with pytest.raises(errors.ConfigError, match="expected a string or a list of strings"):
        input_files.match_files(input_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none-*", "no file matches"),
        ("part-7.tfrecord", "Did you mean"),
        ("something else entirely", "Check the path."),
        ("gone/part-0.tfrecord", "there is no directory"),
        (".", "is a directory, expected a file"),
    ],
)
def test_a_path_that_names_no_file_is_an_error(directory, name, message):
    with pytest.raises(errors.DataError) as caught:
        input_files.match_files(str(directory / name), name="train_data.input_path")

    assert str(caught.value).startswith("train_data.input_path: ")
    assert message in str(caught.value)


def test_a_gz_name_means_compressed_records(directory, tmp_path):
    path = str(tmp_path / "records.gz")
    with tf.io.TFRecordWriter(path, options="GZIP") as writer:
        writer.write(b"7")

    reader = input_files.with_compression(tf.data.TFRecordDataset)

    assert list(reader(path).as_numpy_iterator()) == [b"7"]
    plain = reader(str(directory / "part-0.tfrecord"))
    assert list(plain.as_numpy_iterator()) == [b"0", b"1", b"2"]


def test_a_gz_name_means_compressed_lines(tmp_path):
    (tmp_path / "lines.txt").write_text("a\nb\n")
    (tmp_path / "lines.gz").write_bytes(gzip.compress(b"c\nd\n"))

    reader = input_files.with_compression(tf.data.TextLineDataset)

    assert list(reader(str(tmp_path / "lines.txt")).as_numpy_iterator()) == [b"a", b"b"]
    assert list(reader(str(tmp_path / "lines.gz")).as_numpy_iterator()) == [b"c", b"d"]


def test_readers_of_other_types_are_left_alone():
    assert input_files.with_compression(tf.data.FixedLengthRecordDataset) is (
        tf.data.FixedLengthRecordDataset
    )


def test_evaluation_reads_several_files_at_once_only_if_asked_to(directory):
    files = [str(directory / f"part-{i}.tfrecord") for i in range(2)]

    def read(cycle_length):
        params = cfg.DataConfig(is_training=False, cycle_length=cycle_length)
        dataset = input_files.read_files(files, params, input_files.read_records, seed=0)
        return [int(record) for record in dataset.as_numpy_iterator()]

    assert read(None) == [0, 1, 2, 3, 4, 5]
    assert read(2) == [0, 3, 1, 4, 2, 5]


def test_block_length_takes_consecutive_records(directory):
    params = cfg.DataConfig(is_training=False, cycle_length=2, block_length=2)
    files = [str(directory / f"part-{i}.tfrecord") for i in range(2)]

    dataset = input_files.read_files(files, params, input_files.read_records, seed=0)

    assert list(map(int, dataset.as_numpy_iterator())) == [0, 1, 3, 4, 2, 5]


def test_too_few_files_for_the_workers_are_named(directory, caplog):
    params = cfg.DataConfig(is_training=True)
    files = [str(directory / "part-0.tfrecord")]

    shares = [
        input_files.read_files(
            files, params, input_files.read_records, seed=0, num_pipelines=2, pipeline=i
        )
        for i in range(2)
    ]

    records = [list(map(int, itertools.islice(s.as_numpy_iterator(), 3))) for s in shares]
    assert records == [[0, 2, 1], [1, 0, 2]]
    assert "There are 1 files for 2 workers" in caplog.text


def test_an_order_without_seed_ignores_the_global_seed():
    def draw():
        tf.random.set_seed(3)
        return input_files.draw_uniform(8, seed=None, epoch=tf.constant(0)).numpy().tolist()

    assert draw() != draw()


def _write_lines(path, lines=("one and two", "three and four")):
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def test_files_that_are_not_what_they_should_be_are_named(tmp_path):
    text = _write_lines(tmp_path / "text.txt")
    not_compressed = _write_lines(tmp_path / "text.gz")

    with pytest.raises(errors.DataError, match=r"text\.txt' can't be read .*another dataset_fn"):
        input_files.check_readable([text], input_files.read_records, is_training=True)
    with pytest.raises(errors.DataError, match=r"a\.b: .*text\.gz' can't be read .*rename it"):
        input_files.check_readable(
            [not_compressed], input_files.read_lines, is_training=False, name="a.b"
        )
    compressed = dataset_fn.pick_dataset_fn("tfrecord_compressed")
    with pytest.raises(errors.DataError, match=r"text\.txt' can't be read"):
        input_files.check_readable([text], compressed, is_training=True)


def test_training_on_files_without_a_record_is_an_error(tmp_path):
    empty = [_write_lines(tmp_path / f"{i}.txt", ()) for i in range(4)]
    full = _write_lines(tmp_path / "full.txt")

    with pytest.raises(errors.DataError, match=r"'.*2\.txt' \.\.\.: there is no record to train"):
        input_files.check_readable(empty, input_files.read_lines, is_training=True)
    input_files.check_readable([*empty, full], input_files.read_lines, is_training=True)
    input_files.check_readable(empty, input_files.read_lines, is_training=False)


def test_files_of_ones_own_kind_are_not_looked_into():
    def read_nothing(path):
        raise AssertionError(path)

    input_files.check_readable(["any"], read_nothing, is_training=True)


def test_blank_is_what_python_takes_as_such(tmp_path):
    blank = ["", " ", "\t", "\v\f", "\x1c\x1f", "\x85", "\xa0", "\u1680", "\u2028\u2029", "\u3000"]
    filled = ["a", " a ", "\0", "\u200b", "\x85b"]
    (tmp_path / "a.txt").write_bytes("\n".join(["\ufeff", *blank, *filled, *blank]).encode())

    lines = list(input_files.read_filled_lines(str(tmp_path / "a.txt")).as_numpy_iterator())

    assert [line.decode() for line in lines] == filled
    assert [not line.strip() for line in blank + filled] == [True] * 10 + [False] * 5


@pytest.mark.parametrize("name", ["part[0].txt", "st*r.txt", "wh?t.txt", "a [1] ü.txt"])
def test_a_file_that_exists_is_that_file_whatever_its_name(tmp_path, name):
    for other in (name, "part0.txt", "star.txt", "what.txt"):
        (tmp_path / other).write_text("x")

    assert input_files.match_files(str(tmp_path / name)) == [str(tmp_path / name)]


def test_a_directory_that_exists_is_no_part_of_a_pattern(tmp_path):
    for directory in ("lr[0.1]", "lr0"):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "a.tsv").write_text("x")

    found = input_files.match_files(str(tmp_path / "lr[0.1]" / "*.tsv"))

    assert found == [str(tmp_path / "lr[0.1]" / "a.tsv")]


def test_only_what_users_write_is_converted(monkeypatch, directory):
    """AutoGraph takes longer than to build all the rest, and the package's code needs none."""
    converted = []
    convert = api._convert_actual

    def note(function, *others):
        converted.append(function)
        return convert(function, *others)

    monkeypatch.setattr(api, "_convert_actual", note)

    def read(path):
        return input_files.read_lines(path)

    params = cfg.DataConfig(is_training=True, cycle_length=1)
    known = (input_files.read_records, input_files.read_lines, input_files.read_filled_lines)
    for reader in (*known, read):
        input_files.read_files([str(directory / "a")], params, reader, seed=1)

    assert converted == [read]
