from quintain.records.rows import checkpoint


def test_the_size_of_a_checkpoint_is_that_of_its_files():
    assert checkpoint.Checkpoint("u", 1, 1, 10, files={"a/": 0, "a/b": 7, "c": 5}).num_bytes == 12


def test_a_checkpoint_is_adopted_if_a_remark_says_so():
    assert not checkpoint.Checkpoint("u", 1, 1, 10).is_adopted
    assert checkpoint.Checkpoint("u", 1, 1, 10, metadata={"is_adopted": True}).is_adopted


def test_the_name_of_an_orphan_is_that_of_its_directory():
    assert checkpoint.Orphan("/home/checkpoints/u-1", 3, 0.0).name == "u-1"


def test_nothing_is_named_by_too_little_of_its_uuid():
    uuid = "5615c134-0000-4000-8000-000000000001"
    texts = ("", "561", "5615", uuid, "615c")
    assert [text for text in texts if checkpoint.is_uuid_prefix(text, uuid)] == ["5615", uuid]
