import dataclasses

from quintain.cli import columns
from quintain.cli.display import snapshot
from quintain.cli.experiment import endings
from quintain.records.rows import states


def test_the_result_names_the_best_trial_its_model_and_the_failures(calls_fake):
    taken = snapshot.Follower(calls_fake, 1).take()

    assert endings.describe_result(taken, "some-uuid") == [
        "Trials: 2 completed, 1 error",
        "Best: accuracy 0.75 (trial 2)",
        "  lr: 0.05",
        "  units: 16",
        "Its model: quintain checkpoint export some-uuid --output=best",
        "Failed: trial 3: ValueError: no luck",
        "  quintain trial logs 3 --tail 20",
        "Page: quintain ui",
    ]


def test_the_end_is_told_with_its_time_and_its_reason(calls_fake):
    ended = calls_fake.get_experiment(1)
    failed = dataclasses.replace(ended, state=states.ExperimentState.ERROR, reason="no\x07luck")

    assert endings.describe_end(ended) == "Experiment 1 is COMPLETED after 1:30."
    assert endings.describe_end(failed) == r"Experiment 1 is ERROR after 1:30: no\x07luck"


def test_of_a_search_with_several_metrics_the_command_that_shows_the_front_is_named(calls_fake):
    taken = snapshot.Follower(calls_fake, 1).take()
    objectives = {"further_objectives": [{"metric": "size"}]}
    searcher = {**taken.searcher, **objectives}
    config = {**taken.experiment.config, "searcher": searcher}
    taken = dataclasses.replace(
        taken, experiment=dataclasses.replace(taken.experiment, config=config)
    )

    assert columns.describe_search(searcher).endswith(" by accuracy, size")
    assert "Best in all metrics: quintain experiment pareto 1" in endings.describe_result(
        taken, None
    )
