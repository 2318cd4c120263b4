import tensorflow as tf

from quintain import orbit
from quintain.run.events import preemption


class FakeStrategy:
    def __init__(self, cluster_resolver):
        self.cluster_resolver = cluster_resolver


RESOLVER = tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec({}))


def test_a_notice_requests_to_stop():
    answers = iter([False, OSError("no network"), True])

    def has_notice():
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    with (
        orbit.Interruption() as interruption,
        preemption.notices_watched(
            FakeStrategy(RESOLVER), interruption, has_notice=has_notice, poll_secs=0.01
        ),
    ):
        assert interruption.wait(30)

    assert interruption.reason == "a notice of preemption"


def test_without_a_notice_nothing_happens_and_the_watch_ends():
    looks = []

    with (
        orbit.Interruption() as interruption,
        preemption.notices_watched(
            FakeStrategy(RESOLVER),
            interruption,
            has_notice=lambda: looks.append(1) or False,
            poll_secs=0.01,
        ),
    ):
        pass

    assert not interruption.requested


def test_a_single_machine_is_not_watched():
    with (
        orbit.Interruption() as interruption,
        preemption.notices_watched(FakeStrategy(None), interruption, has_notice=lambda: True),
    ):
        pass

    assert not interruption.requested
