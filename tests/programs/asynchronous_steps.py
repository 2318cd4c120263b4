"""Takes asynchronous steps in a cluster, and loses a worker."""

import json
import os
import pathlib
import signal
import sys
import threading
import time

import tensorflow as tf

from quintain import errors
from quintain.core import config_definitions as cfg
from quintain.distribute import async_loops, distribution, parameter_servers

runtime = cfg.RuntimeConfig(distribution_strategy="parameter_server")
if parameter_servers.is_server(runtime):
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    name = f"{task['type']}-{task['index']}.pid"
    pathlib.Path(sys.argv[1]).with_name(name).write_text(str(os.getpid()))
    parameter_servers.serve()
strategy = distribution.build_strategy(runtime)
NUM_STEPS = 24
with strategy.scope():
    global_step = tf.Variable(0, dtype=tf.int64, trainable=False)
    counter = tf.Variable(0, dtype=tf.int64, trainable=False)
    total = tf.Variable(0, dtype=tf.int64, trainable=False)
    spans = tf.Variable(tf.zeros([NUM_STEPS + 1, 2], tf.float64), trainable=False)
    # Only long steps are seen to overlap; those that are counted may be short.
    num_products = tf.Variable(20, trainable=False)
    training = async_loops.AsyncTraining(strategy, global_step)
iterator = iter(training.distribute_dataset(lambda: tf.data.Dataset.range(100_000)))


def step(iterator):
    start = tf.timestamp()
    number = next(iterator)
    work = tf.random.stateless_normal([600, 600], seed=(1, 2))
    for _ in tf.range(num_products):
        work = tf.linalg.matmul(work, work) / 600.0
    with tf.control_dependencies([work]):
        end = tf.timestamp()
    place = counter.assign_add(1, read_value=True)
    total.assign_add(number)
    tf.raw_ops.ResourceScatterUpdate(
        resource=spans.handle,
        indices=tf.minimum(place, NUM_STEPS),
        updates=tf.stack([start, end]),
    )


loop = training.create_train_loop_fn(step, lambda: None)
done = loop(iterator, tf.constant(NUM_STEPS))
result = {"done": done, "counter": int(counter.numpy()), "step": int(global_step.numpy())}
result["spans"] = spans.numpy()[1:].tolist()
result["total"] = int(total.numpy())
num_products.assign(1)

numbered = training._create_numbered_step(step)
for _ in range(3):
    training.coordinator.schedule(numbered, args=(iterator, tf.constant(500, tf.int64)))
    training.join()
result["repeated"] = int(counter.numpy()) - result["counter"]

before = int(counter.numpy())
global_step.assign(5)  # As a recovery does.
loop(iterator, tf.constant(10))
result["after_going_back"] = [int(counter.numpy()) - before, int(global_step.numpy())]


def kill_a_worker():
    while int(counter.numpy()) < before + 20:
        time.sleep(0.01)
    path = pathlib.Path(sys.argv[1]).with_name("worker-0.pid")
    os.kill(int(path.read_text()), signal.SIGKILL)


before = int(counter.numpy())
killer = threading.Thread(target=kill_a_worker)
killer.start()
loop(iterator, tf.constant(80))
killer.join()
result["with_a_killed_worker"] = int(counter.numpy()) - before
try:
    finite = iter(training.distribute_dataset(lambda: tf.data.Dataset.range(60)))
    loop(finite, tf.constant(100))
except errors.DataError as error:
    result["end_of_data"] = str(error)
with open(sys.argv[1], "w") as file:
    json.dump(result, file)
