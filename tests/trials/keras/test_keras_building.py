import keras
import pytest

from quintain.trials.keras import keras_building

BATCH = (keras.KerasTensor((None, 4)), keras.KerasTensor((None,), "int64"))
ONE_HOT = (keras.KerasTensor((None, 4)), keras.KerasTensor((None, 3)))
CLASSES = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


class Doubled(keras.layers.Layer):
    """A layer of a user's."""

    def call(self, inputs):
        return inputs * 2


class Own(keras.Model):
    """A model of a user's."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(3)

    def call(self, inputs):
        return self.dense(inputs)


def stack(*layers, is_built=True):
    inputs = [keras.layers.Input((4,))] if is_built else []
    return keras.Sequential([*inputs, *layers, keras.layers.Dense(3)])


def branch(*, num_outputs=1):
    inputs = keras.Input((4,))
    hidden = keras.layers.BatchNormalization()(keras.layers.Dense(5, activation="relu")(inputs))
    outputs = [keras.layers.Dense(3)(hidden) for _ in range(num_outputs)]
    return keras.Model(inputs, outputs if num_outputs > 1 else outputs[0])


def own_loss(labels, outputs):
    return keras.losses.sparse_categorical_crossentropy(labels, outputs, from_logits=True)


def compiled(model, **settings):
    model.compile(**{"optimizer": "adam", "loss": CLASSES, **settings})
    return model


def begin(build):
    """Returns a model with the weights and names that the first of a process has."""
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(3)
    return build()


def describe(model):
    """Returns all variables, and what metrics there are."""
    variables = [*model.variables, *model.optimizer.variables, *model.metrics_variables]
    return (
        [(each.path, tuple(each.shape), each.dtype, each.numpy().tolist()) for each in variables],
        [(each.name, type(each)) for each in model.metrics],
        list(model.get_metrics_result()),
    )


def refuse(**arguments):
    raise AssertionError("it was traced")


@pytest.mark.parametrize(
    ("build", "batch"),
    [
        (lambda: compiled(stack()), BATCH),
        (lambda: compiled(stack(keras.layers.Dropout(0.2)), metrics=["accuracy"]), BATCH),
        (lambda: compiled(stack(), metrics=["accuracy"]), (*BATCH, keras.KerasTensor((None,)))),
        (lambda: compiled(stack(), loss="mse", metrics=["mae", "acc"], optimizer="sgd"), ONE_HOT),
        (
            lambda: compiled(
                branch(),
                loss="categorical_crossentropy",
                metrics=[keras.metrics.CategoricalAccuracy("share")],
                weighted_metrics=[keras.metrics.mean_squared_error],
                optimizer=keras.optimizers.SGD(0.1, momentum=0.9),
            ),
            ONE_HOT,
        ),
    ],
    ids=["loss alone", "dropout", "weights", "names", "functional"],
)
def test_models_of_keras_own_parts_get_the_same_variables_untraced(build, batch):
    expected = begin(build)
    expected._symbolic_build(data_batch=batch)
    model = begin(build)
    model._symbolic_build = refuse
    keras_building.create_variables(model, batch)
    assert describe(model) == describe(expected)


@pytest.mark.parametrize(
    ("build", "batch"),
    [
        (lambda: compiled(stack(Doubled())), BATCH),
        (lambda: compiled(stack(keras.layers.Lambda(lambda inputs: inputs))), BATCH),
        (lambda: compiled(Own()), BATCH),
        (lambda: compiled(stack(is_built=False)), BATCH),
        (lambda: compiled(stack(), loss=own_loss), BATCH),
        (lambda: compiled(stack(), metrics=[own_loss]), BATCH),
        (lambda: compiled(stack(), metrics=[keras.metrics.MeanMetricWrapper(own_loss)]), BATCH),
        (lambda: compiled(stack(), loss="mse", metrics=["R2Score"]), ONE_HOT),
        (
            lambda: compiled(branch(num_outputs=2), loss=[CLASSES, CLASSES]),
            (BATCH[0], (BATCH[1], BATCH[1])),
        ),
        (lambda: compiled(stack()), (keras.KerasTensor((7, 4)), keras.KerasTensor((7,), "int64"))),
    ],
    ids=[
        *("layer", "lambda", "model", "unbuilt", "loss", "metric", "wrapped metric"),
        *("metric that is built late", "outputs", "fixed batch size"),
    ],
)
def test_keras_traces_what_is_not_its_own_or_not_known(build, batch):
    model = build()
    traced = []
    build_symbolically = model._symbolic_build
    model._symbolic_build = lambda **arguments: (traced.append(1), build_symbolically(**arguments))
    keras_building.create_variables(model, batch)
    assert traced
    assert model.optimizer.built
    assert all(metric.built for metric in (model._compile_metrics, model._compile_loss) if metric)


def test_a_model_that_can_not_take_its_data_says_so():
    with pytest.raises(ValueError, match="incompatible with the layer"):
        keras_building.create_variables(compiled(stack()), (keras.KerasTensor((None, 9)), BATCH[1]))
