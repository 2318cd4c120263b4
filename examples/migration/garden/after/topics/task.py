"""Topic classification task."""
import dataclasses
from typing import Optional, Tuple

from absl import logging
import gin
import numpy as np
import quintain.orbit as orbit
import tensorflow as tf, tensorflow.keras as tf_keras

from quintain.core import base_task
from quintain.core import config_definitions as cfg
from quintain.core import task_factory
from quintain.modeling import tf_utils
from quintain.modeling.hyperparams import base_config
from quintain.nlp.configs import encoders
from quintain.nlp.data import data_loader_factory

from topics import dataloader
from topics import model as topic_model


@dataclasses.dataclass
class HeadConfig(base_config.Config):
  """What comes after the encoder."""
  kind: str = 'attentive'
  num_heads: int = 2
  inner_dim: int = 32
  activation: str = 'tanh'


@dataclasses.dataclass
class ModelConfig(base_config.Config):
  """A topic classifier."""
  num_classes: int = 0
  dropout_rate: float = 0.1
  head: HeadConfig = dataclasses.field(default_factory=HeadConfig)
  encoder: encoders.EncoderConfig = dataclasses.field(
      default_factory=encoders.EncoderConfig)


@dataclasses.dataclass
class TopicConfig(cfg.TaskConfig):
  """The task config."""
  init_checkpoint: str = ''
  label_smoothing: float = None
  class_weights: Tuple[float] = (1., 1., 1., 1., 1.)
  report: Optional[Tuple[str, ...]] = ('accuracy', 'confusion')
  model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
  train_data: cfg.DataConfig = dataclasses.field(
      default_factory=lambda: dataloader.TopicDataConfig(word_dropout=0.05))
  validation_data: cfg.DataConfig = dataclasses.field(
      default_factory=lambda: dataloader.TopicDataConfig(
          is_training=False, drop_remainder=False))


@gin.configurable
@task_factory.register_task_cls(TopicConfig)
class TopicTask(base_task.Task):
  """Task object for topic classification."""

  def __init__(self, params: cfg.TaskConfig, logging_dir=None, name=None,
               log_confusion=True):
    super().__init__(params, logging_dir, name=name)
    self._log_confusion = log_confusion

  def build_model(self) -> tf_keras.Model:
    return topic_model.build_topic_classifier(self.task_config.model)

  def build_inputs(self, params, input_context=None):
    return data_loader_factory.get_data_loader(params).load(input_context)

  def build_losses(self, labels, model_outputs, aux_losses=None) -> tf.Tensor:
    logits = tf.cast(model_outputs, tf.float32)
    one_hot = tf.one_hot(labels, self.task_config.model.num_classes)
    losses = tf_keras.losses.categorical_crossentropy(
        one_hot, logits, from_logits=True,
        label_smoothing=self.task_config.label_smoothing or 0.)
    losses *= tf.gather(list(self.task_config.class_weights), labels)
    loss = tf_utils.safe_mean(losses)
    if aux_losses:
      loss += tf.add_n(aux_losses)
    return loss

  def build_metrics(self, training: bool = True):
    metrics = [tf_keras.metrics.SparseCategoricalAccuracy(name='accuracy')]
    if not training:
      metrics.append(tf_keras.metrics.SparseTopKCategoricalAccuracy(k=2, name='top_2'))
    return metrics

  def process_metrics(self, metrics, labels, model_outputs):
    for metric in metrics:
      metric.update_state(labels, model_outputs)

  def train_step(self, inputs, model, optimizer, metrics=None):
    """Adds the global norm of the gradients to what is logged."""
    features, labels = inputs
    with tf.GradientTape() as tape:
      outputs = model(features, training=True)
      loss = self.build_losses(labels, outputs, aux_losses=model.losses)
      scaled_loss = loss / tf.distribute.get_strategy().num_replicas_in_sync
      if isinstance(optimizer, tf_keras.mixed_precision.LossScaleOptimizer):
        scaled_loss = optimizer.get_scaled_loss(scaled_loss)
    tvars = model.trainable_variables
    grads = tape.gradient(scaled_loss, tvars)
    if isinstance(optimizer, tf_keras.mixed_precision.LossScaleOptimizer):
      grads = optimizer.get_unscaled_gradients(grads)
    optimizer.apply_gradients(list(zip(grads, tvars)))
    logs = {self.loss: loss, 'gradient_norm': tf.linalg.global_norm(grads)}
    if metrics:
      self.process_metrics(metrics, labels, outputs)
      logs.update({m.name: m.result() for m in metrics})
    return logs

  def validation_step(self, inputs, model, metrics=None):
    features, labels = inputs
    outputs = self.inference_step(features, model)
    loss = self.build_losses(labels, outputs, aux_losses=model.losses)
    logs = {self.loss: loss, 'labels': labels,
            'predictions': tf.argmax(outputs, axis=-1)}
    if metrics:
      self.process_metrics(metrics, labels, outputs)
      logs.update({m.name: m.result() for m in metrics})
    return logs

  def aggregate_logs(self, state=None, step_outputs=None):
    if state is None:
      size = self.task_config.model.num_classes
      state = {'confusion': np.zeros([size, size], np.int64)}
    labels = np.concatenate([v.numpy() for v in step_outputs['labels']])
    predictions = np.concatenate([v.numpy() for v in step_outputs['predictions']])
    np.add.at(state['confusion'], (labels, predictions), 1)
    return state

  def reduce_aggregated_logs(self, aggregated_logs, global_step=None):
    confusion = aggregated_logs['confusion']
    if self._log_confusion and 'confusion' in self.task_config.report:
      logging.info('Confusion at step %s:\n%s', global_step, confusion)
    right = np.diag(confusion)
    of_each = confusion.sum(axis=1)
    return {'worst_recall': (right / np.maximum(of_each, 1)).min()}

  def initialize(self, model: tf_keras.Model):
    ckpt_dir_or_file = self.task_config.init_checkpoint
    if ckpt_dir_or_file and tf.io.gfile.isdir(ckpt_dir_or_file):
      ckpt_dir_or_file = tf.train.latest_checkpoint(ckpt_dir_or_file)
    if not ckpt_dir_or_file:
      return
    ckpt = tf.train.Checkpoint(encoder=model.checkpoint_items['encoder'])
    ckpt.read(ckpt_dir_or_file).expect_partial().assert_existing_objects_matched()
    logging.info('Initialized the encoder from %s', ckpt_dir_or_file)


def predict(task: TopicTask, params: cfg.DataConfig, model: tf_keras.Model):
  """Returns the predicted topic of each sentence."""
  dataset = orbit.utils.make_distributed_dataset(
      tf.distribute.get_strategy(), task.build_inputs, params)
  step = orbit.utils.create_loop_fn(
      lambda iterator: tf.argmax(task.inference_step(next(iterator)[0], model), axis=-1))
  return step(iter(dataset), num_steps=-1, state=[],
              reduce_fn=lambda state, topics: state + topics.numpy().tolist())
