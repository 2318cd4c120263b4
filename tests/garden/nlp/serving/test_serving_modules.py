import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.garden.nlp.serving import export_savedmodel_util, serving_modules
from quintain.nlp.data import tokenizers

IDS = np.array([[2, 5, 0], [2, 7, 3]], np.int32)


class Sums(tf.Module):
    """Gives the sums of word ids, mask and types, `[B, 3]`, or what a pretrainer gives."""

    def __init__(self, head=None):
        super().__init__()
        self.head = head
        self.scale = tf.Variable(1.0)

    def __call__(self, inputs, training=False):
        assert not training
        names = ("input_word_ids", "input_mask", "input_type_ids")
        sums = [tf.reduce_sum(tf.cast(inputs[name], tf.float32), axis=1) for name in names]
        logits = self.scale * tf.stack(sums, axis=1)
        return logits if self.head is None else {self.head: logits}


class Copies(tf.Module):
    def __call__(self, inputs, training=False):
        return {"outputs": inputs["inputs"]}


def write_example(**values):
    features = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
        if isinstance(value, str)
        else tf.train.Feature(int64_list=tf.train.Int64List(value=value))
        for name, value in values.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def predict(module, name, *args):
    return getattr(module, name)(*args)["outputs"].numpy().tolist()


def test_ids_alone_make_mask_and_types():
    module = serving_modules.SentencePrediction(
        serving_modules.SentencePrediction.Params(parse_sequence_length=3), Sums()
    )
    examples = tf.constant([write_example(input_word_ids=row) for row in IDS])

    assert predict(module, "serve", IDS) == [[7, 2, 0], [12, 3, 0]]
    assert predict(module, "serve", IDS, IDS, IDS) == [[7, 7, 7], [12, 12, 12]]
    assert predict(module, "serve_examples", examples) == [[7, 2, 0], [12, 3, 0]]
    assert np.sum(predict(module, "serve_probability", IDS), axis=1) == pytest.approx([1, 1])


def test_examples_have_the_names_of_their_time():
    params = serving_modules.SentencePrediction.Params(
        inputs_only=False, parse_sequence_length=2, use_v2_feature_names=False
    )
    module = serving_modules.SentencePrediction(params, Sums())
    example = write_example(input_ids=[4, 6], input_mask=[1, 0], segment_ids=[3, 1])

    assert predict(module, "serve_examples", tf.constant([example])) == [[10, 1, 4]]


def test_texts_are_cut_into_tokens(tmp_path):
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nto\nbe\nor\nnot\n")
    params = serving_modules.SentencePrediction.Params(
        inputs_only=False,
        parse_sequence_length=8,
        text_fields=["first", "second"],
        vocab_file=str(vocab_file),
    )
    module = serving_modules.SentencePrediction(params, Sums())
    example = write_example(first="To be", second="or not")  # 2 4 5 3, 6 7 3

    assert predict(module, "serve_text_examples", tf.constant([example])) == [[30, 7, 3]]


def test_a_pretrained_model_classifies_by_the_head_that_is_named():
    params = serving_modules.MaskedLM.Params(
        cls_head_name="topic", parse_sequence_length=2, max_predictions_per_seq=1
    )
    module = serving_modules.MaskedLM(params, Sums("topic"))
    example = write_example(
        input_word_ids=[4, 6], input_mask=[1, 0], input_type_ids=[3, 1], masked_lm_positions=[1]
    )

    outputs = module.serve_examples(tf.constant([example]))

    # The reference hands the word ids on as types.
    assert outputs["classification"].numpy().tolist() == [[10, 1, 4]]


def test_text_is_translated_to_text(tmp_path):
    path = str(tmp_path / "vocabulary.model")
    tokenizers.train_sentencepiece(["a b", "b a", "b"] * 9, path, vocab_size=8)
    module = serving_modules.Translation(
        serving_modules.Translation.Params(sentencepiece_model_path=path), Copies()
    )

    signature = module.get_inference_signatures({"serve_text": "serving_default"})

    found = signature["serving_default"](tf.constant(["a b", "b"]))
    assert [text.decode() for text in tf.nest.flatten(found)[0].numpy()] == ["a b", "b"]


