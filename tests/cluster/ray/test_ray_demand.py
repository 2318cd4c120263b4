"""What Ray's autoscaler is asked for, and for how long."""

import types

import pytest

from quintain.cluster.ray import ray_demand


class Sdk:
    """In the place of `ray.autoscaler.sdk`."""

    def __init__(self):
        self.requests = []
        self.error = None

    def request_resources(self, *, bundles, bundle_label_selectors):
        if self.error is not None:
            raise self.error
        self.requests.append([*zip(bundles, bundle_label_selectors, strict=True)])


@pytest.fixture
def sdk(monkeypatch):
    made = Sdk()
    monkeypatch.setattr(ray_demand.importlib, "import_module", lambda name: made if name else None)
    monkeypatch.setattr(ray_demand.DemandKeeper, "_watch", lambda _: None)
    return made


def bundle(cpus, **labels):
    return {"resources": {"CPU": cpus}, "labels": labels}


def machine(name, cpus, gpus=0.0):
    return types.SimpleNamespace(name=name, cpus=cpus, gpus=gpus)


def want(num_slots, count, gpu=None, **labels):
    return {"num_slots": num_slots, "count": count, "gpu": gpu, "labels": labels}


def test_what_several_masters_ask_for_is_added_up_and_taken_back_when_one_is_gone(sdk):
    keeper = ray_demand.DemandKeeper(lease_secs=30.0)
    assert keeper.keep("one", [bundle(1.0)]) == ""
    began = keeper._asked["one"][0]
    keeper.keep("two", [bundle(2.0, zone="a")])
    keeper._asked["two"] = (began + 20.0, keeper._asked["two"][1])

    assert sdk.requests[-1] == [({"CPU": 1.0}, {}), ({"CPU": 2.0}, {"zone": "a"})]
    keeper.drop_old(began + 29.0)
    assert len(sdk.requests) == 2
    keeper.drop_old(began + 31.0)
    assert sdk.requests[-1] == [({"CPU": 2.0}, {"zone": "a"})]
    keeper.keep("two", [])
    assert sdk.requests[-1] == []
    assert not keeper.drop_old(keeper._last_secs + 30.0)
    assert keeper.drop_old(keeper._last_secs + 30.1)


def test_what_ray_refuses_is_told(sdk):
    sdk.error = ValueError("Invalid label selector")
    keeper = ray_demand.DemandKeeper()

    assert "asked for nodes: Invalid label selector" in keeper.keep("one", [bundle(1.0)])


@pytest.mark.parametrize(
    ("machines", "settings", "wanted", "expected"),
    [
        # Nodes with trials are told as a whole, so that what waits needs others.
        ([machine("a", 2.0)], (None, None), [want(1, 2)], [{"CPU": 2.0}] + 2 * [{"CPU": 1.0}]),
        ([machine("b", 8.0)], (None, None), [want(2, 1)], [{"CPU": 4.0}]),
        ([machine("b", 6.0)], (2, None), [want(2, 1)], [{"CPU": 6.0}]),
        ([machine("b", 0.0)], (None, 4), [want(2, 1)], [{"CPU": 8.0}]),
        ([machine("a", 8.0, 2.0)], (None, None), [want(2, 1, True)], [{"CPU": 8.0, "GPU": 2.0}]),
        ([machine("a", 2.0)], (None, None), [], []),
    ],
)
def test_what_waits_is_told_beside_what_is_used(machines, settings, wanted, expected):
    content = {"wanted": wanted, "busy": ["a"], "released": []}

    found = [each["resources"] for each in ray_demand.build_bundles(content, machines, *settings)]

    if wanted and wanted[0]["gpu"]:
        expected = [*expected, {"GPU": 2.0}]
    assert found == expected


def test_labels_and_kinds_of_gpus_are_told():
    content = {"wanted": [want(1, 1, "A100", zone="a")], "busy": [], "released": []}

    [found] = ray_demand.build_bundles(content, [], None, None)

    assert found["resources"] == {"GPU": 1.0}
    assert found["labels"] == {"zone": "a", "ray.io/accelerator-type": "A100"}
