"""The weights are random: what counts is that the right ones are used, in the right order."""

import pytest

from quintain import errors
from quintain.kernels import modes
from quintain.serving import source_batches, translator

_SENTENCES = ["red house", "a long sentence about the green tree", "", "blue"]


@pytest.fixture(scope="module")
def trained(model_dir):
    return translator.Translator.from_model_dir(model_dir)


@pytest.mark.slow
def test_translations_come_in_the_order_of_the_sentences(trained):
    together = trained.translate(_SENTENCES)

    assert together == [trained.translate([sentence])[0] for sentence in _SENTENCES]
    assert len(set(together)) > 1


def test_blank_sentences_stay_blank(trained):
    assert trained.translate(["", "  "]) == ["", ""]


def test_nothing_gives_nothing(trained):
    assert trained.translate([]) == []


def test_a_small_batch_size_gives_the_same_translations(trained):
    assert trained.translate(_SENTENCES, batch_size=1) == trained.translate(_SENTENCES)


def test_a_stream_is_translated_while_it_is_read(trained):
    read = []

    def lines():
        for sentence in _SENTENCES:
            read.append(sentence)
            yield sentence

    stream = trained.translate_stream(lines(), batch_size=2)

    first = next(stream)
    assert len(read) == 2
    assert [first, *stream] == trained.translate(_SENTENCES)


def test_the_search_is_traced_once_for_all_shapes(trained):
    trained = translator.Translator(
        trained._model, trained._tokenizer, kernels=modes.KernelMode.TENSORFLOW
    )
    trained.translate(["red"])
    trained.translate(["red house " * 7, "tree"])

    (search,) = trained._searches._graphs.values()
    assert search.experimental_get_tracing_count() == 1


@pytest.mark.slow
def test_the_newest_checkpoint_is_used_unless_another_is_given(model_dir, trained):
    older = translator.Translator.from_model_dir(model_dir, checkpoint=f"{model_dir}/ckpt-1")
    newer = translator.Translator.from_model_dir(model_dir, checkpoint=f"{model_dir}/ckpt-2")

    assert newer.translate(_SENTENCES) == trained.translate(_SENTENCES)
    assert older.translate(_SENTENCES) != trained.translate(_SENTENCES)


@pytest.mark.long("Further options of the search, which has tests of its own")
@pytest.mark.slow
def test_the_search_can_be_changed(model_dir):
    greedy = translator.Translator.from_model_dir(model_dir, beam_size=1, alpha=0.0)

    assert len(greedy.translate(_SENTENCES)) == len(_SENTENCES)


def test_a_batch_size_below_one_is_an_error(trained):
    with pytest.raises(ValueError, match="batch_size"):
        trained.translate(["red"], batch_size=0)


def test_an_empty_directory_is_an_error_that_says_how_to_train(tmp_path):
    with pytest.raises(errors.CheckpointError, match="quintain train"):
        translator.Translator.from_model_dir(str(tmp_path))


def test_a_checkpoint_that_is_not_there_is_an_error(model_dir):
    with pytest.raises(errors.CheckpointError, match="ckpt-9"):
        translator.Translator.from_model_dir(model_dir, checkpoint=f"{model_dir}/ckpt-9")


@pytest.mark.long("Further options of the search, which has tests of its own")
@pytest.mark.slow
def test_options_change_the_search(trained):
    usual = trained.translate(_SENTENCES)

    long = trained.translate(_SENTENCES, min_length=7, no_repeat_ngram_size=1)

    assert long != usual
    assert long[2] == ""


@pytest.mark.long("Further options of the search, which has tests of its own")
@pytest.mark.slow
def test_the_best_of_several_is_the_one_found_alone(trained):
    several = trained.translate_with_scores(_SENTENCES, num_outputs=3)

    assert [ways[0].text for ways in several] == trained.translate(_SENTENCES, beam_size=3)
    for ways in several:
        scores = [way.score for way in ways]
        assert scores == sorted(scores, reverse=True)
    assert several[2] == [translator.Translation("", 0.0)]


@pytest.mark.slow
def test_translations_start_with_their_prefix(trained):
    found = trained.translate(["red house", "blue", "tree"], prefixes=["grüner", "", "rotes Haus"])

    assert found[0].startswith("grüner")
    assert found[1] == trained.translate(["blue"])[0]
    assert found[2].startswith("rotes Haus")


@pytest.mark.slow
def test_equal_seeds_draw_equal_translations(trained):
    first, second, other = (
        trained.translate(_SENTENCES, sampling_temperature=1.5, seed=seed) for seed in (1, 1, 2)
    )

    assert first == second
    assert first != other


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_sise": 3}, "Did you mean 'beam_size'"),
        ({"min_length": -1}, "min_length: got -1"),
        ({"num_outputs": 3, "beam_size": 2}, "num_outputs: got 3"),
    ],
)
def test_options_that_make_no_sense_are_errors(trained, options, message):
    with pytest.raises(errors.ConfigError, match=message):
        trained.translate(_SENTENCES, **options)


def test_as_many_prefixes_as_sentences_are_needed(trained):
    with pytest.raises(ValueError, match="prefixes: got 1 for 4 sentences"):
        trained.translate(_SENTENCES, prefixes=["x"])


def test_a_sentence_of_too_many_tokens_is_an_error_that_says_which(trained):
    with pytest.raises(translator.SourceTooLongError, match=r"sentence 2: has [\d,]+ tokens"):
        trained.translate(["red", "house " * 20_000])


def test_odd_text_is_translated_like_any_other(trained):
    odd = ["\x00\x01\x1b[31m", "🙂🙃", "אבג דה", "\ufeff", "\u200b", "日本語", "red\u2028house"]

    together = trained.translate(odd)

    assert together == [trained.translate([text])[0] for text in odd]


def test_long_sentences_come_in_smaller_batches():
    sources = [range(9_000), range(8_000), range(8_000), *[range(10)] * 5]

    batches = list(source_batches.cut(range(8), sources, 4))

    assert [list(places) for places in batches] == [[0], [1, 2], [3, 4, 5, 6], [7]]
