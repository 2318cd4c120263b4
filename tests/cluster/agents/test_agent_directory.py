from quintain.cluster.agents import agent_directory


def test_a_launch_that_can_not_be_read_says_how_much_of_its_log_is_lost(tmp_path, caplog):
    made = agent_directory.AgentDirectory(tmp_path)
    with made.hold():
        made.scratch_dir("t7-a").mkdir()
        (made.scratch_dir("t7-a") / "t7-a.log").write_text("x" * 70)
        (tmp_path / "agent" / "launches" / "t7-a.json").write_text("{")

        assert made.list_records() == []
    assert "70 bytes of its log that were not stored" in caplog.text
    assert not made.scratch_dir("t7-a").exists()
