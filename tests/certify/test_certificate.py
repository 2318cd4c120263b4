import json

from quintain.certify import certificate, stages, variable_map

ENTRY = variable_map.Entry("b/kernel", "a<kernel>", gates=(0, 2, 1, 3))


def build(size=2e-7, **fields):
    results = (certificate.StageResult("loss", size, is_equal=True),)
    return certificate.Certificate("old.py:f", "new.py:f", 1e-6, results, (ENTRY,), (), **fields)


def test_the_interval_is_students_of_the_pairs():
    found = certificate.ShortTrainings(10, (1.0, 2.0, 3.0), (1.1, 2.2, 3.3))

    low, high = found.interval

    # Mean 0.2, deviation 0.1, quantile 4.303 of 2 degrees of freedom.
    assert abs(low - (0.2 - 4.303 * 0.1 / 3**0.5)) < 1e-9
    assert abs(low + high - 0.4) < 1e-9
    assert found.is_equal


def test_losses_that_all_differ_alike_are_a_difference():
    assert not certificate.ShortTrainings(10, (1.0, 1.0, 1.0), (1.1, 1.11, 1.09)).is_equal


def test_a_certificate_as_text_json_and_html():
    trainings = certificate.ShortTrainings(20, (1.0, 2.0), (1.0, 2.0))
    found = build(trainings=trainings)

    assert "equivalent within 1e-06 for 10 updates; no difference over 2 seeds" in found.to_text()
    assert json.loads(json.dumps(found.to_json()))["trainings"]["interval"] == [0.0, 0.0]
    page = found.to_html()
    assert "a&lt;kernel&gt;" in page
    assert "gates (0, 2, 1, 3)" in page


def test_a_difference_is_told_with_its_cause():
    place = stages.Difference(stages.Stage.LOSS, 0, "the loss", 0.5)
    found = build(difference=place, cause="label smoothing")

    assert (
        found.verdict == "first difference: loss, the loss by 0.5. Likely cause: label smoothing."
    )
    assert json.loads(json.dumps(found.to_json()))["difference"]["stage"] == "loss"
    assert 'class="other"' in found.to_html()


def test_a_difference_above_the_tolerance_is_told_as_rounding():
    text = "equivalent within rounding for 10 updates: 3e-06 is above 1e-06, but at most ten times"

    assert build(size=3e-6).verdict.startswith(text)
