"""The crowd on SimPy, as its documentation writes such models: a process for each device and each request.

    crowd_simpy.py DEVICES SECONDS

One line of JSON goes to stdout.
"""

import json
import random
import resource
import sys
import time

import simpy

LINK, MESSAGE, LOAD = 0.005, 0.0001, 0.8
events = outcomes = gathered = 0


def sensor(env, worker, mean, rng):
    global events
    while True:
        yield env.timeout(rng.expovariate(1.0))
        events += 1
        env.process(exchange(env, worker, mean, rng))


def exchange(env, worker, mean, rng):
    global events, outcomes
    yield env.timeout(LINK)
    events += 1
    with worker.request() as turn:
        yield turn
        yield env.timeout(rng.expovariate(1.0 / mean))
        events += 1
    yield env.timeout(LINK)
    events += 1
    outcomes += 1


def ticker(env, rng):
    global events, gathered
    yield env.timeout(rng.random())
    while True:
        events += 1
        yield env.timeout(MESSAGE)
        events += 1
        gathered += 1
        yield env.timeout(1.0 - MESSAGE)


def main():
    devices, seconds = int(sys.argv[1]), float(sys.argv[2])
    empty = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    env = simpy.Environment()
    worker = simpy.Resource(env, capacity=1)
    for number in range(devices):
        rng = random.Random(number)
        env.process(sensor(env, worker, LOAD / devices, rng))
        env.process(ticker(env, rng))
    env.run(until=seconds / 5)
    first = events, outcomes, time.thread_time()
    env.run(until=seconds)
    last = events, outcomes, time.thread_time()
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - empty
    print(
        json.dumps(
            {
                "events": last[0] - first[0],
                "requests": last[1] - first[1],
                "cpu_seconds": last[2] - first[2],
                "bytes_per_device": kib * 1024 / devices,
            }
        )
    )


main()
