import json

from quintain.scheduler import checkpoint_sweep


def test_only_what_nobody_knows_and_no_process_may_report_is_an_orphan(tmp_path):
    for name, trial_id in {"known": 1, "lost": 1, "fresh": 2}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "metadata.json").write_text(json.dumps({"trial_id": trial_id}))
    for name in (".1-aa.tmp", ".2-bb.tmp", "notes"):
        (tmp_path / name).mkdir()

    found = checkpoint_sweep.find_orphans(tmp_path, {"known"}, {2})

    assert [path.name for path in found] == [".1-aa.tmp", "lost"]
