import os
import types

import pytest
import tensorflow as tf

from quintain import errors
from quintain.orbit import cluster


@pytest.mark.parametrize("lost", [tf.errors.UnavailableError, tf.errors.DeadlineExceededError])
def test_the_end_of_another_worker_is_looked_into_before_all_are_started_again(monkeypatch, lost):
    monkeypatch.setattr(cluster, "num_workers", lambda _: 2)

    with (
        pytest.raises(errors.ClusterError, match="Once that is mended, start all workers again"),
        cluster.lost_workers_explained(types.SimpleNamespace()),
    ):
        raise lost(None, None, "gone")


def test_a_cluster_is_reached_without_the_proxy_of_the_web(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv(cluster.PROXY_VARIABLE, "http://own.example:3128")
    cluster.reach_directly()
    assert os.environ[cluster.PROXY_VARIABLE] == "http://own.example:3128"
    monkeypatch.delenv(cluster.PROXY_VARIABLE)
    cluster.reach_directly()
    assert os.environ[cluster.PROXY_VARIABLE] == ""
