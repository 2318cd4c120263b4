from quintain.cluster.ray import ray_messages, ray_process


def test_a_log_that_begins_anew_says_how_much_was_omitted(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_process, "_MOST_LOG_BYTES", 50)
    path = tmp_path / "ray.log"
    path.write_text("x" * 70)
    made = ray_process.RayProcess(ray_messages.Settings(), path, lambda news: None)
    for text in ("first", "second"):
        with made._open_log() as log:
            log.write(f"{text}\n")
    assert path.read_text() == "70 bytes omitted: the log was long.\nfirst\nsecond\n"
