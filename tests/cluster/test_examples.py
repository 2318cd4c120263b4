"""What the examples for Slurm and Kubernetes start can be started."""

import getpass
import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import types

import click
import kubernetes_validate
import pytest
import yaml

from quintain.cli import main

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
MANIFESTS = sorted((EXAMPLES / "kubernetes").glob("*.yaml"))
REFERENCE = re.compile(r"\$\((\w+)\)")
FAKE = """trap 'echo told >> "$OUTPUT"; exit 7' TERM
echo "$@" > "$OUTPUT"
while true; do sleep 0.05; done
"""


def list_pods(manifest):
    for document in yaml.safe_load_all(manifest.read_text()):
        if document["kind"] in ("Deployment", "Job"):
            yield document, document["spec"]["template"]["spec"]


def parse(arguments):
    """Parses the arguments of a command as it does itself, without running it."""
    command, name = main.cli, "quintain"
    context = click.Context(command, info_name=name)
    while isinstance(command, click.Group):
        name, *arguments = arguments
        command = command.get_command(context, name)
        assert command is not None, name
        if not isinstance(command, click.Group):
            return command.make_context(name, list(arguments), parent=context).params
        context = click.Context(command, info_name=name, parent=context)
    raise AssertionError(arguments)


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.name)
def test_containers_run_commands_that_there_are(manifest):
    for document, pod in list_pods(manifest):
        template = document["spec"]["template"]
        selector = document["spec"].get("selector")
        assert selector is None or selector["matchLabels"] == template["metadata"]["labels"]
        volumes = {each["name"] for each in pod.get("volumes", ())}
        for container in pod["containers"]:
            variables = {each["name"] for each in container["env"]}
            references = {name for text in container["args"] for name in REFERENCE.findall(text)}
            assert references <= variables
            assert {each["name"] for each in container["volumeMounts"]} <= volumes
            assert container["command"] == ["quintain"]
            params = parse([REFERENCE.sub("x", text) for text in container["args"]])
            assert params["num_slots"] in (0, 2)


@pytest.mark.parametrize("version", ["1.29", "1.37"])
@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.name)
def test_kubernetes_knows_all_fields_of_the_manifests(manifest, version):
    for document in yaml.safe_load_all(manifest.read_text()):
        kubernetes_validate.validate(document, version, strict=True)


