import logging

import numpy as np
import pandas as pd
import pytest

from quintain import errors
from quintain.tabular import columns, table_configs, tables

CSV = """Größe,color,id,same,price
1.5,red,a,x,10.5
NA,blue,b,x,20
3,,c,x,30
"4",red,d,x,40
"""
TALL = 30


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "a ü [1].csv"
    rows = "".join(f"{row % 4},{'rb'[row % 2]},n{row},1,{row + 0.5}\n" for row in range(TALL))
    file.write_text(CSV + rows, encoding="utf-8-sig")
    return file


def make_config(path, **fields):
    data = table_configs.TableDataConfig(input_path=str(path))
    return table_configs.TabularConfig(**({"target": "price", "train_data": data} | fields))


def read(config):
    return tables.read(config.train_data, config.missing_values)


def test_columns_are_typed_from_the_data_and_those_that_tell_nothing_left_out(path, caplog):
    with caplog.at_level(logging.WARNING):
        found = columns.find(make_config(path))

    assert [(one.name, one.kind, one.has_missing) for one in found.inputs] == [
        ("Größe", "number", True),
        ("color", "category", True),
        ("same", "category", False),
    ]
    assert (found.target.kind, list(found.left_out)) == ("number", ["id"])
    assert "The column 'id' is left out: no text in it is there twice" in caplog.text
    assert columns.Columns.from_dict(columns.dataclasses.asdict(found)) == found
    assert found.name_inputs() == {"Größe": "Gr__e", "color": "color", "same": "same"}


def test_rows_become_numbers_and_ids(path):
    config = make_config(path)
    found = columns.find(config)

    arrays = columns.convert(found, read(config))

    assert np.array_equal(arrays["numbers"][:4, 0], [1.5, np.nan, 3, 4], equal_nan=True)
    assert found.categories[0].values == ("b", "r", "red", "blue")
    assert arrays["categories"][:4, 0].tolist() == [4, 5, columns.MISSING, 4]
    assert arrays["target"][:2].tolist() == [10.5, 20.0]


def test_parquet_gives_what_csv_gives(path, tmp_path):
    table = pd.read_csv(path)
    table.to_parquet(tmp_path / "same.parquet")

    expected = columns.find(make_config(path))
    found = columns.find(make_config(tmp_path / "same.parquet"))

    assert found == expected


@pytest.mark.parametrize(
    ("text", "values", "kind"),
    [
        ("a,y\n1,0\n2,1\n3,10\n1,2\n", ("0", "1", "2", "10"), "category"),
        ("a,y\n1,no\n2,yes\n", ("no", "yes"), "category"),
        ("a,y\n1,0.5\n2,1\n", (), "number"),
    ],
)
def test_text_and_few_whole_numbers_are_classes(tmp_path, text, values, kind):
    (tmp_path / "t.csv").write_text(text)

    target = columns.find(make_config(tmp_path / "t.csv", target="y")).target

    assert (target.values, target.kind) == (values, kind)


@pytest.mark.parametrize(
    ("fields", "change", "words"),
    [
        ({"target": ""}, "", r"task.target: got '', expected .* Größe, color"),
        ({"target": "prize"}, "", "task.target: got 'prize'.*Did you mean 'price'"),
        ({"ignored": ("colour",)}, "", "task.ignored: got 'colour'.*Did you mean 'color'"),
        ({"numbers": ("color",)}, "", r"csv:2: color: got 'red', expected a number"),
        ({}, "x7,red,q,x,1\n", r"csv:36: Größe: got 'x7', but nearly all others are numbers"),
        ({}, "7,red,q,x,\n", r"csv:36: price: there is no value of the target"),
        ({}, "7,red,q\n", r"csv:36: got 3 cells, expected 5"),
        ({"ignored": ("Größe", "color", "same")}, "", "no column is left that could tell 'price'"),
    ],
)
def test_tables_that_cant_be_used_are_refused_with_file_and_line(path, fields, change, words):
    with path.open("a") as file:
        file.write(change)

    with pytest.raises(errors.QuintainError, match=words):
        columns.find(make_config(path, **fields))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Größe,price\n1,2\n", ":1: there is no column 'color'"),
        ("Größe,color,same,price\n1,r,1,2\nx,r,1,2\n", ":3: Größe: got 'x', expected a number"),
        ("Größe;color;same;price\n1;r;1;2\n", "Set delimiter"),
        ("Größe,color,color,price\n", "'color' of a column is empty, or there twice"),
        ("Größe,color,same,price\n", "there are no rows in it"),
    ],
)
def test_other_tables_have_to_fit_the_training_data(path, tmp_path, text, words):
    found = columns.find(make_config(path))
    (tmp_path / "other.csv").write_text(text)

    with pytest.raises(errors.DataError, match=words):
        columns.convert(found, read(make_config(tmp_path / "other.csv")))


def test_a_new_class_of_the_evaluation_is_named(tmp_path):
    (tmp_path / "train.csv").write_text("a,y\n1,no\n2,yes\n")
    (tmp_path / "other.csv").write_text("a,y\n1,no\n2,yess\n")
    found = columns.find(make_config(tmp_path / "train.csv", target="y"))

    with pytest.raises(errors.DataError, match=r"other.csv:3: y: got 'yess'.*Did you mean 'yes'"):
        columns.convert(found, read(make_config(tmp_path / "other.csv")))
