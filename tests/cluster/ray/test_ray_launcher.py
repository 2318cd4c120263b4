"""Nodes of a Ray cluster, by what Ray and their agents say of them."""

import pytest

from quintain.cluster.ray import ray_launcher, ray_messages
from quintain.testing import idle_launcher


@pytest.fixture
def launcher(tmp_path):
    settings = ray_messages.Settings(address="auto")
    return ray_launcher.RayLauncher(idle_launcher.IdleLauncher(), settings, tmp_path / "ray.log")


def test_nodes_whose_agents_have_not_called_are_awaited_unless_they_can_not(launcher):
    assert launcher.list_awaited() == []

    launcher._take(
        [
            ray_messages.NodeNews("a", is_alive=True),
            ray_messages.NodeNews("b", is_alive=True, problem="Another version of Python."),
            ray_messages.NodeNews("c", is_alive=False, problem="Ray: it died"),
        ]
    )

    assert launcher.list_awaited() == ["a"]
    assert not launcher._is_complete()
