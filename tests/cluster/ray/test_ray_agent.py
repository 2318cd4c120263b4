import subprocess

from quintain.cluster.ray import ray_agent


def test_trials_get_what_ray_was_started_with_and_nothing_of_ray():
    worker = {
        "HOME": "/home/me",
        "RAY_AUTH_TOKEN": "secret",
        "SPT_NOENV": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONBREAKPOINT": "ray.util.rpdb.set_trace",
        "CUDA_VISIBLE_DEVICES": "",
        "QUINTAIN_DATABASE": "postgresql://me@db/trials",
        "PGPASSWORD": "secret",
    }
    raylet = {"RAY_AUTH_TOKEN": "secret", "OMP_NUM_THREADS": "7"}

    ray_agent.clean_environment(worker, raylet)

    assert worker == {"HOME": "/home/me", "OMP_NUM_THREADS": "7"}


def test_variables_are_those_that_a_process_was_started_with():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(["cat"], env={"GREETING": "hello=\nyou"}, **pipes) as process:
        process.stdin.write(b"It runs.\n")
        process.stdin.flush()
        process.stdout.readline()
        found = ray_agent.read_environment(process.pid)
        process.stdin.close()

    assert found["GREETING"] == "hello=\nyou"
    assert ray_agent.read_environment(2**22) == {}
