"""Topic classification experiments."""
from quintain.core import config_definitions as cfg
from quintain.core import exp_factory
from quintain.modeling import optimization
from quintain.nlp.configs import encoders

from topics import dataloader
from topics import task


@exp_factory.register_config_factory('topics/bert')
def topics_bert() -> cfg.ExperimentConfig:
  """Topics of sentences, by a small BERT."""
  config = cfg.ExperimentConfig(
      task=task.TopicConfig(
          model=task.ModelConfig(
              num_classes=5,
              encoder=encoders.EncoderConfig(
                  type='bert',
                  bert=encoders.BertEncoderConfig(
                      vocab_size=64, hidden_size=32, num_layers=2,
                      num_attention_heads=2, intermediate_size=64,
                      max_position_embeddings=32, type_vocab_size=2,
                      dropout_rate=0.0, attention_dropout_rate=0.0))),
          train_data=dataloader.TopicDataConfig(),
          validation_data=dataloader.TopicDataConfig(
              is_training=False, drop_remainder=False)),
      trainer=cfg.TrainerConfig(
          train_steps=200,
          validation_interval=100,
          validation_steps=-1,
          steps_per_loop=50,
          summary_interval=50,
          checkpoint_interval=100,
          best_checkpoint_export_subdir='best',
          best_checkpoint_eval_metric='worst_recall',
          best_checkpoint_metric_comp='higher',
          optimizer_config=optimization.OptimizationConfig({
              'optimizer': {
                  'type': 'adamw',
                  'adamw': {
                      'weight_decay_rate': 0.01,
                      'exclude_from_weight_decay': ['LayerNorm', 'layer_norm', 'bias'],
                  }
              },
              'learning_rate': {
                  'type': 'polynomial',
                  'polynomial': {
                      'initial_learning_rate': 2e-3,
                      'decay_steps': 200,
                      'end_learning_rate': 0.0,
                  }
              },
              'warmup': {
                  'type': 'linear',
                  'linear': {
                      'warmup_steps': 20,
                      'warmup_learning_rate': 0,
                  }
              }
          })),
      restrictions=[
          'task.train_data.is_training != None',
          'task.validation_data.is_training != None',
          'task.train_data.seq_length == task.validation_data.seq_length',
      ])
  return config
