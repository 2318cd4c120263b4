import pytest

from quintain.records.rows import log, log_levels
from quintain.server import log_pages

ERROR = log_levels.LogLevel.ERROR


def read(which):
    """Reads 20 lines, of which every fourth tells of an error, as the store does."""
    texts = ["Error: it failed" if number % 4 == 0 else "step done" for number in range(1, 21)]
    rows = [
        log.LogRow(1, 0.0, log.LogSource.STDERR, text, number)
        for number, text in enumerate(texts, start=1)
        if which.after < number < (which.before or 99)
    ]
    if which.is_backward:
        return rows[max(0, len(rows) - which.num_wanted) :]
    return rows[: which.num_wanted]


@pytest.mark.parametrize(
    ("which", "ids"),
    [
        ({}, [4, 8, 12, 16, 20]),
        ({"limit": 2}, [4, 8]),
        ({"after": 8, "limit": 2}, [12, 16]),
        ({"last": 2}, [16, 20]),
        ({"last": 9, "limit": 3}, [12, 16, 20]),
        ({"before": 16, "limit": 2}, [8, 12]),
        ({"before": 16, "last": 1}, [12]),
        ({"before": 16, "after": 4}, [8, 12]),
        ({"after": 20}, []),
        ({"last": 0}, []),
    ],
)
def test_lines_of_a_level_are_looked_for_page_by_page(monkeypatch, which, ids):
    monkeypatch.setattr(log_pages, "_PAGE_LINES", 3)
    found = log_pages.read(read, log_pages.Page(level=ERROR, **which))
    assert [row.id for row in found] == ids


def test_lines_of_all_levels_are_read_at_once():
    assert len(log_pages.read(read, log_pages.Page(limit=7))) == 7
