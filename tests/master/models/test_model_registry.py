"""The registry over a real store: receipts, aliases, rules, and what keeps checkpoints."""

import dataclasses
import hashlib

import pytest

from quintain import errors
from quintain.master import scheduling, shared_state, user_commands
from quintain.master.models import promotion_rule
from quintain.records.rows import checkpoint, metric, registered_model, states
from quintain.testing import store_case

CONFIG = {
    "searcher": {"name": "random", "metric": "accuracy", "smaller_is_better": False},
}
FIRST, SECOND = ([0.80, 0.82, 0.81, 0.83], [0.85, 0.86, 0.87, 0.88])


@pytest.fixture
def shared(store, tmp_path):
    return shared_state.SharedState(store, tmp_path / "home")


@pytest.fixture
def commands(shared):
    return user_commands.Commands(shared, scheduling.Scheduling.__new__(scheduling.Scheduling))


@pytest.fixture
def add_experiment(store, tmp_path):
    """Adds an experiment of trials that differ in their seeds, each with a checkpoint."""

    def add(values, first_seed=1, units=8):
        with store.transaction() as session:
            record = store_case.new_experiment(
                config=CONFIG, model_dir="", state=states.ExperimentState.COMPLETED
            )
            owner = session.add_experiment(record).id
            uuids = []
            for seed, value in enumerate(values, start=first_seed):
                trial = session.add_trial(
                    store_case.new_trial(
                        owner, seed=seed, hparams={"units": units}, best_metric=value
                    )
                )
                uuid = f"{owner:04}-{trial.id:04}"
                directory = tmp_path / "home" / "checkpoints" / uuid
                directory.mkdir(parents=True)
                (directory / "weights").write_text(uuid)
                session.add_checkpoint(
                    checkpoint.Checkpoint(uuid, trial.id, owner, 10, metric=value)
                )
                group = metric.MetricGroup.VALIDATION
                session.add_metrics(
                    [metric.MetricRow(trial.id, group, 10, {"accuracy": value, "f1": 1}, 8, 1.0)]
                )
                uuids.append(uuid)
        return owner, uuids

    return add


def register(commands, uuid, name="digits", alias="", note=""):
    return commands.register_model(name, checkpoint=uuid, alias=alias, note=note)


def promote(commands, version, alias="champion", **rule):
    rule = {"not_worse_than": "", "metric_name": "", "margin": 0.0, **rule}
    return commands.promote_model("digits", version, alias, **rule)


def test_a_receipt_has_hashes_config_and_metrics_of_the_checkpoint(commands, add_experiment):
    owner, (uuid, *_) = add_experiment(FIRST)
    added = register(commands, uuid, note="mine")

    mark = hashlib.sha256(uuid.encode()).hexdigest()
    assert (added.name, added.version, added.note, added.experiment_id) == (
        "digits",
        1,
        "mine",
        owner,
    )
    assert added.files == {"weights": mark}
    assert added.sha256 == hashlib.sha256(f"{mark}  weights\n".encode()).hexdigest()
    assert added.metrics == {"accuracy": 0.80, "f1": 1}
    assert added.config == {"experiment": CONFIG, "hparams": {"units": 8}, "seed": 1}


def test_a_receipt_has_the_marks_of_the_data_that_a_trial_noted(commands, add_experiment, tmp_path):
    _, (uuid, *_) = add_experiment(FIRST)
    path = tmp_path / "home" / "checkpoints" / uuid / registered_model.DATA_FILE
    path.write_text('{"/data/a": "5:abc"}')
    assert register(commands, uuid).origin == {"data": {"/data/a": "5:abc"}}
    path.write_text("[1]")
    with pytest.raises(errors.CheckpointError, match=r"data_marks\.json: can't be understood"):
        register(commands, uuid)


def test_numbers_of_deleted_versions_are_not_given_again(commands, add_experiment):
    _, uuids = add_experiment(FIRST)
    register(commands, uuids[0])
    register(commands, uuids[1])
    commands.delete_model("digits", 2, with_aliases=False)
    assert register(commands, uuids[2]).version == 3
    assert register(commands, uuids[2], name="other").version == 1


@pytest.mark.parametrize(("name", "alias"), [("a/b", ""), ("", ""), ("ok", "7"), ("ok", "a@b")])
def test_names_that_no_reference_could_have_are_refused(commands, add_experiment, name, alias):
    _, (uuid, *_) = add_experiment(FIRST)
    with pytest.raises(errors.ConfigError, match="expected letters, digits"):
        register(commands, uuid, name, alias)


def test_a_checkpoint_whose_files_were_deleted_is_refused(store, commands, add_experiment):
    _, (uuid, *_) = add_experiment(FIRST)
    with store.transaction() as session:
        found = session.get_checkpoint(uuid)
        deleted = checkpoint.CheckpointState.DELETED
        session.update_checkpoint(dataclasses.replace(found, state=deleted))
    with pytest.raises(errors.CheckpointError, match="it is DELETED"):
        register(commands, uuid)


