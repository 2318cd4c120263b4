from quintain.core import exp_factory
from quintain.core.progressive import staged_policy
from quintain.nlp import experiments  # noqa: F401  (registers)


def test_the_last_stage_is_the_plain_experiment_and_the_first_is_smaller():
    params = exp_factory.get_exp_config("translation/local_progressive")
    plain = exp_factory.get_exp_config("translation/local")

    params.validate()
    first, last = (staged_policy.build_task_config(params, stage_id) for stage_id in range(2))

    assert last == plain.task
    assert first.model.encoder.num_layers == first.model.decoder.num_layers == 1
    assert first.train_data.global_batch_size == plain.task.train_data.global_batch_size // 2
    assert params.trainer.train_steps == plain.trainer.train_steps
