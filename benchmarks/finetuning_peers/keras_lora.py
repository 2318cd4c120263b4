"""Teaches adapters of a causal model by Keras' `fit`, a conversation a row, as KerasHub pads."""

import keras
import keras_hub
import keras_stopwatch
import talks
import tensorflow as tf
import texts as measured

if __name__ == "__main__":
    options = measured.parse()
    steps = options.warmup + options.steps
    _, conversations = talks.write_conversations(steps * talks.CONVERSATIONS_PER_STEP)
    model = keras_hub.models.CausalLM.from_preset(talks.write_preset())
    model.preprocessor.sequence_length = talks.SEQ_LENGTH
    model.backbone.enable_lora(rank=talks.RANK)
    model.compile(
        optimizer=keras.optimizers.AdamW(talks.LEARNING_RATE, weight_decay=0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    data = tf.data.Dataset.from_tensor_slices(conversations).batch(talks.CONVERSATIONS_PER_STEP)
    stopwatch = keras_stopwatch.Stopwatch(options.warmup)
    model.fit(data, verbose=0, callbacks=[stopwatch])
    stopwatch.clock.report("tokens", sum(map(len, conversations)) * options.steps / steps)