def test_nobody_deletes_a_checkpoint_that_a_version_points_at(shared, commands, add_experiment):
    owner, (uuid, other, *_) = add_experiment(FIRST)
    register(commands, uuid)

    assert shared.find_protected() == {uuid}
    with pytest.raises(errors.StateError, match=r"point at it: digits@1.*quintain model delete"):
        commands.delete_checkpoint(uuid)
    with pytest.raises(errors.StateError, match=r"Experiment 1 can't be deleted.*digits@1"):
        commands.delete_experiment(owner)
    commands.delete_checkpoint(other)

    commands.delete_model("digits", 1, with_aliases=False)
    assert shared.find_protected() == set()
    commands.delete_experiment(owner)


def test_a_path_is_registered_by_the_receipt_of_a_client(store, commands):
    receipt = registered_model.Receipt("/exports/a", "here", "", {"a": "0" * 64}, {}, {}, {})
    added = commands.register_path("digits", receipt=receipt, alias="champion", note="")
    with store.reading() as session:
        model = session.get_model("digits")
    assert (added.path, added.trial_id) == ("/exports/a", None)
    assert model.find("champion") == added
    empty = dataclasses.replace(receipt, files={})
    with pytest.raises(errors.ConfigError, match="files are missing"):
        commands.register_path("digits", receipt=empty, alias="", note="")


def test_an_alias_moves_and_its_history_stays(commands, add_experiment):
    _, uuids = add_experiment(FIRST)
    register(commands, uuids[0], alias="champion")
    register(commands, uuids[1])
    model = promote(commands, 2)

    assert model.aliases == {"champion": 2}
    assert [move.version for move in model.history] == [1, 2]
    with pytest.raises(errors.StateError, match="champion names it"):
        commands.delete_model("digits", 2, with_aliases=False)
    with pytest.raises(errors.NotFoundError, match="'digits@3'"):
        promote(commands, 3)


def test_a_version_that_is_deleted_with_its_aliases_leaves_their_history(
    commands, add_experiment, store
):
    _, uuids = add_experiment(FIRST)
    register(commands, uuids[0], alias="champion")
    commands.delete_model("digits", 1, with_aliases=True)
    with store.reading() as session:
        model = session.get_model("digits")
    assert (model.aliases, len(model.history)) == ({}, 1)
    with pytest.raises(errors.NotFoundError, match="the model has none"):
        model.find("champion")


def test_a_better_version_over_paired_seeds_is_promoted_with_its_proof(commands, add_experiment):
    register(commands, add_experiment(FIRST)[1][0], alias="champion")
    register(commands, add_experiment(SECOND, units=16)[1][0])
    model = promote(commands, 2, not_worse_than="champion")

    # Gains 0.05, 0.04, 0.06, 0.05: mean 0.05, deviation 0.00816, t(3) 2.354.
    assert model.history[-1].reason == (
        "accuracy over 4 paired seeds improves on digits@1 by 0.05 on average, and by at least "
        "0.04039 with 95 % confidence (margin 0)"
    )


def test_a_version_that_may_be_worse_is_refused_unless_the_margin_allows_it(
    commands, add_experiment
):
    register(commands, add_experiment(FIRST)[1][0], alias="champion")
    register(commands, add_experiment([0.80, 0.81, 0.81, 0.84])[1][0])
    with pytest.raises(errors.StateError, match=r"digits@2 may be worse.*over 4 paired.*--margin"):
        promote(commands, 2, not_worse_than="champion", metric_name="accuracy")
    assert promote(commands, 2, not_worse_than="1", margin=0.02).aliases == {"champion": 2}


def test_other_seeds_are_no_pairs(commands, add_experiment):
    register(commands, add_experiment(FIRST)[1][0], alias="champion")
    register(commands, add_experiment(SECOND, first_seed=4)[1][0])
    with pytest.raises(
        errors.StateError, match=r"got 1 seeds with trials of both.*same seeds: fork"
    ):
        promote(commands, 2, not_worse_than="champion")


@pytest.mark.parametrize(
    ("rule", "message"),
    [({"metric_name": "f1"}, "searcher.directions"), ({"margin": -1.0}, "number >= 0")],
)
def test_a_rule_that_can_not_be_meant_is_an_error(commands, add_experiment, rule, message):
    register(commands, add_experiment(FIRST)[1][0], alias="champion")
    with pytest.raises(errors.ConfigError, match=message):
        promote(commands, 1, not_worse_than="champion", **rule)


def test_a_path_has_no_paired_seeds(commands, add_experiment):
    receipt = registered_model.Receipt("/exports/a", "here", "", {"a": "0" * 64}, {}, {}, {})
    commands.register_path("digits", receipt=receipt, alias="champion", note="")
    register(commands, add_experiment(FIRST)[1][0])
    with pytest.raises(errors.StateError, match="digits@1 is no checkpoint of a trial"):
        promote(commands, 2, not_worse_than="champion")


def test_the_least_gain_is_that_of_students_t():
    assert promotion_rule.find_least_gain([1.0, 1.0]) == 1.0
    # Mean 2, deviation 1, t(2) 2.920 (rounded up to three places: 2.920).
    assert promotion_rule.find_least_gain([1.0, 2.0, 3.0]) == pytest.approx(2 - 2.920 / 3**0.5)