@pytest.mark.slow
def test_an_export_has_the_signature_of_its_inputs(tmp_path):
    module = serving_modules.SentencePrediction(
        serving_modules.SentencePrediction.Params(inputs_only=False), Sums()
    )
    checkpoint = tf.train.Checkpoint(encoder=Sums())
    checkpoint.encoder.scale.assign(2.0)
    path = checkpoint.save(str(tmp_path / "ckpt"))

    directory = export_savedmodel_util.export(
        module, ["serve"], str(tmp_path / "export"), path, module_key="encoder"
    )

    serve = tf.saved_model.load(directory).signatures["serving_default"]
    ids = tf.constant(IDS)
    outputs = serve(input_word_ids=ids, input_mask=ids, input_type_ids=ids)["outputs"]
    assert outputs.numpy().tolist() == [[14, 14, 14], [24, 24, 24]]


def test_unknown_functions_and_modules_of_other_tasks_are_errors():
    module = serving_modules.SentencePrediction(serving_modules.SentencePrediction.Params(), Sums())

    with pytest.raises(errors.ConfigError, match="got 'serv', expected one of serve, serve_ex"):
        module.get_inference_signatures({"serv": "serving_default"})
    with pytest.raises(errors.ConfigError, match="hub_module_url: got 'x', expected only"):
        serving_modules.SentencePrediction.Params(preprocessing_hub_module_url="x")


def test_tagging_gives_logits_of_ids_and_of_records():
    def infer(inputs, model):
        return {"logits": tf.cast(inputs["input_word_ids"], tf.float32)[..., tf.newaxis]}

    params = serving_modules.Tagging.Params(parse_sequence_length=3)
    module = serving_modules.Tagging(params, Sums(), infer)
    found = module.get_inference_signatures({"serve": "a", "serve_examples": "b"})
    ids = tf.constant([[4, 5, 6]])
    feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[4, 5, 6]))
    names = ("input_word_ids", "input_mask", "input_type_ids")
    features = tf.train.Features(feature=dict.fromkeys(names, feature))
    record = tf.train.Example(features=features).SerializeToString()

    outputs = found["a"](input_word_ids=ids, input_mask=ids, input_type_ids=ids)

    assert outputs["logits"].numpy().tolist() == [[[4.0], [5.0], [6.0]]]
    assert found["b"](tf.constant([record]))["logits"].numpy().tolist() == [[[4.0], [5.0], [6.0]]]


def test_question_answering_gives_begins_and_ends_of_ids_and_of_records():
    def infer(inputs, model):
        masked = inputs["input_word_ids"] * inputs["input_mask"]
        return masked, masked + inputs["input_type_ids"]

    kind = serving_modules.QuestionAnswering
    params = kind.Params(parse_sequence_length=3, use_v2_feature_names=False)
    module = kind(params, Sums(), infer)
    found = module.get_inference_signatures({"serve": "a", "serve_examples": "b"})
    types = [[0, 1, 1], [0, 0, 1]]
    masks = [[1, 1, 0], [1, 1, 1]]
    records = [
        write_example(input_ids=ids, input_mask=mask, segment_ids=kinds)
        for ids, mask, kinds in zip(IDS, masks, types, strict=True)
    ]

    outputs = [
        found["a"](
            input_word_ids=tf.constant(IDS),
            input_mask=tf.constant(masks),
            input_type_ids=tf.constant(types),
        ),
        found["b"](tf.constant(records)),
        module.serve(tf.constant(IDS)),
    ]

    starts = [[2, 5, 0], [2, 7, 3]]
    ends = [[2, 6, 1], [2, 7, 4]]
    for one, expected in zip(outputs, (ends, ends, starts), strict=True):
        assert one["start_logits"].numpy().tolist() == starts
        assert one["end_logits"].numpy().tolist() == expected
