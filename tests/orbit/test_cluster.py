import types

import pytest
import tensorflow as tf

from quintain import errors
from quintain.orbit import cluster


def test_the_end_of_another_worker_is_looked_into_before_all_are_started_again(monkeypatch):
    monkeypatch.setattr(cluster, "num_workers", lambda _: 2)

    with (
        pytest.raises(errors.ClusterError, match="Once that is mended, start all workers again"),
        cluster.explain_lost_workers(types.SimpleNamespace()),
    ):
        raise tf.errors.UnavailableError(None, None, "gone")
