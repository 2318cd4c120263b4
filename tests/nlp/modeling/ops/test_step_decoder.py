import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.nlp.modeling import layers, models
from quintain.nlp.modeling.ops import cached_decoder, native_search, step_decoder

SOURCE = np.array([[3, 4, 5, 1, 0], [6, 1, 0, 0, 0]], np.int32)


@keras.saving.register_keras_serializable("quintain_tests")
class OwnAttention(layers.CachedAttention):
    """Attention of a class of its own."""


def build_model(
    *,
    padded_decode=False,
    model_cls=models.Seq2SeqTransformer,
    decoder_cls=models.TransformerDecoder,
    **attention,
):
    keras.utils.set_random_seed(4)
    sizes = {"num_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    return model_cls(
        11,
        16,
        padded_decode=padded_decode,
        decode_max_length=6,
        encoder_layer=models.TransformerEncoder(**sizes),
        decoder_layer=decoder_cls(**sizes, **attention),
    )


def decode(model, predictor):
    is_token = tf.not_equal(SOURCE, 0)
    memory = model._encode({"inputs": tf.constant(SOURCE)}, is_token)
    loop = model.decoding.build_loop(
        predictor, eos_ids=(1,), max_length=6, has_fixed_shapes=model.padded_decode
    )
    return loop.run(tf.zeros([2], tf.int32), (memory, model._to_mask(is_token)))


@pytest.mark.long("Further cases of a test of which some run every time", but=["True"])
@pytest.mark.slow
@pytest.mark.parametrize("padded_decode", [False, True])
def test_blocks_with_their_caches_find_what_the_fast_decoder_finds(padded_decode):
    model = build_model(padded_decode=padded_decode)

    ids, scores = decode(model, step_decoder.StepDecoder(model))
    expected_ids, expected_scores = decode(model, cached_decoder.CachedDecoder(model))

    np.testing.assert_array_equal(ids[:, 0], expected_ids[:, 0])
    np.testing.assert_allclose(scores[:, 0], expected_scores[:, 0], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:You are using a softmax over axis 3")  # The first position's.
@pytest.mark.parametrize(
    "attention",
    [
        {"self_attention_cls": OwnAttention},
        {"cross_attention_cls": lambda index: layers.MultiHeadAttention},
    ],
)
def test_attention_of_ones_own_is_decoded_as_it_is_trained(attention):
    model = build_model(**attention)
    assert model.decoder.is_fused == ("cross_attention_cls" in attention)

    assert_decodes_as_it_is_trained(model)


class OwnBlock(layers.TransformerDecoderBlock):
    def call(self, *args, **kwargs):
        outputs, cache = super().call(*args, **kwargs)
        return 0.5 * outputs + 1.0, cache


class OwnDecoder(models.TransformerDecoder):
    def _build_block(self, index, **options):
        return OwnBlock(2, 16, "relu", norm_first=True, **options)


class OwnLogits(models.Seq2SeqTransformer):
    def compute_logits(self, outputs):
        return 3 * tf.tanh(super().compute_logits(outputs))


@pytest.mark.long("Further cases of a test of which some run every time", but=["block"])
@pytest.mark.slow
@pytest.mark.parametrize(
    "kinds", [{"decoder_cls": OwnDecoder}, {"model_cls": OwnLogits}], ids=["block", "logits"]
)
def test_what_is_of_ones_own_is_decoded_as_it_is_trained(kinds):
    model = build_model(**kinds)

    assert_decodes_as_it_is_trained(model)
    assert "class of its own" in native_search.find_reason(model, model.decoding)


def assert_decodes_as_it_is_trained(model):
    found = model({"inputs": tf.constant(SOURCE)})

    ids = found["outputs"].numpy()
    logits = model({"inputs": tf.constant(SOURCE), "targets": found["outputs"]})
    log_probs = tf.nn.log_softmax(logits).numpy()
    for row in range(2):
        end = list(ids[row]).index(1) + 1 if 1 in ids[row] else 6
        total = sum(log_probs[row, place, ids[row, place]] for place in range(end))
        norm = ((5 + end) / 6) ** 0.6 if 1 in ids[row] else 1.0
        np.testing.assert_allclose(found["scores"][row], total / norm, rtol=1e-4)
