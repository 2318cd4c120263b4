"""Receipts of checkpoints, and their check: every planted change is found and named."""

import json
import random
import shutil

import pytest
import tensorflow as tf

from quintain import errors
from quintain.checkpoints import checkpoints, receipt_check, receipts

_FACTS = receipts.Facts(
    config={"trainer": {"train_steps": 3}},
    code={"quintain": "1", "my_task": "ab"},
    data={"train.csv": "10:ab"},
    environment={"kernels": "native"},
)


def _save(directory, steps, weights, restored=None):
    step = tf.Variable(0, dtype=tf.int64)
    weight, bias = tf.Variable(tf.zeros([3, 2])), tf.Variable(tf.zeros([2]))
    manager = checkpoints.CheckpointManager(
        tf.train.Checkpoint(global_step=step, kernel=weight, bias=bias),
        str(directory),
        max_to_keep=2,
        step_counter=step,
        enable_async=False,
    )
    manager.write_receipts(receipts.ReceiptWriter(str(directory), lambda: _FACTS))
    if restored is not None:
        manager.restore(str(directory / restored))
    for number, value in zip(steps, weights, strict=True):
        step.assign(number)
        weight.assign(tf.fill([3, 2], float(value)))
        manager.save()


@pytest.fixture
def run(tmp_path):
    directory = tmp_path / "lr[0.1] ü"
    _save(directory, [1, 2, 3], [0.5, 0.25, 0.125])
    return directory


def _verify(run, expected=None):
    found = receipt_check.verify(str(run), dict(_FACTS.config), expected)
    return [str(one) for one in found.findings]


def _edit_json(path, edit):
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def test_finds_nothing_in_what_was_not_changed(run):
    found = receipt_check.verify(str(run), dict(_FACTS.config))

    assert found.findings == []
    assert (found.num_checkpoints, found.num_receipts) == (2, 3)
    assert found.head == receipts.read(str(run / "ckpt-3.receipt.json")).identity


def test_names_the_value_whose_bit_was_flipped(run):
    data = bytearray((run / "ckpt-3.data-00000-of-00001").read_bytes())
    data[data.find(b"\x00\x00\x00\x3e") + 2] ^= 1
    (run / "ckpt-3.data-00000-of-00001").write_bytes(data)

    assert _verify(run) == ["ckpt-3.data-00000-of-00001: has other bits in kernel."]


def test_names_an_index_of_another_step(run):
    shutil.copy(run / "ckpt-2.index", run / "ckpt-3.index")

    assert _verify(run) == ["ckpt-3.index: is the file of step 2."]


def test_names_a_changed_index(run):
    data = bytearray((run / "ckpt-3.index").read_bytes())
    data[5] ^= 4
    (run / "ckpt-3.index").write_bytes(data)

    assert _verify(run) == ["ckpt-3.index: was changed."]


def test_names_a_checkpoint_in_the_place_of_another(run):
    for name in ("index", "receipt.json", "data-00000-of-00001"):
        shutil.copy(run / f"ckpt-2.{name}", run / f"ckpt-3.{name}")

    assert _verify(run) == ["ckpt-3.receipt.json: is the receipt of step 2."]


def test_names_an_edited_fact(run):
    _edit_json(run / "ckpt-3.receipt.json", lambda one: one["facts"]["code"].update(my_task="cd"))

    assert _verify(run) == ["ckpt-3.receipt.json: was edited: its code do not have their hashes."]


def test_names_a_receipt_that_was_signed_anew_without_its_chain(run):
    def sign(content):
        content["facts"]["code"]["my_task"] = "cd"
        content["head"]["code"] = receipts.hash_json(content["facts"]["code"])

    _edit_json(run / "ckpt-3.receipt.json", sign)

    assert _verify(run) == ["ckpt-3.receipt.json: differs from receipts.jsonl in code."]


def test_names_a_line_of_the_chain_that_was_signed_anew(run):
    lines = (run / "receipts.jsonl").read_text().splitlines()
    lines[0] = json.dumps(json.loads(lines[0]) | {"config": "0" * 64})
    (run / "receipts.jsonl").write_text("".join(f"{line}\n" for line in lines))

    assert _verify(run) == [
        "receipts.jsonl:1: the receipt of step 1 is not the one that the receipt of step 2 was "
        "chained to."
    ]


def test_names_an_edited_setting(run):
    found = receipt_check.verify(str(run), {"trainer": {"train_steps": 4}})

    assert "params.yaml: differs" in str(found.findings[0])
    assert "trainer.train_steps: 3 -> 4" in str(found.findings[0])


def test_names_missing_receipts_and_index_files(run):
    (run / "ckpt-2.receipt.json").unlink()
    (run / "ckpt-3.index").unlink()

    assert _verify(run) == [
        "ckpt-2.receipt.json: is missing.",
        "ckpt-3.receipt.json: is the receipt of a checkpoint whose index file is missing.",
    ]


