"""Exports a trained topic classifier."""
import os

from absl import app
from absl import flags
import tensorflow as tf

from quintain.core import exp_factory
from quintain.core import export_base
from quintain.core import task_factory
from quintain.modeling import hyperparams

from topics import experiments  # pylint: disable=unused-import
from topics import task as topic_task

FLAGS = flags.FLAGS
flags.DEFINE_string('experiment', 'topics/bert', 'Experiment that was trained.')
flags.DEFINE_string('model_dir', None, 'Where params.yaml and checkpoints are.')
flags.DEFINE_string('export_dir', None, 'Where the SavedModel goes.')


class TopicModule(export_base.ExportModule):
  """Gives the probability of each topic, and the best one."""

  @tf.function
  def serve(self, input_word_ids):
    inputs = dict(
        input_word_ids=input_word_ids,
        input_mask=tf.cast(tf.not_equal(input_word_ids, 0), tf.int32),
        input_type_ids=tf.zeros_like(input_word_ids))
    logits = self.inference_step(inputs)
    return dict(topic=tf.argmax(logits, axis=-1), probabilities=tf.nn.softmax(logits))

  def get_inference_signatures(self, function_keys):
    signatures = {}
    for key, signature in function_keys.items():
      if key != 'serve':
        raise ValueError(f'Unknown function {key}.')
      signatures[signature] = self.serve.get_concrete_function(
          tf.TensorSpec([None, None], tf.int32, name='input_word_ids'))
    return signatures


def main(_):
  params = exp_factory.get_exp_config(FLAGS.experiment)
  params = hyperparams.override_params_dict(
      params, os.path.join(FLAGS.model_dir, 'params.yaml'), is_strict=True)
  params.validate()
  params.lock()
  task = task_factory.get_task(params.task)
  model = task.build_model()
  module = TopicModule(params, model, inference_step=task.inference_step)
  path = export_base.export(
      module, ['serve'], FLAGS.export_dir, checkpoint_path=FLAGS.model_dir, timestamped=False)
  loaded = tf.saved_model.load(path)
  topics = topic_task.predict(task, params.task.validation_data, model)
  sentence = tf.constant([[2, 4, 5, 6, 7, 3]])
  served = loaded.signatures['serving_default'](input_word_ids=sentence)
  print(len(topics), served['topic'].numpy(), served['probabilities'].shape)


if __name__ == '__main__':
  flags.mark_flags_as_required(['model_dir', 'export_dir'])
  app.run(main)
