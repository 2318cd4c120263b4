import csv
import io

import pytest

from quintain.files import csv_files


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_text_that_a_spreadsheet_would_run_is_neutralized(text):
    file = io.StringIO(newline="")

    csv_files.write(file, [text], [[text]])

    assert list(csv.reader(io.StringIO(file.getvalue(), newline=""))) == [[f"'{text}"]] * 2


def test_numbers_and_other_texts_stay_as_they_are():
    cells = [-0.5, "-0.5", "-Infinity", "a=b", "'=1", None, True, [-1]]
    file = io.StringIO()

    csv_files.write(file, ["a"] * len(cells), [cells])

    expected = ["-0.5", "-0.5", "-Infinity", "a=b", "'=1", "", "true", "[-1]"]
    assert file.getvalue().splitlines()[1] == ",".join(expected)
