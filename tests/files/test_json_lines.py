"""Records of runs that were cut or damaged."""

import json

import pytest

from quintain import errors
from quintain.checkpoints import evaluation_log
from quintain.files import json_lines
from quintain.run import history

ENTRIES = [{"step": step, "metrics": {"loß": step / 3}} for step in (10, 20, 30)]


def _write(path, entries=ENTRIES):
    path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in entries), "utf-8")
    return path.read_bytes()


def test_a_file_cut_at_any_length_gives_its_whole_lines(tmp_path):
    path = tmp_path / "a [1] ü.jsonl"
    whole = _write(path)
    ends = [n + 1 for n, byte in enumerate(whole) if byte == ord("\n")]

    found = []
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        found.append(json_lines.read(str(path)))

    assert found == [ENTRIES[: sum(end <= length for end in ends)] for length in range(len(whole))]


@pytest.mark.parametrize(
    "end", [b"\0" * 40, b'{"step": 4', b'{"step": 4}\n', b"\xc3", b"null\n[]\n"]
)
def test_a_torn_end_is_left_out_with_a_warning_that_names_the_file(tmp_path, caplog, end):
    path = tmp_path / "log.jsonl"
    whole = _write(path)
    path.write_bytes(whole + end)

    assert json_lines.read(str(path)) == ENTRIES
    assert json_lines.is_torn(str(path))
    assert f"{path}: its last" in caplog.text


def test_damage_before_whole_lines_is_an_error_with_its_line(tmp_path):
    path = tmp_path / "log.jsonl"
    first, second, third, _ = _write(path).split(b"\n")
    path.write_bytes(b"\n".join([first, second[:9], third, b""]))

    with pytest.raises(errors.DamagedFileError, match=r"log\.jsonl:2: can't be understood"):
        json_lines.read(str(path))


def test_a_torn_record_of_evaluations_is_gone_on_with(tmp_path):
    whole = _write(tmp_path / evaluation_log.FILE_NAME)
    (tmp_path / evaluation_log.FILE_NAME).write_bytes(whole[:-9])
    log = evaluation_log.EvaluationLog(str(tmp_path))

    log.record(30, {"loss": 1.0})

    assert sorted(log.read(100)) == [10, 20, 30]


def test_a_torn_record_of_training_is_mended_when_the_run_goes_on(tmp_path):
    whole = _write(tmp_path / history.FILE_NAME)
    (tmp_path / history.FILE_NAME).write_bytes(whole + b"\0\0\0")
    log = history.TrainingLog(str(tmp_path))

    log.drop_after(30)

    assert (tmp_path / history.FILE_NAME).read_bytes().count(b"\0") == 0
    assert log.read() == ENTRIES