def test_the_lint_of_dockerfiles_finds_nothing():
    hadolint = pathlib.Path(sys.executable).with_name("hadolint")
    done = subprocess.run(
        [str(hadolint), str(EXAMPLES / "kubernetes/Dockerfile")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "")


def test_the_agents_of_a_job_are_replaced_where_that_helps():
    """By the exit codes of the command: 1 and 2 where waiting and starting again do not help."""
    ((job, pod),) = list_pods(EXAMPLES / "kubernetes" / "agents-job.yaml")
    ended = [
        (rule["action"], rule["onExitCodes"]["values"])
        for rule in job["spec"]["podFailurePolicy"]["rules"]
        if "onExitCodes" in rule
    ]

    assert ended == [("FailIndex", [main.EXIT_FAILURE, main.EXIT_BAD_INPUT])]
    # Kubernetes looks at exit codes only where it does not start containers again by itself.
    assert pod["restartPolicy"] == "Never"


def test_the_service_leads_to_the_port_of_the_master():
    (service,) = [
        each
        for each in yaml.safe_load_all((EXAMPLES / "kubernetes" / "master.yaml").read_text())
        if each["kind"] == "Service"
    ]
    ((master, pod),) = list_pods(EXAMPLES / "kubernetes" / "master.yaml")
    (container,) = pod["containers"]
    (port,) = service["spec"]["ports"]
    assert service["spec"]["selector"] == master["spec"]["template"]["metadata"]["labels"]
    name = f"{service['metadata']['name']}:{port['port']}"
    assert f"--allowed-host={name}" in container["args"]
    assert {each["name"]: each["containerPort"] for each in container["ports"]} == {
        port["targetPort"]: 8443
    }
    for path in MANIFESTS:
        for _, other in list_pods(path):
            for argument in other["containers"][0]["args"]:
                assert not argument.startswith("--master=") or argument.endswith(f"//{name}")


class SlurmScript:
    """`agents.sbatch` with an agent that is only pretended."""

    def __init__(self, directory):
        self.directory = directory
        self.output = directory / "output"
        for name, text in (("quintain", FAKE), ("scontrol", 'echo "$@" >> "$OUTPUT"')):
            fake = directory / name
            fake.write_text(f"#!/bin/sh\n{text}\n")
            fake.chmod(0o755)

    def run(self, number, **variables):
        """Returns the params of its agent, what was called after the signal, and its exit code."""
        self.output.unlink(missing_ok=True)
        running = subprocess.Popen(
            [str(EXAMPLES / "slurm" / "agents.sbatch")],
            env={
                "PATH": f"{self.directory}{os.pathsep}{os.environ['PATH']}",
                "HOME": "/home/me",
                "MASTER": "https://login1:8443",
                "FINGERPRINT": "ab",
                "OUTPUT": str(self.output),
                "SLURM_ARRAY_JOB_ID": "12",
                "SLURM_ARRAY_TASK_ID": "3",
                "SLURM_JOB_ID": "15",
                "TMPDIR": "/scratch",
                **variables,
            },
        )
        deadline = time.monotonic() + 60.0
        while not (self.output.exists() and self.output.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        running.send_signal(number)
        code = running.wait(60)
        called, *told = self.output.read_text().splitlines()
        return parse(called.split()), told, code


@pytest.fixture
def slurm_script(tmp_path):
    return SlurmScript(tmp_path)


def test_the_script_of_slurm_hands_the_signal_on_to_its_agent(slurm_script):
    params, told, code = slurm_script.run(signal.SIGTERM, STAY="1")

    assert (told, code) == (["told"], 7)
    assert params["url"] == "https://login1:8443"
    assert params["token_file"] == "/home/me/agent.token"
    assert params["name"].endswith("-12-3")
    cache = pathlib.PurePath(params["cache_dir"])
    assert cache.parent == pathlib.PurePath(f"/scratch/quintain-{getpass.getuser()}")


def test_agents_of_one_machine_have_names_and_directories_of_their_own(slurm_script):
    found = [
        slurm_script.run(signal.SIGTERM, **variables)[0]
        for variables in (
            {},
            {"SLURM_ARRAY_TASK_ID": "4"},
            {"SLURM_ARRAY_JOB_ID": "", "SLURM_ARRAY_TASK_ID": "", "SLURM_JOB_ID": "13"},
            {"SLURM_ARRAY_JOB_ID": "", "SLURM_ARRAY_TASK_ID": "", "SLURM_JOB_ID": "14"},
        )
    ]

    assert len({params["name"] for params in found}) == len(found)
    assert len({params["cache_dir"] for params in found}) == len(found)


@pytest.mark.parametrize(
    ("variables", "expected"), [({}, ["told"]), ({"STAY": "1"}, ["told", "requeue 15"])]
)
def test_a_job_whose_time_is_over_asks_for_more_if_it_is_to_stay(slurm_script, variables, expected):
    _, told, code = slurm_script.run(signal.SIGUSR1, **variables)

    assert (told, code) == (expected, 7)


@pytest.fixture
def submitted(monkeypatch, tmp_path):
    """The module that submits agents, inside of a job, with an agent that is only pretended."""
    spec = importlib.util.spec_from_file_location(
        "submit_agents", EXAMPLES / "slurm" / "submit_agents.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setenv("OUTPUT", str(tmp_path / "output"))
    monkeypatch.setattr(
        module.submitit, "JobEnvironment", lambda: types.SimpleNamespace(job_id="8_1")
    )
    start = subprocess.Popen

    def start_fake(arguments, **settings):
        return start(["/bin/sh", "-c", FAKE, "quintain", *arguments[3:]], **settings)

    monkeypatch.setattr(module.subprocess, "Popen", start_fake)
    former = [(number, signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGUSR2)]
    yield module
    for number, handler in former:
        signal.signal(number, handler)


def test_a_job_of_submitit_saves_itself_when_a_signal_comes_while_it_waits(submitted, tmp_path):
    job = submitted.AgentJob(["--master=https://login1:8443", "--token_file=x"], "")
    again = []
    signal.signal(signal.SIGUSR2, lambda *_: again.append(job.checkpoint()))

    def tell():
        # It may have begun before the job knows of it.
        while job._agent is None or not (tmp_path / "output").exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGUSR2)

    thread = threading.Thread(target=tell)
    thread.start()
    assert job() == 7
    thread.join()

    called, told = (tmp_path / "output").read_text().splitlines()
    assert told == "told"
    assert len(again) == 1
    params = parse(called.split())
    assert params["name"].endswith("-8_1")
    assert params["cache_dir"] == f"/tmp/quintain-{getpass.getuser()}/{params['name']}"
