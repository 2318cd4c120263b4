"""Context methods that later PEDL versions had under `context.experimental`."""

from collections.abc import Callable
from typing import Any, Final

_SHUFFLE_BUFFER: Final = 10_000


class ExperimentalContext:
    """Context methods that later PEDL versions had under `context.experimental`."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def make_metric(self, metric: Any, reducer: Any, numpy_dtype: Any) -> tuple[Any, Any]:
        """See `TrialContext.make_metric`."""
        return self._context.make_metric(metric, reducer, numpy_dtype)

    def allgather_metrics(self, metrics: Any) -> list[Any]:
        """Returns what all processes gave."""
        return self._context.distributed.allgather(metrics)

    def cache_train_dataset(
        self,
        dataset_id: str,
        dataset_version: str,
        shuffle: bool = False,
        skip_shuffle_at_epoch_end: bool = False,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Returns a decorator of a function that makes a dataset, which it shuffles if asked to.

        Nothing is cached on disk: data are read from where they are.
        """
        del dataset_id, dataset_version

        def decorate(make: Callable[..., Any]) -> Callable[..., Any]:
            def made(*args: Any, **kwargs: Any) -> Any:
                dataset = make(*args, **kwargs)
                if not shuffle:
                    return dataset
                size = max(int(dataset.cardinality()), _SHUFFLE_BUFFER)
                return dataset.shuffle(
                    size,
                    seed=self._context.get_trial_seed(),
                    reshuffle_each_iteration=not skip_shuffle_at_epoch_end,
                )

            return made

        return decorate

    def cache_validation_dataset(
        self, dataset_id: str, dataset_version: str, shuffle: bool = False
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Returns a decorator as `cache_train_dataset` does."""
        return self.cache_train_dataset(dataset_id, dataset_version, shuffle, True)
