"""Config of the machine: devices, precision, compilation and reproducibility."""

import dataclasses
import enum
from collections.abc import Iterator

from quintain import errors
from quintain.config import base_config
from quintain.kernels import modes
from quintain.optimization.configs import ranges


class Distribution(enum.StrEnum):
    """Distribution strategies: one device, or several in one way or another."""

    OFF = "off"
    ONE_DEVICE = "one_device"
    MIRRORED = "mirrored"
    MULTI_WORKER_MIRRORED = "multi_worker_mirrored"
    PARAMETER_SERVER = "parameter_server"
    TPU = "tpu"


@dataclasses.dataclass
class RuntimeConfig(base_config.Config):
    """The machine: devices, precision, compilation and reproducibility."""

    distribution_strategy: str = "mirrored"
    """`off`, `one_device`, `mirrored`, `multi_worker_mirrored`, `parameter_server` or `tpu`."""

    enable_xla: bool = False
    """Whether the steps of training and of evaluation are compiled by XLA."""

    gpu_thread_mode: str | None = None
    """How GPU work is given to threads: `global`, `gpu_private` or `gpu_shared`."""

    dataset_num_private_threads: ranges.Period | None = None
    """Threads of the input pipeline's own pool. None shares TensorFlow's."""

    per_gpu_thread_count: ranges.Steps = 0
    """Threads per GPU under `gpu_thread_mode: gpu_private`. 0 lets TensorFlow choose."""

    tpu: str | None = None
    """Name or address of the TPU."""

    num_gpus: ranges.Steps = 0
    """GPUs of each worker to use. 0 trains on the CPU."""

    worker_hosts: str | None = None
    """Comma-separated `host:port` of all workers."""

    task_index: int = -1
    """This process's place in `worker_hosts`."""

    num_virtual_cpus: ranges.Period = 1
    """Logical devices that the CPU is split into, for `mirrored` without GPUs: each trains a
    replica, which is slower than one, but shows what several do."""

    all_reduce_alg: str | None = None
    """All-reduce algorithm: `nccl` or `hierarchical_copy` under `mirrored`, and `auto`, `ring` or
    `nccl` under `multi_worker_mirrored`. None lets TensorFlow choose."""

    num_packs: ranges.Steps = 1
    """Packs that gradients are grouped into for an all-reduce between GPUs or workers. 0 does not
    group them."""

    mixed_precision_dtype: str | None = None
    """Compute type: `float32`, `bfloat16` or `float16`. None means float32."""

    loss_scale: str | ranges.Positive | None = None
    """Loss scale under float16: `dynamic` or a fixed number. None means dynamic."""

    rematerialize: bool = False
    """Whether the backward pass computes the insides of the Transformer's blocks again instead of
    keeping them: less memory for more time, and the same gradients."""

    run_eagerly: bool = False
    """Whether steps run without compilation into a graph, for debugging."""

    batchnorm_spatial_persistent: bool = False
    """Whether cuDNN uses its persistent batch normalisation."""

    tpu_enable_xla_dynamic_padder: bool | None = None
    """Whether TPU programs pad dynamic shapes. None leaves TensorFlow's default."""

    num_cores_per_replica: ranges.Period = 1
    """TPU cores that hold one replica of the model."""

    default_shard_dim: int = -1
    """Dimension along which `use_tpu_mp_strategy` splits the tensors of a batch over the cores of a
    replica. -1 gives all cores all of them."""

    use_tpu_mp_strategy: bool = False
    """Whether the model of a replica is split over `num_cores_per_replica` TPU cores."""

    seed: int | None = 0
    """Seed of weights, dropout and shuffling. None draws a new one for each new run."""

    deterministic: bool = False
    """Whether every operation gives the same result to the bit each time. Some get slower, and some
    have no such version and fail."""

    elastic: bool = False
    """Whether a run gives the same bits on any number of workers, which may change from one start
    to the next: 1, 2, 4, ... up to `elastic_shards`."""

    elastic_shards: ranges.Period = 8
    """Parts of a batch under `elastic`, a power of two: what a worker computes at once."""

    kernels: str = "auto"
    """Kernels of training steps on CPUs: `native` (compiled C++), `tensorflow`, or `auto`: native
    ones where they can be had, which `quintain doctor` tells."""

    @property
    def kernel_mode(self) -> modes.KernelMode:
        """The mode that `kernels` names."""
        return modes.KernelMode(self.kernels)

    @property
    def distribution(self) -> Distribution:
        """The strategy that `distribution_strategy` names.

        Raises:
            ConfigError: If there is none of that name.
        """
        found = _find_distribution(self.distribution_strategy)
        if found is None:
            raise errors.ConfigError(
                "runtime.distribution_strategy: "
                f"{_explain_unknown_distribution(self.distribution_strategy)}"
            )
        return found

    def model_parallelism(self) -> dict[str, int]:
        """Returns how models are split, as `get_distribution_strategy` takes it."""
        return {
            "num_cores_per_replica": self.num_cores_per_replica,
            "default_shard_dim": self.default_shard_dim,
        }

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the fields whose values do not fit together."""
        distribution = _find_distribution(self.distribution_strategy)
        if distribution is None:
            yield (
                "distribution_strategy",
                _explain_unknown_distribution(self.distribution_strategy),
            )
        if self.mixed_precision_dtype not in (None, "float32", "bfloat16", "float16"):
            yield (
                "mixed_precision_dtype",
                f"got {errors.show(self.mixed_precision_dtype)}, expected float32, "
                f"bfloat16 or float16.",
            )
        if self.kernels not in list(modes.KernelMode):
            yield (
                "kernels",
                f"got {errors.show(self.kernels)}, expected {', '.join(modes.KernelMode)}."
                f"{errors.suggest(self.kernels, modes.KernelMode)}",
            )
        if self.gpu_thread_mode not in (None, "global", "gpu_private", "gpu_shared"):
            yield (
                "gpu_thread_mode",
                f"got {errors.show(self.gpu_thread_mode)}, expected global, gpu_private "
                f"or gpu_shared.",
            )
        if self.default_shard_dim < -1:
            yield "default_shard_dim", f"got {self.default_shard_dim}, expected -1 or a dimension."
        if isinstance(self.loss_scale, str) and self.loss_scale != "dynamic":
            yield (
                "loss_scale",
                (f"got {errors.show(self.loss_scale)}, expected 'dynamic' or a number."),
            )
        yield from self._check_combinations(distribution)

    def _check_combinations(self, distribution: Distribution | None) -> Iterator[tuple[str, str]]:
        if self.num_virtual_cpus > 1 and (
            self.num_gpus or distribution is not Distribution.MIRRORED
        ):
            yield (
                "num_virtual_cpus",
                f"got {self.num_virtual_cpus}, expected 1 unless distribution_strategy is "
                "'mirrored' and num_gpus is 0.",
            )
        if self.num_cores_per_replica > 1 and not self.use_tpu_mp_strategy:
            yield (
                "num_cores_per_replica",
                f"got {self.num_cores_per_replica}, expected 1 without use_tpu_mp_strategy.",
            )
        is_cluster = distribution is Distribution.MULTI_WORKER_MIRRORED
        if self.enable_xla and not self.num_gpus and (is_cluster or self.num_virtual_cpus > 1):
            yield "enable_xla", "got True; XLA can't sum over several replicas on the CPU."
        for name, value, user in (
            ("worker_hosts", self.worker_hosts, Distribution.MULTI_WORKER_MIRRORED),
            ("tpu", self.tpu, Distribution.TPU),
        ):
            if value and distribution is not user:
                yield (
                    name,
                    f"got {errors.show(value)} with "
                    f"distribution_strategy={errors.show(self.distribution_strategy)}, "
                    f"expected {errors.show(user.value)}; nothing else reads it.",
                )
        if self.rematerialize and (self.enable_xla or distribution is Distribution.TPU):
            yield (
                "rematerialize",
                "got True with XLA, which decides by itself what it computes again; leave one of "
                "them out.",
            )
        if self.elastic:
            yield from self._check_elastic(distribution)
        if self.run_eagerly and self.enable_xla:
            yield "run_eagerly", "got True with enable_xla; XLA compiles graphs."

    def _check_elastic(self, distribution: Distribution | None) -> Iterator[tuple[str, str]]:
        if self.elastic_shards & (self.elastic_shards - 1):
            yield "elastic_shards", f"got {self.elastic_shards}, expected a power of two."
        obstacles = {
            f"distribution_strategy={self.distribution_strategy!r}": distribution
            in (Distribution.TPU, Distribution.PARAMETER_SERVER),
            "enable_xla": self.enable_xla,
            "run_eagerly": self.run_eagerly,
            "mixed_precision_dtype='float16'": self.mixed_precision_dtype == "float16",
        }
        for obstacle in (name for name, is_there in obstacles.items() if is_there):
            yield "elastic", f"got True with {obstacle}, which can't be; leave one of them out."


def _find_distribution(name: str) -> Distribution | None:
    """Returns the strategy of a name in upper or lower case, or None if there is none."""
    return next((one for one in Distribution if one.value == name.lower()), None)


def _explain_unknown_distribution(name: str) -> str:
    hint = errors.suggest(name.lower(), Distribution)
    if name.lower() in ("false", "no"):
        hint = " Quote 'off' in YAML 1.1 files."
    return f"got {errors.show(name)}, expected one of {', '.join(Distribution)}.{hint}"
