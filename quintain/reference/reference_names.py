"""Table of the Model Garden's modules: their paths there, and their homes here.

A program of the Model Garden moves by its imports alone: `official` becomes `quintain`, `orbit`
becomes `quintain.orbit`, `tensorflow_models` becomes `quintain`. Most modules are at the same path
below this package. Those that have another home are listed in `MOVED`: the import gives the same
module object under both paths. What is not offered is listed in `REFUSED`: it can be imported, so
that a file that names it beside other things runs, and using it says why and what to use instead.

Paths are written without the leading `quintain.`; a row holds for everything below it too.
"""

import functools
import logging
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final, Never

_PACKAGE: Final = __name__.partition(".")[0]

_logger = logging.getLogger(__name__)

MOVED: Final[dict[str, str]] = {
    "common": "garden.common",
    "common.dataset_fn": "input.dataset_fn",
    "core.actions": "run.actions",
    "core.config_definitions": "settings.config_definitions",
    "core.distribution": "distribute.distribution",
    "core.file_writers": "garden.core.file_writers",
    "core.input_reader": "input.input_reader",
    "core.registry": "garden.core.registry",
    "core.savedmodel_checkpoint_manager": "garden.core.savedmodel_checkpoint_manager",
    "core.test_utils": "garden.core.test_utils",
    "core.tf_example_builder": "garden.core.tf_example_builder",
    "core.tf_example_feature_key": "garden.core.tf_example_feature_key",
    "core.train_lib": "run.train_lib",
    "core.train_utils": "garden.core.train_utils",
    "hyperparams": "config",
    "modeling.grad_utils": "garden.modeling.grad_utils",
    "modeling.hyperparams": "config",
    "modeling.hyperparams.oneof": "garden.config.oneof",
    "modeling.hyperparams.params_dict": "garden.config.params_dict",
    "modeling.multitask": "core.multitask",
    "modeling.multitask.test_utils": "garden.core.multitask_test_utils",
    "modeling.multitask.train_lib": "garden.core.multitask_train_lib",
    "modeling.optimization": "optimization",
    "modeling.optimization.adafactor_optimizer": "optimization.rules.adafactor",
    "modeling.optimization.ema_optimizer": "optimization.ema",
    "modeling.optimization.lamb": "optimization.rules.lamb",
    "modeling.optimization.lars": "optimization.rules.lars",
    "modeling.optimization.legacy_adamw": "optimization.rules.adam",
    "modeling.optimization.lr_schedule": "optimization.schedules.lr_schedule",
    "modeling.performance": "garden.modeling.performance",
    "modeling.privacy.configs": "settings.config_definitions",
    "modeling.privacy.ops": "garden.modeling.privacy_ops",
    "nlp.configs.experiment_configs": "nlp.experiments",
    "nlp.configs.finetuning_experiments": "nlp.experiments.fine_tuning",
    "nlp.configs.pretraining_experiments": "nlp.experiments.pretraining",
    "nlp.configs.wmt_transformer_experiments": "nlp.experiments.translation",
    "nlp.encoders": "nlp.configs.encoders",
    "nlp.layers": "nlp.modeling.layers",
    "nlp.losses": "nlp.modeling.losses",
    "nlp.modeling.attention": "garden.nlp.attention.cached_attention",
    "nlp.modeling.beam_search": "garden.nlp.ops.beam_search",
    "nlp.modeling.bert_classifier": "nlp.modeling.models.bert_classifier",
    "nlp.modeling.bert_pretrainer": "nlp.modeling.models.bert_pretrainer",
    "nlp.modeling.cached_decoder": "nlp.modeling.ops.cached_decoder",
    "nlp.modeling.candidate_loop": "nlp.modeling.ops.candidate_loop",
    "nlp.modeling.classification_head": "nlp.modeling.layers.cls_head",
    "nlp.modeling.decoding": "nlp.modeling.ops.decoding",
    "nlp.modeling.decoding_rules": "nlp.modeling.ops.decoding_rules",
    "nlp.modeling.dropout": "nlp.modeling.layers.dropout",
    "nlp.modeling.encoder_scaffold": "garden.nlp.networks.encoder_scaffold",
    "nlp.modeling.gated_feedforward": "garden.nlp.layers.gated_feedforward",
    "nlp.modeling.layer_normalization": "nlp.modeling.layers.layer_normalization",
    "nlp.modeling.layers.attention": "garden.nlp.attention.cached_attention",
    "nlp.modeling.layers.block_diag_feedforward": "garden.nlp.layers.block_diag_feedforward",
    "nlp.modeling.layers.block_sparse_attention": "garden.nlp.attention.block_sparse_attention",
    "nlp.modeling.layers.factorized_embedding": "garden.nlp.layers.factorized_embedding",
    "nlp.modeling.layers.gated_feedforward": "garden.nlp.layers.gated_feedforward",
    "nlp.modeling.layers.kernel_attention": "garden.nlp.attention.kernel_attention",
    "nlp.modeling.layers.masked_lm": "garden.nlp.layers.masked_lm",
    "nlp.modeling.layers.masked_softmax": "garden.nlp.attention.masked_softmax",
    "nlp.modeling.layers.mat_mul_with_margin": "nlp.modeling.models.pair_encoder",
    "nlp.modeling.layers.mixing": "garden.nlp.layers.mixing",
    "nlp.modeling.layers.multi_channel_attention": "garden.nlp.attention.multi_channel_attention",
    "nlp.modeling.layers.multi_query_attention": "garden.nlp.attention.multi_query_attention",
    "nlp.modeling.layers.on_device_embedding": "garden.nlp.layers.on_device_embedding",
    "nlp.modeling.layers.pack_optimization": "garden.nlp.layers.pack_optimization",
    "nlp.modeling.layers.per_dim_scale_attention": "garden.nlp.attention.per_dim_scale_attention",
    "nlp.modeling.layers.position_embedding": "garden.nlp.layers.position_embedding",
    "nlp.modeling.layers.relative_attention": "garden.nlp.attention.relative_attention",
    "nlp.modeling.layers.reuse_attention": "garden.nlp.attention.reuse_attention",
    "nlp.modeling.layers.reuse_transformer": "garden.nlp.layers.reuse_transformer",
    "nlp.modeling.layers.rezero_transformer": "garden.nlp.layers.rezero_transformer",
    "nlp.modeling.layers.routing": "garden.nlp.layers.routing",
    "nlp.modeling.layers.self_attention_mask": "garden.nlp.attention.self_attention_mask",
    "nlp.modeling.layers.talking_heads_attention": "garden.nlp.attention.talking_heads_attention",
    "nlp.modeling.layers.text_layers": "garden.nlp.layers.text_layers",
    "nlp.modeling.layers.transformer": "garden.nlp.layers.transformer",
    "nlp.modeling.layers.transformer_encoder_block": "garden.nlp.layers.transformer_encoder_block",
    "nlp.modeling.layers.transformer_scaffold": "garden.nlp.layers.transformer_scaffold",
    "nlp.modeling.layers.util": "garden.nlp.layers.util",
    "nlp.modeling.losses.weighted_sparse_categorical_crossentropy": (
        "garden.nlp.losses.weighted_sparse_categorical_crossentropy"
    ),
    "nlp.modeling.models.dual_encoder": "nlp.modeling.models.pair_encoder",
    "nlp.modeling.networks.albert_encoder": "garden.nlp.networks.albert_encoder",
    "nlp.modeling.networks.bert_encoder": "garden.nlp.networks.bert_encoder",
    "nlp.modeling.networks.encoder_scaffold": "garden.nlp.networks.encoder_scaffold",
    "nlp.modeling.networks.fnet": "garden.nlp.networks.fnet",
    "nlp.modeling.networks.packed_sequence_embedding": (
        "garden.nlp.networks.packed_sequence_embedding"
    ),
    "nlp.modeling.ops.beam_search": "garden.nlp.ops.beam_search",
    "nlp.modeling.ops.decoding_module": "garden.nlp.ops.decoding_module",
    "nlp.modeling.ops.sampling_module": "garden.nlp.ops.sampling_module",
    "nlp.modeling.ops.segment_extractor": "garden.nlp.ops.segment_extractor",
    "nlp.modeling.packed_rows": "nlp.modeling.layers.packed_rows",
    "nlp.modeling.sampling": "garden.nlp.ops.sampling_module",
    "nlp.modeling.seq2seq_transformer": "nlp.modeling.models.seq2seq_transformer",
    "nlp.modeling.talking_heads_attention": "garden.nlp.attention.talking_heads_attention",
    "nlp.modeling.transformer_blocks": "nlp.modeling.layers",
    "nlp.modeling.transformer_stacks": "nlp.modeling.models.transformer_stacks",
    "nlp.models": "nlp.modeling.models",
    "nlp.networks": "nlp.modeling.networks",
    "nlp.ops": "nlp.modeling.ops",
    "nlp.optimization": "garden.nlp.optimization",
    "nlp.serving": "serving",
    "nlp.serving.export_savedmodel": "garden.nlp.serving.export_savedmodel",
    "nlp.serving.export_savedmodel_util": "garden.nlp.serving.export_savedmodel_util",
    "nlp.serving.serving_modules": "garden.nlp.serving.serving_modules",
    "nlp.serving_modules": "garden.nlp.serving.serving_modules",
    "nlp.tasks.utils": "garden.nlp.task_utils",
    "nlp.train": "garden.nlp.train",
    "orbit.utils.common": "garden.orbit.common",
    "orbit.utils.loop_fns": "garden.orbit.loop_fns",
    "orbit.utils.summary_manager_interface": "garden.orbit.summary_manager_interface",
    "orbit.utils.tpu_summaries": "garden.orbit.tpu_summaries",
    "trials.data": "trials.older.pedl_data",
    "trials.frameworks": "trials",
    "trials.keras.data": "trials.older.pedl_data",
    "trials.tensorflow.estimator_trial": "trials.estimator",
    "trials.tensorflow.tensorflow_trial": "trials.graphs.tensorflow_trial",
    "trials.trial": "trials.trial_context",
    "trials.util": "trials.trial_context",
    "utils": "garden.utils",
}
"""Our homes of the reference's modules, and of modules that had another path here, sorted."""

