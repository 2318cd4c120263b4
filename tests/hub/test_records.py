"""Sources of examples beside plain files: gzip, TensorFlow Datasets, and the library datasets."""

import gzip
import json

import datasets
import pytest
import tensorflow_datasets as tfds

from quintain import errors
from quintain.hub import configs, conversations, records

NAMES = ["bad", "good"]
TURNS = [{"role": "user", "content": "Häh?"}, {"role": "assistant", "content": "Yes"}]
ROWS = [
    {"text": "a good one", "label": "good", "tokens": ["a", "good", "one"],
     "labels": ["bad", "good", "bad"], "messages": TURNS},
    {"text": "none", "label": -1, "tokens": ["x"], "labels": ["bad"], "messages": TURNS * 2},
]  # fmt: skip


class TinyTalks(tfds.core.GeneratorBasedBuilder):
    """Texts, words and conversations, with classes that have names."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        turn = {"role": tfds.features.Text(), "content": tfds.features.Text()}
        label = tfds.features.ClassLabel(names=NAMES)
        features = {
            "text": tfds.features.Text(), "label": label,
            "tokens": tfds.features.Sequence(tfds.features.Text()),
            "labels": tfds.features.Sequence(label), "messages": tfds.features.Sequence(turn),
        }  # fmt: skip
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager):
        return {"train": enumerate(ROWS)}

    def _generate_examples(self):
        raise NotImplementedError


def save(directory):
    label = datasets.ClassLabel(names=NAMES)
    turn = {"role": datasets.Value("string"), "content": datasets.Value("string")}
    features = datasets.Features(
        {
            "text": datasets.Value("string"), "label": label,
            "tokens": datasets.List(datasets.Value("string")), "labels": datasets.List(label),
            "messages": datasets.List(turn),
        }
    )  # fmt: skip
    columns = {name: [row[name] for row in ROWS] for name in features}
    dataset = datasets.Dataset.from_dict(columns, features)
    datasets.DatasetDict({"train": dataset, "test": dataset}).save_to_disk(directory)


@pytest.mark.parametrize("source", ["gzip", "tfds", "datasets"])
def test_all_sources_give_the_same_rows(source, tmp_path):
    if source == "gzip":
        path = tmp_path / "rows.jsonl.gz"
        path.write_bytes(gzip.compress("\n\n".join(map(json.dumps, ROWS)).encode()))
        params, place = configs.HubDataConfig(input_path=str(path)), f"{path}:3"
    elif source == "datasets":
        save(str(tmp_path / "saved"))
        path = str(tmp_path / "saved" / "train")
        params, place = configs.HubDataConfig(input_path=path), f"{path}: row 2"
    else:
        TinyTalks(data_dir=tmp_path).download_and_prepare()
        params = configs.HubDataConfig(
            tfds_name="tiny_talks", tfds_split="train", tfds_data_dir=str(tmp_path)
        )
        place = "tiny_talks[train]: row 2"

    rows = list(records.read_data(params))

    assert [row for _, row in rows] == ROWS
    assert rows[1][0] == place
    assert [len(turns) for _, turns in conversations.read(params)] == [2, 4]


def test_a_saved_data_set_of_several_splits_or_a_torn_one_is_named(tmp_path):
    save(str(tmp_path))
    known = f"{tmp_path / 'test'}, {tmp_path / 'train'}"

    with pytest.raises(errors.DataError, match="holds several splits") as found:
        list(records.read_data(configs.HubDataConfig(input_path=str(tmp_path))))

    assert known in str(found.value)
    for file in (tmp_path / "train").glob("*.arrow"):
        file.write_bytes(b"torn")
    with pytest.raises(errors.DataError, match="can't be loaded by the package datasets"):
        list(records.read_data(configs.HubDataConfig(input_path=str(tmp_path / "train"))))
