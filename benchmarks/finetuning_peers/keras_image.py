"""Trains the same image classifier by Keras' `fit`, and prints what was measured."""

import keras
import keras_stopwatch
import pictures
import texts as measured


def build_model(num_classes: int) -> keras.Model:
    """Returns the residual network with pre-activation that `image/classification` builds."""
    layers = keras.layers

    def convolve(x: object, width: int, size: int = 3, strides: int = 1) -> object:
        options = {"padding": "same", "use_bias": False, "kernel_initializer": "he_normal"}
        return layers.Conv2D(width, size, strides, **options)(x)

    def activate(x: object) -> object:
        return layers.ReLU()(layers.BatchNormalization(momentum=0.9)(x))

    images = keras.Input((pictures.SIZE, pictures.SIZE, 3))
    x = layers.RandomFlip("horizontal")(images)
    x = layers.Rescaling(1 / 127.5, offset=-1.0)(x)
    x = convolve(x, pictures.WIDTH)
    for stage in range(pictures.NUM_STAGES):
        width = pictures.WIDTH * 2**stage
        for block in range(pictures.BLOCKS_PER_STAGE):
            strides = 2 if stage and not block else 1
            activated = activate(x)
            is_same = strides == 1 and x.shape[-1] == width
            shortcut = x if is_same else convolve(activated, width, 1, strides)
            x = shortcut + convolve(activate(convolve(activated, width, strides=strides)), width)
    features = layers.GlobalAveragePooling2D()(activate(x))
    return keras.Model(images, layers.Dense(num_classes, kernel_initializer="zeros")(features))


if __name__ == "__main__":
    options = measured.parse()
    data = keras.utils.image_dataset_from_directory(
        pictures.write(),
        batch_size=pictures.BATCH_SIZE,
        image_size=(pictures.SIZE, pictures.SIZE),
        verbose=False,
    )
    model = build_model(len(data.class_names))
    model.compile(
        optimizer=keras.optimizers.Adam(pictures.LEARNING_RATE),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    stopwatch = keras_stopwatch.Stopwatch(options.warmup)
    steps = options.warmup + options.steps
    model.fit(data.repeat(), steps_per_epoch=steps, verbose=0, callbacks=[stopwatch])
    stopwatch.clock.report("images", options.steps * pictures.BATCH_SIZE)
