import os
import subprocess
import sys

import click
import pytest
from click import testing

import quintain.registered_experiments  # noqa: F401 - registers them
from quintain.cli import lazy_group, options
from quintain.core import exp_factory


def test_help_groups_the_commands_in_the_order_of_use(quintain):
    _, stdout, _ = quintain("--help")

    positions = [stdout.index(f"\n{title}:\n") for title in ("Train", "Search", "Use", "Operate")]
    assert positions == sorted(positions)
    assert positions[0] < stdout.index("\n  train ") < positions[1]


@pytest.mark.parametrize(
    ("typed", "meant"), [("trian", "train"), ("exprot", "export"), ("dcotor", "doctor")]
)
def test_swapped_letters_name_the_command_that_was_meant(quintain, typed, meant):
    code, _, stderr = quintain(typed)

    assert code == 2
    assert f"Did you mean '{meant}'?" in stderr


def test_help_shows_options_with_dashes_and_underscores_work_too(quintain):
    _, stdout, _ = quintain("train", "--help")
    assert "--model-dir DIR" in stdout
    assert "--model_dir" not in stdout

    said = [
        quintain("train", f"--{name}=runs/a_b", "--mode=evla")
        for name in ("model-dir", "model_dir")
    ]
    assert said[0] == said[1]
    assert "Did you mean 'eval'?" in said[0][2]


@pytest.mark.parametrize(
    ("command", "former", "name"),
    [
        (("checkpoint", "export"), "--output-dir", "--output"),
        (("experiment", "create"), "--no-follow", "--detach"),
    ],
)
def test_help_shows_one_name_for_each_option(quintain, command, former, name):
    _, stdout, _ = quintain(*command, "--help")
    assert name in stdout
    assert former not in stdout

    said = [quintain(*command, "nothing", each) for each in (name, former)]
    assert said[0] == said[1]
    assert said[0][0] != 0


@pytest.mark.parametrize("name", ["kill", "list-checkpoints", "list-trials"])
def test_help_does_not_show_other_names_of_commands(quintain, name):
    assert f"\n  {name} " not in quintain("experiment", "--help")[1]
    assert quintain("experiment", name, "--help")[0] == 0


def test_what_follows_two_dashes_is_left_as_it_is():
    @click.command(cls=lazy_group.FlagCommand)
    @click.argument("texts", nargs=-1)
    def say(texts):
        click.echo(" ".join(texts))

    assert testing.CliRunner().invoke(say, ["--", "--a_b", "c_d"]).output == "--a_b c_d\n"


def test_a_misspelt_option_names_the_nearest(quintain):
    _, _, stderr = quintain("train", "--modle_dir=x")

    assert "No such flag '--modle-dir'. Did you mean '--model-dir'?" in stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("quintain tr", "plain,train\nplain,trial\nplain,translate\n"),
        ("quintain train --model-d", "plain,--model-dir\n"),
        (
            "quintain train --experiment wmt",
            "plain,wmt_transformer/base\nplain,wmt_transformer/large\n",
        ),
        (
            "quintain train --mode = continuous",
            "plain,continuous_eval\nplain,continuous_train_and_eval\n",
        ),
        (
            "quintain train --experiment = wmt",  # Bash makes three words of it.
            "plain,wmt_transformer/base\nplain,wmt_transformer/large\n",
        ),
    ],
)
def test_a_shell_completes_commands_options_and_experiments(words, completed):
    variables = {"_QUINTAIN_COMPLETE": "bash_complete", "COMP_WORDS": words}
    variables["COMP_CWORD"] = str(len(words.split()) - 1)
    program = "import sys; from quintain.cli import main\ntry: main.main([])\nfinally: "
    program += "assert 'tensorflow' not in sys.modules"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr == ""
    assert done.stdout.startswith(completed)


def test_completion_knows_all_experiments_of_the_package():
    registered = exp_factory.registered_experiments()
    own = {
        name
        for name in registered
        if exp_factory.EXPERIMENTS.lookup(name).__module__.startswith("quintain.nlp.")
    }
    assert set(options.complete_experiment(None, None, "")) == own


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(quintain, shell):
    code, stdout, _ = quintain("completion", shell)

    assert code == 0
    assert f"_QUINTAIN_COMPLETE={shell}_complete" in stdout
