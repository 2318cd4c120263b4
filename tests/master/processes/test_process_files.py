import errno
import json
import os
from unittest import mock

import pytest

from quintain.files import atomic_write
from quintain.master.processes import process_files
from quintain.records.rows import log


@pytest.fixture
def files(tmp_path):
    made = process_files.ProcessFiles(str(tmp_path / "scratch"), "7-1")
    made.make_directory()
    return made


def write_lines(files, *texts):
    with open(files.log_path, "a", encoding="utf-8") as file:
        for number, text in enumerate(texts):
            file.write(json.dumps([float(number), "stdout", text]) + "\n")


def test_an_exit_is_read_as_it_was_written(files):
    assert files.read_exit() is None
    exit_ = process_files.Exit(None, 9, ("a", "b"), out_of_memory=True)
    files.write_exit(exit_)
    assert files.read_exit() == exit_


def test_lines_are_read_once_and_an_incomplete_one_when_it_is_complete(files):
    assert files.read_lines(7, 0) == ([], 0)
    write_lines(files, "first", "second\nwith a break")
    with open(files.log_path, "a", encoding="utf-8") as file:
        file.write("[2.0, ")
    rows, offset = files.read_lines(7, 0)
    assert rows == [
        log.LogRow(7, 0.0, log.LogSource.STDOUT, "first"),
        log.LogRow(7, 1.0, log.LogSource.STDOUT, "second\nwith a break"),
    ]
    assert files.read_lines(7, offset) == ([], offset)
    with open(files.log_path, "a", encoding="utf-8") as file:
        file.write('"stderr", "third"]\n')
    assert [row.text for row in files.read_lines(7, offset)[0]] == ["third"]


def test_damaged_lines_are_counted(files):
    write_lines(files, "first")
    with open(files.log_path, "a", encoding="utf-8") as file:
        file.write('[1.0, "std\n[1.0, "nowhere", "x"]\n')
    write_lines(files, "last")
    rows, _ = files.read_lines(7, 0)
    assert [row.text for row in rows] == [
        "2 lines omitted: 7-1.log is damaged.",
        "first",
        "last",
    ]
    assert rows[0].source is log.LogSource.MASTER


def test_long_logs_are_read_in_parts(files, monkeypatch):
    monkeypatch.setattr(process_files, "MOST_BYTES_AT_ONCE", 100)
    texts = [f"line {number}" for number in range(50)]
    write_lines(files, *texts)
    offset, found, num_parts = 0, [], 0
    while True:
        rows, offset = files.read_lines(7, offset)
        if not rows:
            break
        found += [row.text for row in rows]
        num_parts += 1
    assert found == texts
    assert num_parts > 10


def test_the_last_lines_are_those_at_the_end(files):
    assert files.read_last_lines(3) == ()
    write_lines(files, *[f"{number} " + "x" * 1000 for number in range(200)])
    assert [text.split()[0] for text in files.read_last_lines(3)] == ["197", "198", "199"]


def test_nothing_is_left_in_the_end(files):
    write_lines(files, "x")
    files.write_offset(17)
    files.write_exit(process_files.Exit(0, None))
    assert files.read_offset() == 17
    files.delete()
    assert files.read_offset() == 0
    assert list(files.log_path.parent.iterdir()) == []


def test_a_reader_is_at_the_end_when_the_process_has_ended_and_nothing_is_left(files):
    reader = process_files.LogReader(files, 7)
    write_lines(files, *(f"line {number}" for number in range(50)))
    texts = [row.text for row in reader.read(is_over=False, most_bytes=100)]
    assert texts == ["line 0", "line 1", "line 2"]
    assert reader.is_nearly_read
    with open(files.log_path, "a", encoding="utf-8") as file:
        file.write("[2.0, ")

    while not reader.is_at_end:
        texts += [row.text for row in reader.read(is_over=True, most_bytes=100)]
    assert texts == [
        *(f"line {number}" for number in range(50)),
        "6 bytes of the log omitted: the last line is incomplete.",
    ]
    assert reader.read(is_over=True) == []


