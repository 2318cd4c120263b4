import pytest

from quintain.records.config import experiment_templates


@pytest.mark.parametrize(
    ("template", "content", "merged"),
    [
        (
            {"labels": ["a"], "max_restarts": 0},
            {"labels": ["b"]},
            {"labels": ["b"], "max_restarts": 0},
        ),
        (
            {"searcher": {"name": "random", "metric": "loss", "max_trials": 3}},
            {"searcher": {"max_trials": 5}},
            {"searcher": {"name": "random", "metric": "loss", "max_trials": 5}},
        ),
        (
            {"hyperparameters": {"a": {"type": "int", "minval": 1, "maxval": 2}, "b": 1}},
            {"hyperparameters": {"a": {"type": "double", "minval": 0.5, "maxval": 0.9}}},
            {"hyperparameters": {"a": {"type": "double", "minval": 0.5, "maxval": 0.9}, "b": 1}},
        ),
        (
            {"checkpoint_storage": {"type": "s3", "bucket": "b"}},
            {"checkpoint_storage": {"type": "shared_fs", "host_path": "/a"}},
            {"checkpoint_storage": {"type": "shared_fs", "host_path": "/a"}},
        ),
        (
            {"environment": {"image": "x", "environment_variables": ["A=1", "B=2"]}},
            {"environment": {"environment_variables": ["B=3", "C=4"]}},
            {"environment": {"image": "x", "environment_variables": ["A=1", "B=3", "C=4"]}},
        ),
        (
            {"environment": {"environment_variables": {"cpu": ["A=1"]}}},
            {"environment": {"environment_variables": {"cpu": ["A=2"], "gpu": None}}},
            {"environment": {"environment_variables": {"cpu": ["A=2"], "gpu": []}}},
        ),
        (
            {"log_policies": [{"pattern": "a"}]},
            {"log_policies": [{"pattern": "a"}, {"pattern": "b"}]},
            {"log_policies": [{"pattern": "a"}, {"pattern": "b"}]},
        ),
        ({"data": {"type": "a", "x": 1}}, {"data": {"type": "b"}}, {"data": {"type": "b", "x": 1}}),
        ({"data": {"x": 1}}, {"data": None}, {"data": {"x": 1}}),
    ],
)
def test_a_config_is_laid_over_its_template(template, content, merged):
    assert experiment_templates.merge(template, content) == merged
