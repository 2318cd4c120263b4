import shlex

import quintain.registered_experiments  # noqa: F401 - registers what is trained
from quintain.cli.training import local_cluster, local_training
from quintain.run import experiment_parser


def test_the_command_to_go_on_with_can_be_given_as_it_is_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(local_cluster.LocalCluster, "run", lambda _: 130)
    model_dir = f"{tmp_path}/a run"
    arguments = ["--experiment=translation/local", f"--model-dir={model_dir}", "--set", "x='y'"]

    code = local_training.run(
        experiment_parser.ParseConfigOptions(experiment="translation/local"),
        "train",
        model_dir,
        arguments=arguments,
        num_workers=2,
        num_ps=1,
        max_restarts=3,
        allow_config_change=False,
    )

    last = capsys.readouterr().err.splitlines()[-1]
    assert code == 130
    assert shlex.split(last) == ["quintain", "train", *arguments]
