"""Runs a dispatcher with two workers until its standard input ends, and writes their address."""

import json
import sys

import tensorflow as tf

dispatcher = tf.data.experimental.service.DispatchServer()
config = tf.data.experimental.service.WorkerConfig(
    dispatcher_address=dispatcher.target.partition("://")[2]
)
workers = [tf.data.experimental.service.WorkerServer(config) for _ in range(2)]
print(json.dumps(dispatcher.target), flush=True)
sys.stdin.read()
