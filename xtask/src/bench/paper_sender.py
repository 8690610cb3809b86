"""Senders as the paper describes them: processes that post one request after the other with `requests`.

    paper_sender.py URL BYTES SECONDS PROCESSES [MEDIA_TYPE]

Each request opens a connection of its own. One line of JSON goes to stdout.
"""

import json
import multiprocessing
import os
import sys
import time

import requests


def send(url, size, seconds, media_type, ready, counts):
    body = b'{"data":"' + b"x" * (size - 11) + b'"}' if "json" in media_type else os.urandom(size)
    headers = {"Content-Type": media_type}
    good = bad = 0
    ready.wait()
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        try:
            answer = requests.post(url, data=body, headers=headers, timeout=10)
            good += answer.ok
            bad += not answer.ok
        except requests.RequestException:
            bad += 1
    counts.put((good, bad, time.monotonic() - begin))


def main():
    url, size, seconds, processes = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    media_type = sys.argv[5] if len(sys.argv) > 5 else "application/octet-stream"
    ready, counts = multiprocessing.Barrier(processes), multiprocessing.Queue()
    arguments = (url, size, seconds, media_type, ready, counts)
    senders = [multiprocessing.Process(target=send, args=arguments) for _ in range(processes)]
    for sender in senders:
        sender.start()
    done = [counts.get() for _ in senders]
    for sender in senders:
        sender.join()
    print(json.dumps({
        "requests": sum(good for good, _, _ in done),
        "failed": sum(bad for _, bad, _ in done),
        "seconds": max(took for _, _, took in done),
    }))


if __name__ == "__main__":
    main()
