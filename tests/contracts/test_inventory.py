"""What the Model Garden offers to programs is here, or is refused with a reason."""

import pytest

import inventory
import inventory_facts
from quintain.reference import reference_names

pytestmark = pytest.mark.slow

_UPDATE = "Write it anew: PYTHONPATH=. scripts/inventory.py"


@pytest.fixture(scope="module")
def facts():
    return list(inventory_facts.read_facts(inventory.FACTS))


def test_nothing_is_missing(facts):
    assert list(inventory.find_missing(facts)) == []


def test_every_difference_that_is_listed_is_one(facts):
    assert list(inventory.find_settled(facts)) == []


def test_what_is_refused_is_not_there(facts):
    kinds = ("class", "name", "call")
    names = [fact for fact in facts if fact.path in reference_names.REFUSED and fact.kind in kinds]

    assert [fact.path for fact in names if inventory_facts.find_difference(fact) is None] == []


def test_the_page_is_what_the_facts_give(facts):
    assert inventory.PAGE.read_text(encoding="utf-8") == inventory.render(facts), _UPDATE


@pytest.mark.parametrize(
    ("text", "difference"),
    [
        ("path, *names", None),
        ("name", "no argument name"),
        ("path='x', *names", "path=<class 'inspect._empty'>, there 'x'"),
        ("", "needs path"),
    ],
)
def test_a_difference_of_arguments_is_found(text, difference):
    fact = inventory_facts.Fact("files.file_paths", "join", "call", text.replace("path", "first"))
    expected = difference and difference.replace("path", "first")

    assert inventory_facts.find_difference(fact) == expected
