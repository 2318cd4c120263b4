import pytest

from quintain import errors
from quintain.server.runs import run_samples


def write(path, name, rows, scores='{"bleu_score": 5.0}'):
    file = path / "translations" / f"{name}.tsv"
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = ["source\treference\thypothesis", *("\t".join(row) for row in rows)]
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    file.with_suffix(".json").write_text(scores)


def read(run, name="", *, contains="", offset=0, limit=50):
    return run_samples.read(run.path, name, contains=contains, offset=offset, limit=limit)


def test_the_last_evaluation_is_shown_with_its_scores(make_run):
    run = make_run()
    write(run.path, "step-9", [("a", "b", "c")], scores="{")
    write(run.path, "step-10", [("ein\\tHaus\\\\n", "<b>", "ü\x1b")])

    found = read(run)

    assert [(file.name, file.scores) for file in found.files] == [
        ("step-9", {}),
        ("step-10", {"bleu_score": 5.0}),
    ]
    assert (found.name, found.num_rows) == ("step-10", 1)
    assert found.rows == [("ein\tHaus\\n", "<b>", "ü\x1b")]


def test_rows_are_chosen_by_text_and_place(make_run):
    run = make_run()
    write(run.path, "task/step-5.2", [(f"Haus {n}", "x", "y") for n in range(9)] + [("", "", "")])

    found = read(run, "task/step-5.2", contains="hAUS", offset=3, limit=2)

    assert (found.num_rows, [row[0] for row in found.rows]) == (9, ["Haus 3", "Haus 4"])


@pytest.mark.parametrize("name", ["../../etc/passwd", "step-1", "step-5.tsv", "\0", "a" * 5000])
def test_a_name_is_no_path(make_run, name):
    run = make_run()
    write(run.path, "step-5", [])

    with pytest.raises(errors.NotFoundError, match="no translations of this name"):
        read(run, name)


def test_other_files_and_links_are_no_samples(make_run, tmp_path):
    run = make_run()
    write(run.path, "step-5", [("1", "2")])
    write(tmp_path, "step-6", [("a", "b", "c")])
    (run.path / "translations" / "step-6.tsv").symlink_to(tmp_path / "translations/step-6.tsv")
    (run.path / "translations" / "step-7.tsv").mkdir()

    found = read(run)

    assert [file.name for file in found.files] == ["step-5"]
    assert (found.num_rows, found.rows) == (0, [])


def test_a_run_without_translations_has_none(make_run):
    found = read(make_run())

    assert (found.files, found.name, found.rows) == ((), "", [])
