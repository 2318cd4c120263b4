import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.hub import chat, configs, conversations, generation
from tests.hub.test_conversations import Letters

LOGITS = np.log(np.array([0.05, 0.5, 0.15, 0.3]))


def draw(num=400, **settings):
    generator = np.random.default_rng(3)
    config = configs.GenerationConfig(**settings)
    return [generation.choose(LOGITS, config, generator) for _ in range(num)]


def test_temperature_0_takes_the_best_token():
    assert set(draw(5)) == {1}


def test_tokens_are_drawn_as_the_model_says():
    counts = np.bincount(draw(4000, temperature=1.0)) / 4000

    np.testing.assert_allclose(counts, [0.05, 0.5, 0.15, 0.3], atol=0.03)


def test_top_k_and_top_p_leave_the_rare_ones_out():
    assert set(draw(temperature=1.0, top_k=2)) == {1, 3}
    assert set(draw(temperature=1.0, top_p=0.6)) == {1, 3}
    assert set(draw(temperature=1.0, top_p=0.4)) == {1}


class Recited:
    """A model that says the letters of a text one after the other, and then the end.

    With `decoy`, its likeliest first letter leads to unlikely ones.
    """

    def __init__(self, text, decoy=False):
        self._next = tf.constant([*map(ord, text), 0])
        self._decoy = decoy

    def _build_cache(self, token_ids):
        return None, tf.zeros([1, 1])

    def call_with_cache(self, tokens, cache, place):
        say = tf.gather(self._next, tf.cast(cache[:, 0], tf.int32), batch_dims=0)
        logits = tf.one_hot(say, 128) * 5.0
        if self._decoy:
            logits += tf.one_hot(ord("z"), 128) * tf.where(cache[:, :1] == 0.0, 5.1, 0.0)
            logits *= tf.where(tokens == ord("z"), 0.0, 1.0)
        return logits[:, None], None, cache + 1.0


def build_chat(model, **settings):
    template = conversations.Template(configs.TemplateConfig(name="plain"), Letters())
    config = configs.GenerationConfig(**settings)
    return chat.Chat(model, template, config, 256)


QUESTION = [{"role": "user", "content": "?"}]


def test_an_answer_comes_piece_by_piece_and_ends_by_itself():
    pieces = list(build_chat(Recited("hello")).stream(QUESTION))

    assert [piece.text for piece in pieces] == ["h", "e", "l", "l", "o", ""]
    assert pieces[-1] == chat.Piece("", "stop", 5)


def test_stop_words_end_an_answer_and_are_no_part_of_it():
    answerer = build_chat(Recited("one, END two"), stop=("END",))

    assert answerer.answer(QUESTION) == chat.Piece("one, ", "stop", 8)
    assert "E" not in "".join(piece.text for piece in answerer.stream(QUESTION))


def test_an_answer_is_cut_at_its_length():
    assert build_chat(Recited("hello"), max_new_tokens=3).answer(QUESTION) == chat.Piece(
        "hel", "length", 3
    )


def test_beams_find_what_the_best_first_token_hides():
    greedy = build_chat(Recited("hi", decoy=True), max_new_tokens=3)
    beams = dataclasses.replace(greedy.settings, num_beams=3)

    assert greedy.answer(QUESTION).text.startswith("z")
    assert greedy.answer(QUESTION, beams).text == "hi"


def test_a_text_without_place_for_an_answer_is_refused():
    with pytest.raises(errors.DataError, match="leaves no place for an answer"):
        build_chat(Recited("hi")).answer([{"role": "user", "content": "?" * 300}])
