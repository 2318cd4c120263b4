import sys

import pytest

from quintain.cli import text_lines
from quintain.cli.display import line_progress


def test_files_are_measured(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("12345")

    with path.open() as file:
        assert line_progress.measure(file) == 5


def test_what_is_no_file_of_the_system_is_not_measured():
    class Text:
        def fileno(self):
            raise OSError("no file")

    assert line_progress.measure(Text()) is None


@pytest.mark.parametrize(("num_bytes", "has_end"), [(100, True), (None, False)])
def test_the_time_left_is_told_where_the_length_is_known(monkeypatch, capsys, num_bytes, has_end):
    monkeypatch.setattr(line_progress, "_PROGRESS_SECS", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    with line_progress.LineProgress(num_bytes) as progress:
        progress.show(text_lines.Line(1, "abc"))

    written = capsys.readouterr().err
    assert "1 lines" in written
    assert ("ETA 0:00:" in written) == has_end
    assert written.endswith("\r\x1b[K")