def test_a_log_that_stays_unreadable_is_omitted_with_a_number(files, monkeypatch):
    write_lines(files, "lost")
    reader = process_files.LogReader(files, 7)
    monkeypatch.setattr(
        files, "read_lines", mock.Mock(side_effect=OSError(errno.EIO, "Input/output error"))
    )
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output"):
            reader.read(is_over=True)
        assert not reader.is_nearly_read
    monkeypatch.setattr(process_files, "_PATIENCE_SECS", -1.0)
    (row,) = reader.read(is_over=True)
    size = files.log_path.stat().st_size
    assert row.text.startswith(f"{size} bytes of the log omitted: ")
    assert reader.is_at_end


def damage(path, kind):
    data = path.read_bytes()
    path.write_bytes(
        {"empty": b"", "half": data[: len(data) // 2], "zeros": bytes(len(data))}[kind]
    )


@pytest.mark.parametrize("kind", ["empty", "half", "zeros"])
def test_an_exit_that_is_torn_is_one_of_an_unknown_kind(files, caplog, kind):
    write_lines(files, "last words")
    files.write_exit(process_files.Exit(3, None, ("a",)))
    path = files.log_path.with_name("7-1.exit")
    damage(path, kind)
    assert files.read_exit() == process_files.Exit(None, None, ("last words",))
    assert str(path) in caplog.text


@pytest.mark.parametrize("kind", ["empty", "half", "zeros"])
def test_a_torn_offset_reads_lines_again_rather_than_losing_them(files, kind):
    files.write_offset(12345678)
    damage(files.log_path.with_name("7-1.read"), kind)
    assert files.read_offset() < 12345678


@pytest.mark.parametrize("kind", ["empty", "half", "zeros"])
def test_a_torn_log_gives_the_lines_that_are_whole(files, kind):
    write_lines(files, "first", "second", "third")
    damage(files.log_path, kind)
    write_lines(files, "last")
    found = [row.text for row in files.read_lines(7, 0)[0] if "omitted" not in row.text]
    assert found[-1:] in (["last"], ["first"])
    write_lines(files, "more")
    assert files.read_lines(7, 0)[0][-1].text == "more"


def test_a_log_that_became_shorter_is_read_from_its_end(files, caplog):
    write_lines(files, "first", "second")
    _, offset = files.read_lines(7, 0)
    damage(files.log_path, "half")
    rows, offset = files.read_lines(7, offset)
    assert (rows, offset) == ([], files.log_path.stat().st_size)
    assert "was cut" in caplog.text
    write_lines(files, "rest of a line", "third")
    assert files.read_lines(7, offset)[0][-1].text == "third"


def test_empty_blocks_are_passed(files, monkeypatch):
    monkeypatch.setattr(process_files, "MOST_BYTES_AT_ONCE", 100)
    files.log_path.write_bytes(bytes(250))
    write_lines(files, "after")
    offset, found = 0, []
    for _ in range(5):
        rows, offset = files.read_lines(7, offset)
        found += rows
    assert [row.text for row in found] == ["after"]


@pytest.mark.parametrize(
    "line", ["12", "null", '["a"]', '[1, "stdout", 2, 3]', '[[], "stdout", ""]']
)
def test_a_line_that_is_json_but_no_line_is_left_out(files, line):
    files.log_path.write_text(line + "\n")
    write_lines(files, "last")
    assert [row.text for row in files.read_lines(7, 0)[0]][1:] == ["last"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_disk_that_is_full_or_lost_keeps_no_process_from_being_looked_after(
    files, monkeypatch, code
):
    def refuse(path, *_, **__):
        raise OSError(code, os.strerror(code), str(path))

    monkeypatch.setattr(atomic_write, "write_atomically", refuse)

    files.write_offset(3)
