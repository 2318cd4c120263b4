import dataclasses
import math

import pytest

from quintain.config import provenance

FACTORY = provenance.Source("factory", "translation/local")


@pytest.fixture
def sources():
    return provenance.Provenance(FACTORY)


def in_file(path):
    return provenance.Source("file", f"my.yaml:{len(path)}")


def by_flag(path):
    return provenance.Source("override", "--set")


def test_a_source_names_the_factory_but_only_the_place_of_others():
    assert str(FACTORY) == "factory translation/local"
    assert str(provenance.Source("file", "my.yaml:12")) == "my.yaml:12"


def test_a_source_can_not_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        FACTORY.kind = "file"


def test_what_no_layer_set_is_from_the_default(sources):
    assert sources.source("trainer.train_steps") == FACTORY
    assert dict(sources) == {}


def test_the_source_is_asked_for_each_leaf(sources):
    sources.record({"a": {"bb": 1, "c": [1, 2]}, "d": None}, in_file)

    assert dict(sources) == {"a.bb": in_file("a.bb"), "a.c": in_file("a.c"), "d": in_file("d")}
    assert sources.source("a.bb") == in_file("a.bb")
    assert sources.source("a") == FACTORY


def test_the_last_layer_counts(sources):
    sources.record({"a": {"b": 1, "c": 2}}, in_file)
    sources.record({"a": {"c": 3}}, by_flag)

    assert sources.source("a.b") == in_file("a.b")
    assert sources.source("a.c") == by_flag("a.c")


@pytest.mark.parametrize("path", ["layers", "layers[0]", "layers[0].width", "layers[1][2].a.b"])
def test_the_nearest_that_contains_a_field_counts(sources, path):
    sources.record({"layers": [{"width": 1}]}, in_file)

    assert sources.source(path) == in_file("layers")


def test_names_that_begin_alike_are_different_fields(sources):
    sources.record({"train": 1, "train_steps": 2}, in_file)
    sources.record({"train": 3}, by_flag)

    assert sources.source("train_steps") == in_file("train_steps")


def test_replacing_a_value_forgets_what_was_set_inside(sources):
    sources.record({"a": {"b": {"c": 1}, "d": 2}}, in_file)
    sources.record({"a": {"b": None}}, by_flag)

    assert sources.source("a.b.c") == by_flag("a.b")
    assert sources.source("a.d") == in_file("a.d")


def test_an_empty_mapping_leaves_what_was_set_inside(sources):
    sources.record({"a": {"b": 1}}, in_file)
    sources.record({"a": {}}, by_flag)

    assert sources.source("a.b") == in_file("a.b")
    assert sources.source("a.c") == by_flag("a")


def test_flatten_keeps_empty_mappings_and_lists_as_leaves():
    nested = {"a": {"b": {"c": 1}, "d": {}}, "e": [{"f": 2}], "g": None}

    assert provenance.flatten(nested) == {"a.b.c": 1, "a.d": {}, "e": [{"f": 2}], "g": None}


@pytest.mark.parametrize(
    ("first", "second"),
    [(1, 1), (1, 1.0), ([1, (2,)], (1, [2])), (math.nan, math.nan), ([{"a": (1,)}], [{"a": [1]}])],
)
def test_equal_values_do_not_differ(first, second):
    assert provenance.diff_dicts({"a": {"b": first}}, {"a": {"b": second}}) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [(1, 2), (0, False), ([1], [1, 2]), ([1], [True]), (None, 0), ("1", 1), ({}, None)],
)
def test_different_values_are_listed_by_path(first, second):
    differences = provenance.diff_dicts({"a": {"b": first}, "c": 1}, {"a": {"b": second}, "c": 1})

    assert differences == [("a.b", first, second)]


def test_a_value_of_only_one_side_is_shown_as_absent():
    differences = provenance.diff_dicts({"a": 1, "b": 2}, {"b": 2, "c": {"d": 3}})

    assert differences == [("a", 1, provenance.MISSING), ("c.d", provenance.MISSING, 3)]
    assert repr(provenance.MISSING) == "(absent)"