_SQUAD: Final = (
    "JSON of SQuAD is read as it is, and its records are written by `quintain data squad` "
    "(docs/how-to/bert.md)."
)
_TAGGED: Final = (
    "Its records are written by `quintain data tagging`, which reads columns and JSON Lines "
    "(docs/how-to/bert.md)."
)
_XLNET: Final = (
    "XLNet is not offered. Masked words are pretrained by `MaskedLMTask` (docs/how-to/bert.md)."
)
_DATA_SETS: Final = (
    "The readers of single data sets are not offered. `SentencePredictionTextDataConfig` reads "
    "texts with labels from TSV files, records and TensorFlow Datasets (docs/how-to/bert.md)."
)
_IMAGES: Final = (
    "The Model Garden's models of images are not offered. `image/local` and `image/classification` "
    "train others by config (docs/how-to/images_and_tables.md)."
)
_GAUGES: Final = "Nothing is counted there. `TimeHistory.timestamp_log` has the times."

_SPARSE: Final = (
    "It is of BigBird. `layers.BlockSparseAttention` attends within blocks, and the time of "
    "`layers.KernelAttention` grows with the length alone."
)
_UNCERTAINTY: Final = (
    "It is of heads that are Gaussian processes. Use `layers.ClassificationHead`; "
    "`keras.layers.SpectralNormalization` is there for the dense layers of your own."
)
_MOBILE: Final = (
    "It is of MobileBERT. A small BERT does the same: `layers.TransformerEncoderBlock` "
    "with a small width, or `networks.AlbertEncoder`."
)
_EXPERTS: Final = (
    "It is of mixtures of experts. A layer of your own may be the `feedforward_cls` of a "
    "`layers.TransformerScaffold`."
)
_TENSOR_NETWORKS: Final = (
    "It is a network of tensors. `layers.BlockDiagFeedforward` has few weights as well."
)
_XL: Final = (
    "It is of Transformer-XL, whose attention there is: `layers.MultiHeadRelativeAttention` and "
    "`layers.TwoStreamRelativeAttention`."
)

