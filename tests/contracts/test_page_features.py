"""Every feature of the page that the comparison claims has a test that shows it in a browser."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
TEXT = (ROOT / "benchmarks/results/page_features.md").read_text()
NAMED = re.compile(r"`(tests/page/test_\w+\.py)::(test_\w+)`")
OURS = dict(re.findall(r"^\| (\d+)\. [^|]+ \| ([^|]+) \|", TEXT, re.MULTILINE))
SHOWN = {
    number: NAMED.findall(cells)
    for numbers, cells in re.findall(r"^\| ([\d, ]+) \|(.*)$", TEXT, re.MULTILINE)
    for number in numbers.split(", ")
}


def test_every_feature_of_the_field_is_there():
    assert len(OURS) >= 20
    assert {number: text for number, text in OURS.items() if not text.startswith("yes")} == {}


def test_every_feature_has_a_browser_test_that_exists():
    assert SHOWN.keys() == OURS.keys()
    assert [number for number, tests in SHOWN.items() if not tests] == []
    missing = [
        f"{file}::{name}"
        for tests in SHOWN.values()
        for file, name in tests
        if f"\ndef {name}(" not in (ROOT / file).read_text()
    ]
    assert missing == []
