"""The weights are random: what counts is that a run and its export say the same."""

import pytest

from quintain import errors
from quintain.serving import classifier, exporter, served_model

TEXTS = ["ein Haus", "a house by the lake", "", "   ", "日本 🙂 אבג", "\x00\x1b[31m", "x " * 50_000]


def assert_same(found, expected):
    assert [one.label for one in found] == [one.label for one in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.score == pytest.approx(theirs.score, rel=1e-5)
        assert ours.probabilities == pytest.approx(theirs.probabilities, rel=1e-5)


@pytest.fixture(scope="module")
def run(classifier_dir):
    return classifier.Classifier.load(classifier_dir)


@pytest.fixture(scope="module")
def export(classifier_dir, tmp_path_factory):
    return exporter.export_run(classifier_dir, str(tmp_path_factory.mktemp("exports") / "model"))


@pytest.mark.long("test_export.py loads an exported classifier in every run")
@pytest.mark.slow
def test_an_export_predicts_as_the_run_does(run, export):
    found = classifier.Classifier.load(export).classify(TEXTS)

    assert_same(found, run.classify(TEXTS))
    assert len({one.score for one in found}) > 3


@pytest.mark.slow
def test_probabilities_are_those_of_all_classes_the_largest_first(run):
    for found in run.classify(TEXTS):
        assert set(found.probabilities) == {"de", "en", "fr"}
        values = list(found.probabilities.values())
        assert values == sorted(values, reverse=True)
        assert sum(values) == pytest.approx(1.0, abs=1e-5)
        assert next(iter(found.probabilities.items())) == (found.label, found.score)


@pytest.mark.slow
def test_predictions_come_in_the_order_of_the_texts_whatever_the_batches(run):
    together = run.classify(TEXTS)

    assert_same([run.classify([text])[0] for text in TEXTS], together)
    assert_same(run.classify(TEXTS, batch_size=2), together)
    assert_same(list(run.classify_stream(iter(TEXTS), batch_size=3)), together)
    assert run.classify([]) == []


@pytest.mark.long("Further kinds of classifiers; one is exported and asked in every run")
@pytest.mark.slow
def test_classes_without_names_have_numbers_in_an_export_too(make_classifier_run, tmp_path):
    directory = make_classifier_run(model={"num_classes": 4})
    export = exporter.export_run(directory, str(tmp_path / "export"))

    expected = classifier.Classifier.load(directory).classify(TEXTS)
    found = classifier.Classifier.load(export).classify(TEXTS)

    assert_same(found, expected)
    assert set(found[0].probabilities) == {"0", "1", "2", "3"}


@pytest.mark.long("Further kinds of classifiers; one is exported and asked in every run")
@pytest.mark.slow
def test_pairs_of_texts_are_predicted(make_classifier_run, tmp_path):
    directory = make_classifier_run(text_fields=["first", "second"], label_names=["no", "yes"])
    export = exporter.export_run(directory, str(tmp_path / "export"))
    pairs = [["ein Haus", "a house"], ["a house", "ein Haus"], ["", ""]]

    run, exported = (classifier.Classifier.load(path) for path in (directory, export))

    assert (run.num_fields, exported.num_fields) == (2, 2)
    assert_same(exported.classify(pairs), run.classify(pairs))
    assert run.classify(pairs)[0].score != pytest.approx(run.classify(pairs)[1].score, rel=1e-4)
    with pytest.raises(errors.DataError, match=r"example 2: got 1 texts, expected 2\."):
        exported.classify([pairs[0], "ein Haus"])


@pytest.mark.long("Further kinds of classifiers; one is exported and asked in every run")
@pytest.mark.slow
def test_numbers_have_no_classes(make_classifier_run, tmp_path):
    directory = make_classifier_run(model={"num_classes": 1}, metric_type="pearson_spearman_corr")
    export = exporter.export_run(directory, str(tmp_path / "export"))

    run, exported = (classifier.Classifier.load(path) for path in (directory, export))

    assert_same(exported.classify(TEXTS), run.classify(TEXTS))
    assert [(one.label, one.probabilities) for one in run.classify(TEXTS)] == [(None, {})] * 7
    model = served_model.load(export)
    model.warm_up()
    assert model.run(["ein Haus"]) == [
        {"score": pytest.approx(run.classify(["ein Haus"])[0].score)}
    ]


@pytest.mark.slow
def test_a_server_answers_labels_and_probabilities(export, run):
    model = served_model.load(export, batch_size=2)
    expected = run.classify(TEXTS)

    found = model.run(TEXTS)

    assert [one["label"] for one in found] == [one.label for one in expected]
    assert found[0]["probabilities"] == pytest.approx(expected[0].probabilities, rel=1e-5)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["a", ["b", "c"]], "example 2: got 2 texts, expected 1"),
        (["a", "b\ud800"], "example 2: is not valid Unicode"),
    ],
)
def test_wrong_examples_are_named(run, texts, words):
    with pytest.raises(errors.DataError, match=words):
        run.classify(texts)


def test_a_batch_size_below_one_is_an_error(run):
    with pytest.raises(ValueError, match="batch_size: got 0"):
        run.classify(["a"], batch_size=0)


def test_what_is_for_translation_only_is_refused(classifier_dir, tmp_path):
    with pytest.raises(errors.ConfigError, match=r"beam_size, max_source_length: .* takes no"):
        served_model.load(classifier_dir, beam_size=2, max_source_length=3)
    with pytest.raises(errors.ConfigError, match=r"max_source_length: .* takes no opt"):
        exporter.export_run(classifier_dir, str(tmp_path / "x"), max_source_length=3)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_checkpoint_of_an_export_can_not_be_chosen(export):
    with pytest.raises(errors.ConfigError, match="an export has its weights"):
        classifier.Classifier.load(export, checkpoint="ckpt-1")


def test_a_run_of_another_kind_is_an_error(model_dir):
    with pytest.raises(errors.ConfigError, match="expected one of SentencePrediction"):
        classifier.Classifier.load(model_dir)