def test_names_a_history_that_was_written_anew(run):
    identity = receipts.read(str(run / "ckpt-3.receipt.json")).identity
    shutil.rmtree(run)
    _save(run, [1, 2, 3], [0.5, 0.25, 0.0625])

    assert _verify(run) == []
    assert _verify(run, identity) == [
        f"receipts.jsonl: no receipt has exactly the identity {identity!r}, which you gave."
    ]


def test_accepts_a_run_that_was_killed_before_the_chain_was_written(run):
    lines = (run / "receipts.jsonl").read_bytes().splitlines(keepends=True)
    (run / "receipts.jsonl").write_bytes(b"".join(lines[:-1]) + lines[-1][:40])

    assert _verify(run) == []

    _save(run, [4], [0.75], restored="ckpt-3")

    assert _verify(run) == []
    assert [head["step"] for head in receipts.read_chain(str(run))] == [1, 2, 3, 4]


def test_goes_on_from_the_checkpoint_that_was_restored(run):
    _save(run, [4], [0.75], restored="ckpt-2")

    assert [head["step"] for head in receipts.read_chain(str(run))] == [1, 2, 4]


def test_begins_a_chain_at_a_checkpoint_without_receipt(run):
    (run / "receipts.jsonl").unlink()
    (run / "ckpt-2.receipt.json").unlink()
    (run / "ckpt-3.receipt.json").unlink()

    with pytest.raises(errors.CheckpointError, match="no checkpoint here has a receipt"):
        _verify(run)

    _save(run, [4], [0.75], restored="ckpt-3")

    assert _verify(run) == []


def test_refuses_a_receipt_of_another_version(run):
    _edit_json(run / "ckpt-3.receipt.json", lambda one: one["head"].update(format=9))

    assert "is a receipt of format 9; this version reads format 1" in _verify(run)[0]


def _flip(path, generator):
    data = bytearray(path.read_bytes())
    data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    path.write_bytes(data)


def _plant(run, generator):
    """Changes one thing; returns the file that has to be named first."""
    step = generator.choice([2, 3])
    index, data = run / f"ckpt-{step}.index", run / f"ckpt-{step}.data-00000-of-00001"
    receipt = run / f"ckpt-{step}.receipt.json"
    match generator.choice(
        ["bit", "index", "swap", "swap_index", "fact", "sign", "leaf", "config"]
    ):
        case "bit":
            _flip(data, generator)
            return data.name
        case "index":
            _flip(index, generator)
            return index.name
        case "swap":
            shutil.copy(run / f"ckpt-{5 - step}.data-00000-of-00001", data)
            return data.name
        case "swap_index":
            shutil.copy(run / f"ckpt-{5 - step}.index", index)
            return index.name
        case "fact":
            name = generator.choice(["config", "code", "data"])
            _edit_json(receipt, lambda one: one["facts"][name].update({"x": f"{generator}"}))
        case "sign":
            name = generator.choice(["environment", "batches", "previous", "index"])
            _edit_json(receipt, lambda one: one["head"].update({name: "0" * 64}))
        case "leaf":
            leaf = generator.choice(sorted(json.loads(receipt.read_text())["leaves"]))
            _edit_json(receipt, lambda one: one["leaves"].update({leaf: "0" * 64}))
        case "config":
            return "params.yaml"
    return receipt.name


@pytest.mark.slow
def test_finds_and_names_two_hundred_planted_changes(run, tmp_path):
    generator, missed = random.Random(7), []
    for number in range(200):
        copy = tmp_path / f"{number}"
        shutil.copytree(run, copy)
        place = _plant(copy, generator)
        settings = dict(_FACTS.config) | ({"task": number} if place == "params.yaml" else {})
        found = receipt_check.verify(str(copy), settings).findings
        if [one.place for one in found][:1] != [place]:
            missed.append((place, [str(one) for one in found]))
        shutil.rmtree(copy)

    assert missed == []


def test_root_depends_on_names_values_and_number():
    leaves = {"a": "1", "b": "2", "c": "3"}

    others = [leaves | {"c": "4"}, {"a": "1", "b": "2"}, {"a": "1", "b": "2", "d": "3"}]

    roots = {receipts.merkle_root(one) for one in [leaves, *others]}

    assert len(roots) == 4


def test_hash_of_a_value_depends_on_type_shape_and_bits():
    values = [
        tf.constant([1, 2], tf.int32),
        tf.constant([[1, 2]], tf.int32),
        tf.constant([1, 2], tf.int64),
        tf.constant([1, 2], tf.bfloat16),
        tf.constant(["1", "2"]),
    ]

    assert len({receipts.hash_value(value.numpy()) for value in values}) == 5
