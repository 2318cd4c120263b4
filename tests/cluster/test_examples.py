"""What the examples for Slurm and Kubernetes start can be started."""

import os
import pathlib
import re
import signal
import subprocess
import time

import click
import pytest
import yaml

from quintain.cli import main

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
MANIFESTS = sorted((EXAMPLES / "kubernetes").glob("*.yaml"))
REFERENCE = re.compile(r"\$\((\w+)\)")
FAKE = """#!/bin/sh
echo "$@" > "$OUTPUT"
trap 'echo told >> "$OUTPUT"; exit 7' TERM
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
    assert f"--allowed_host={name}" in container["args"]
    assert {each["name"]: each["containerPort"] for each in container["ports"]} == {
        port["targetPort"]: 8443
    }
    for path in MANIFESTS:
        for _, other in list_pods(path):
            for argument in other["containers"][0]["args"]:
                assert not argument.startswith("--master=") or argument.endswith(f"//{name}")


def test_the_script_of_slurm_hands_the_signal_on_to_its_agent(tmp_path):
    fake = tmp_path / "quintain"
    fake.write_text(FAKE)
    fake.chmod(0o755)
    output = tmp_path / "output"
    running = subprocess.Popen(
        [str(EXAMPLES / "slurm" / "agents.sbatch")],
        env={
            "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
            "HOME": "/home/me",
            "USER": "me",
            "MASTER": "https://login1:8443",
            "FINGERPRINT": "ab",
            "OUTPUT": str(output),
            "SLURM_ARRAY_JOB_ID": "12",
            "SLURM_ARRAY_TASK_ID": "3",
            "TMPDIR": "/scratch",
        },
    )
    deadline = time.monotonic() + 20.0
    while not (output.exists() and output.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    running.send_signal(signal.SIGTERM)

    assert running.wait(20) == 7
    called, told = output.read_text().splitlines()
    assert told == "told"
    params = parse(called.split())
    assert params["url"] == "https://login1:8443"
    assert params["token_file"] == "/home/me/agent.token"
    assert params["name"].endswith("-12-3")
    assert params["cache_dir"] == "/scratch/quintain-me"
