"""The page on a task of one's own is walked, from its data to an answer over HTTP."""

import json
import os
import pathlib
import re
import subprocess
import sys

import keras
import pytest
import urllib3
from sklearn import datasets

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

PAGE = pathlib.Path(__file__).parents[2] / "docs/tutorials/your_own_task.md"
FEWER = {
    "train": ("--set", "trainer.train_steps=100"),
    "experiment create": ("--set", "searcher.max_length=100", "--set", "searcher.max_trials=2"),
}
"""What is asked of commands besides, so that a test takes less than a reader."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The reader's folder, with the files that the page has."""
    folder = tmp_path_factory.mktemp("wines ü")
    for name, text in re.findall(r"```\w+\n# (\w+\.\w+)\n(.*?)```", PAGE.read_text(), re.DOTALL):
        (folder / name).write_text(text)
    run(folder, sys.executable, "data.py")
    yield folder
    run(folder, "quintain", "master", "stop", "--now", check=False)


def start(folder, program, *arguments):
    command = [program] if program != "quintain" else [sys.executable, "-m", "quintain.cli.main"]
    return subprocess.Popen(
        [*command, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "QUINTAIN_HOME": str(folder / "home")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder, *command, check=True):
    process = start(folder, *command)
    stdout, stderr = process.communicate(timeout=300)
    assert not check or process.returncode == 0, stdout + stderr
    return stdout + stderr


def run_from_page(folder, command):
    """Runs the page's line that begins with a command, asking for less than it does."""
    (line,) = re.findall(rf"^(?:\$ )?quintain {command} .*$", PAGE.read_text(), re.MULTILINE)
    arguments = line.removeprefix("$ ").split()
    return run(folder, *arguments, *FEWER.get(command, ()))


def test_the_task_is_trained(folder):
    output = run_from_page(folder, "train")

    assert re.search(r"accuracy +[01]\.\d", output)
    assert (folder / "runs/first/params.yaml").exists()


def test_the_task_is_searched_exported_and_served_by_the_commands_that_are_named(folder):
    run_from_page(folder, "experiment create")
    best = run_from_page(folder, "experiment best")
    export = re.search(r"^To use its model: (.*)$", best, re.MULTILINE)[1].split()
    serve = re.search(r"^To serve it: (.*)$", run(folder, *export), re.MULTILINE)[1].split()
    body = re.search(r"/predict -d '(.*)'", PAGE.read_text())[1]

    server = start(folder, *serve, "--port=0")
    try:
        url = re.search(r"http://\S+", server.stderr.readline())[0]
        answer = urllib3.request("POST", url, body=body)
    finally:
        server.terminate()
        server.communicate()

    assert server.returncode == 0
    ((first, second, third),) = json.loads(answer.data)["predictions"]
    assert first + second + third == pytest.approx(1.0, abs=1e-5)


def test_the_methods_for_images_are_trained(folder):
    methods = re.search(r"```py\n# methods of the task\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    chosen = "WineTask.build_model, WineTask.build_inputs = build_model, build_inputs\n"
    (folder / "digits.py").write_text(f"{(folder / 'wine.py').read_text()}\n{methods}\n{chosen}")
    images, classes = datasets.load_digits(return_X_y=True)
    for number, (image, name) in enumerate(zip(images[:200], classes, strict=False)):
        path = folder / "images" / str(name) / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        keras.utils.save_img(path, image.reshape(8, 8, 1), scale=True)
    parts = ("train_data", "validation_data")
    settings = [f"--set=task.{part}.input_path={folder}/images" for part in parts]

    command = ["train", "--import=digits", "--experiment=wine", f"--model-dir={folder}/images_run"]
    output = run(folder, "quintain", *command, *settings, *FEWER["train"])

    assert re.search(r"accuracy +[01]\.\d", output)