_T5: Final = (
    "T5 is not offered. Sequences are translated by `Seq2SeqTransformer` "
    "(docs/how-to/translation.md)."
)
_ENCODERS: Final = (
    "This encoder is not offered. BERT, ALBERT, FNet, and BERT with kernel or reused attention are "
    "(docs/how-to/bert.md)."
)

REFUSED: Final[dict[str, str]] = {
    "common.streamz_counters": ("Nothing is counted there. Metrics are in the summaries of a run."),
    "modeling.optimization.ema_optimizer.maybe_merge_call": (
        "It is private to the average. Use `tf.distribute.get_replica_context().merge_call`."
    ),
    "modeling.optimization.lamb.FloatTensorLike": (
        "It is a type of annotations. Use `float | tf.Tensor`."
    ),
    "modeling.optimization.slide_optimizer": (
        "The rule of SLIDE was never published. LAMB and LARS adapt steps by layer; Adafactor "
        "suits large sparse layers."
    ),
    "nlp.data.classifier_data_lib": _DATA_SETS,
    "nlp.data.create_finetuning_data": _DATA_SETS,
    "nlp.data.create_pretraining_data": (
        "Records of masked words are written by `quintain data mlm`, and text is masked on the fly "
        "by the experiment bert/pretraining_text (docs/how-to/bert.md)."
    ),
    "nlp.data.create_xlnet_pretraining_data": _XLNET,
    "nlp.data.pretrain_dataloader.XLNetPretrainDataConfig": _XLNET,
    "nlp.data.pretrain_dataloader.XLNetPretrainDataLoader": _XLNET,
    "nlp.data.sentence_retrieval_lib": (
        "Its data sets are not read. `DualEncoderDataConfig` reads pairs of texts from TSV files, "
        "JSON Lines, records and TensorFlow Datasets (docs/how-to/bert.md)."
    ),
    "nlp.data.squad_lib": _SQUAD,
    "nlp.data.squad_lib_sp": _SQUAD,
    "nlp.data.tagging_data_lib": _TAGGED,
    "nlp.data.train_sentencepiece.main": (
        "Its command line is `quintain data sentencepiece`; in programs, call "
        "`train_sentencepiece.train`."
    ),
    "nlp.modeling.layers.BigBirdAttention": _SPARSE,
    "nlp.modeling.layers.BigBirdMasks": _SPARSE,
    "nlp.modeling.layers.ExpertsChooseMaskedRouter": _EXPERTS,
    "nlp.modeling.layers.FeedForwardExperts": _EXPERTS,
    "nlp.modeling.layers.GaussianProcessClassificationHead": _UNCERTAINTY,
    "nlp.modeling.layers.MobileBertEmbedding": _MOBILE,
    "nlp.modeling.layers.MobileBertMaskedLM": _MOBILE,
    "nlp.modeling.layers.MobileBertTransformer": _MOBILE,
    "nlp.modeling.layers.MoeLayer": _EXPERTS,
    "nlp.modeling.layers.MoeLayerWithBackbone": _EXPERTS,
    "nlp.modeling.layers.RandomFeatureGaussianProcess": _UNCERTAINTY,
    "nlp.modeling.layers.SpectralNormalization": _UNCERTAINTY,
    "nlp.modeling.layers.SpectralNormalizationConv2D": _UNCERTAINTY,
    "nlp.modeling.layers.TNTransformerExpandCondense": _TENSOR_NETWORKS,
    "nlp.modeling.layers.TransformerXL": _XL,
    "nlp.modeling.layers.TransformerXLBlock": _XL,
    "nlp.modeling.layers.bigbird_attention": _SPARSE,
    "nlp.modeling.layers.cls_head.GaussianProcessClassificationHead": _UNCERTAINTY,
    "nlp.modeling.layers.cls_head.extract_gp_layer_kwargs": _UNCERTAINTY,
    "nlp.modeling.layers.cls_head.extract_spec_norm_kwargs": _UNCERTAINTY,
    "nlp.modeling.layers.extract_gp_layer_kwargs": _UNCERTAINTY,
    "nlp.modeling.layers.extract_spec_norm_kwargs": _UNCERTAINTY,
    "nlp.modeling.layers.gaussian_process": _UNCERTAINTY,
    "nlp.modeling.layers.mobile_bert_layers": _MOBILE,
    "nlp.modeling.layers.moe": _EXPERTS,
    "nlp.modeling.layers.spectral_normalization": _UNCERTAINTY,
    "nlp.modeling.layers.tn_expand_condense": _TENSOR_NETWORKS,
    "nlp.modeling.layers.tn_transformer_expand_condense": _TENSOR_NETWORKS,
    "nlp.modeling.layers.transformer_xl": _XL,
    "nlp.modeling.models.T5Transformer": _T5,
    "nlp.modeling.models.T5TransformerParams": _T5,
    "nlp.modeling.models.XLNetClassifier": _XLNET,
    "nlp.modeling.models.XLNetPretrainer": _XLNET,
    "nlp.modeling.models.XLNetSpanLabeler": _XLNET,
    "nlp.modeling.models.t5": _T5,
    "nlp.modeling.models.xlnet": _XLNET,
    "nlp.modeling.networks.FunnelTransformerEncoder": _ENCODERS,
    "nlp.modeling.networks.MobileBERTEncoder": _ENCODERS,
    "nlp.modeling.networks.SparseMixer": _ENCODERS,
    "nlp.modeling.networks.XLNetBase": _XLNET,
    "nlp.modeling.networks.funnel_transformer": _ENCODERS,
    "nlp.modeling.networks.mobile_bert_encoder": _ENCODERS,
    "nlp.modeling.networks.sparse_mixer": _ENCODERS,
    "nlp.modeling.networks.xlnet_base": _XLNET,
    "nlp.tasks.question_answering.XLNetQuestionAnsweringConfig": _XLNET,
    "nlp.tasks.question_answering.XLNetQuestionAnsweringTask": _XLNET,
    "nlp.tasks.translation.write_test_record": (
        "An evaluation reads `task.validation_data` as it is; no copy of it is written."
    ),
    "nlp.tasks.utils.get_encoder_from_hub": (
        "Models are not taken from TensorFlow Hub. Weights of the Model Garden's checkpoints are "
        "loaded by `task.init_checkpoint` (docs/how-to/checkpoints.md)."
    ),
    "nlp.tools": (
        "What its tools did is done by `quintain export` (SavedModels), by `quintain checkpoint "
        "convert` and `task.init_checkpoint` (checkpoints of TensorFlow 2), and by "
        "`quintain.nlp.data.tokenizers`."
    ),
    "trials.core": (
        "A script of one's own is no trial. Write a KerasTrial, or train it with `quintain train` "
        "as a task."
    ),
    "trials.experimental": ("There is `quintain.client.master_client`, and the commands."),
    "trials.horovod": ("A trial has one process. Train a task with `--local-workers`."),
    "trials.lightning": (
        "Models of PyTorch are not trained here: trials are TensorFlow and Keras."
    ),
    "trials.pytorch": ("Models of PyTorch are not trained here: trials are TensorFlow and Keras."),
    "trials.transformers": (
        "Models of PyTorch are not trained here: trials are TensorFlow and Keras."
    ),
    "uplift": (
        "Uplift models are not offered. A task of your own trains like any other "
        "(docs/tutorials/train_a_model.md)."
    ),
    "utils.misc.keras_utils.first_batch_end_time": _GAUGES,
    "utils.misc.keras_utils.first_batch_start_time": _GAUGES,
    "utils.misc.keras_utils.first_batch_time_gauge": _GAUGES,
    "utils.misc.keras_utils.global_batch_size_gauge": (
        "Nothing is counted there. `TimeHistory.batch_size` has the size."
    ),
    "vision.configs": _IMAGES,
    "vision.data": _IMAGES,
    "vision.dataloaders": _IMAGES,
    "vision.evaluation": _IMAGES,
    "vision.examples": _IMAGES,
    "vision.losses": _IMAGES,
    "vision.modeling": _IMAGES,
    "vision.ops": _IMAGES,
    "vision.registry_imports": _IMAGES,
    "vision.serving": _IMAGES,
    "vision.tasks": _IMAGES,
    "vision.train": _IMAGES,
    "vision.utils": _IMAGES,
}
"""Modules, and names of modules, that are not offered: why, and what to use instead. Sorted."""


