"""The Helm chart makes what the manifests beside it say, and refuses values that mean nothing."""

import json
import pathlib

import kubernetes_validate
import pytest
import yaml

import quintain

pytestmark = pytest.mark.slow

DIRECTORY = pathlib.Path(__file__).parents[2] / "examples/kubernetes"
CHART = DIRECTORY / "chart"
PLAIN = {"agents": {"replicas": 4}}
RICH = {
    "image": "registry:5000/quintain:1-gpu",
    "master": {
        "args": ["--node_timeout=60", "--allowed_host=cluster.example"],
        "env": [{"name": "QUINTAIN_DATABASE", "value": "postgresql://x"}],
        "storageClass": "fast",
    },
    "agents": {
        "replicas": 1,
        "slots": None,
        "hasFingerprint": False,
        "env": [{"name": "A", "value": "b"}],
        "nodeSelector": {"machine": "gpu"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    },
}
REFUSED = {
    "replicas": {"agents": {"replicas": -1}},
    "replica": {"agents": {"replica": 1}},
    "slots": {"agents": {"slots": 0}},
    "storage": {"master": {"storage": "many"}},
    "args": {"master": {"args": ["slots"]}},
}
"""Values that are wrong, by the name that the error has to have."""


@pytest.fixture(scope="module")
def result(run_program):
    values = [PLAIN, {}, RICH, *REFUSED.values()]
    texts = [json.dumps(each) for each in values]
    return run_program("render_chart.py", CHART, *texts, is_fresh=True)


def list_documents(files):
    return {
        (each["kind"], each["metadata"]["name"]): each
        for text in files.values()
        for each in yaml.safe_load_all(text)
        if each
    }


def test_lint_finds_nothing(result):
    assert result["lint"] == []


def test_the_chart_makes_what_the_manifests_say(result):
    rendered = list_documents(result["rendered"][0])
    manifests = list_documents(
        {name: (DIRECTORY / name).read_text() for name in ("master.yaml", "agents.yaml")}
    )

    # Only Helm takes things away again.
    assert rendered["PersistentVolumeClaim", "quintain-home"]["metadata"].pop("annotations") == {
        "helm.sh/resource-policy": "keep"
    }
    assert rendered == manifests


def test_there_are_no_agents_before_they_are_asked_for(result):
    assert ("Deployment", "quintain-agents") not in list_documents(result["rendered"][1])


def test_all_values_reach_the_pods(result):
    documents = list_documents(result["rendered"][2])
    for document in documents.values():
        kubernetes_validate.validate(document, "1.37", strict=True)
    claim = documents["PersistentVolumeClaim", "quintain-home"]
    pods = {
        name: documents["Deployment", f"quintain-{name}"]["spec"]["template"]["spec"]
        for name in ("master", "agents")
    }
    master, agent = (pod["containers"][0] for pod in pods.values())

    assert claim["spec"]["storageClassName"] == "fast"
    assert master["args"][-2:] == RICH["master"]["args"]
    assert master["env"][-1:] == RICH["master"]["env"]
    assert {master["image"], agent["image"]} == {RICH["image"]}
    assert agent["env"][-1:] == RICH["agents"]["env"]
    assert agent["resources"]["limits"] == RICH["agents"]["resources"]["limits"]
    assert not [text for text in agent["args"] if text.startswith(("--slots", "--fingerprint"))]
    for name in ("nodeSelector", "tolerations"):
        assert pods["agents"][name] == RICH["agents"][name]


def test_wrong_values_are_refused_by_name(result):
    for name, error in zip(REFUSED, result["rendered"][3:], strict=True):
        assert isinstance(error, str)
        assert name in error


def test_the_chart_is_for_this_version():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert {chart["version"], chart["appVersion"]} == {quintain.__version__}