def find_home(path: str) -> str | None:
    """Returns the name of the module that is imported as `quintain.<path>`; None if it is itself.

    Example:
        >>> find_home("modeling.hyperparams.params_dict")
        'quintain.garden.config.params_dict'
        >>> find_home("core.base_task") is None
        True
    """
    home = _follow(path, _find_moved())
    return None if home == path else f"{_PACKAGE}.{home}"


def names_in(path: str) -> list[str]:
    """Returns the names of modules that moved, in the package `quintain.<path>`, `""` being all."""
    places = (place.rpartition(".") for place in _find_moved())
    return sorted(name for parent, _, name in places if parent == path)


def find_refusal(path: str) -> str | None:
    """Returns why `quintain.<path>` is not offered, and what to use instead; None if it may be."""
    asked, path, refused = path, _follow(path, _find_moved()), _find_refused()
    while path and path not in refused:
        path = path.rpartition(".")[0]
    return f"`{_PACKAGE}.{asked}` is not offered. {refused[path]}" if path else None


class Refused(ModuleType):
    """Module of `REFUSED`, or a name of one: importing it logs why, and using it is an error."""

    def __init__(self, name: str) -> None:
        """Logs the reason.

        Args:
            name: Full name of the module, or of the name in its module.
        """
        super().__init__(name, find_refusal(name.partition(".")[2]))
        _logger.warning("%s Using it is an error.", self.__doc__)

    def __getattr__(self, name: str) -> Never:
        raise AttributeError(self.__doc__)

    def _refuse(self, *args: Any, **kwargs: Any) -> Never:
        del args, kwargs
        raise ImportError(self.__doc__, name=self.__name__)

    __call__ = __mro_entries__ = __instancecheck__ = __subclasscheck__ = _refuse


def refusing(module: str) -> Callable[[str], Any]:
    """Returns the `__getattr__` of a module that lacks names of `REFUSED`: they are `Refused`.

    Args:
        module: Name of the module, its `__name__`.
    """

    def get(name: str) -> Any:
        if find_refusal(f"{module}.{name}".partition(".")[2]):
            return Refused(f"{module}.{name}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return get


def _follow(path: str, moved: Mapping[str, str]) -> str:
    """Returns our path of a path: each package on the way may have moved."""
    home = ""
    for part in path.split("."):
        home = f"{home}.{part}" if home else part
        home = moved.get(home, home)
    return home


@functools.cache
def _find_moved() -> Mapping[str, str]:
    """Returns the homes by our paths: what is in a package that moved is found in its home too."""
    moved: dict[str, str] = {}
    for path in sorted(MOVED):  # A package before what is in it.
        parent, _, name = path.rpartition(".")
        moved[f"{_follow(parent, moved)}.{name}" if parent else name] = MOVED[path]
    return moved


@functools.cache
def _find_refused() -> Mapping[str, str]:
    """Returns what is refused by our paths."""
    return {_follow(path, _find_moved()): reason for path, reason in REFUSED.items()}
