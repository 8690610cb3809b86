"""Attempts kept one by one: merged histograms are exactly those of all attempts, in both engines, over processes and over
agents.

    REHEARSAL_BIN=target/debug/rehearsal python -m pytest tests/python/test_requests.py
"""

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from check_bundle import read_json
from hdrh.histogram import HdrHistogram

sys.path.insert(0, str(Path(__file__).parents[2] / "notebooks"))
from bundle import DIGITS, NS_MAX, Bundle  # noqa: E402

BINARY = os.environ.get("REHEARSAL_BIN")
SERVER = os.environ.get("NATS_SERVER") or shutil.which("nats-server") or Path(sys.executable).parent / "nats-server"
EXPERIMENT = """# Two nodes of senders whose every attempt is kept; one in twenty is malformed, and some find no worker.
[experiment]
name = "kept"
seed = 5
duration = "3s"
warmup = "1s"
record_requests = "SHARE"

[nodes.sensor]
count = 2
[nodes.sensor.actors.main]
kind = "sensor"
to = "receiver/main"
rate = "60/s"
streams = 2
in_flight = 4
retries = 1
backoff = "20ms"
malformed = "5%"

[nodes.receiver.actors.main]
kind = "receiver"
workers = 2
backlog = 2
analyzer = { pause = "12ms" }
"""
TIMES = {
    "response": ("done_ns", "intended_ns", True),
    "service": ("done_ns", "sent_ns", True),
    "lag": ("sent_ns", "ready_ns", False),
    "blocked": ("ready_ns", "at_ns", False),
}

pytestmark = pytest.mark.skipif(not BINARY, reason="REHEARSAL_BIN names no program")


def run(folder, verb, *more, share="100%"):
    """Runs the experiment below `folder`; gives its bundle."""
    file = folder / "kept.toml"
    file.write_text(EXPERIMENT.replace("SHARE", share), encoding="utf-8")
    out = folder / "-".join([verb, share.rstrip("%"), *more[:2]]).replace("--", "")
    command = [BINARY, verb, file, "--out", out, *more]
    known = os.environ | ({"NATS_SERVER": str(SERVER)} if Path(SERVER).exists() else {})
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=known)
    # a busy machine may make a real run INVALID; the bundle is whole all the same
    assert done.returncode in (0, 20), done.stderr
    return Bundle(out)


def rows(bundle):
    """All kept attempts."""
    return pq.read_table(bundle.folder / "requests.parquet").to_pandas()


def assert_exact(bundle):
    """Every sender's histograms, merged over all seconds, are those of its attempts."""
    kept = rows(bundle)
    totals = bundle.summary["total"]["totals"]
    assert bundle.summary["requests"] == {"kept": len(kept), "left_out": 0}
    assert len(kept) == totals["attempts"] > 700
    assert (kept.status == "success").sum() == totals["success"]
    assert (kept.status == "rejected").sum() == totals["rejected"] > 0
    for (node, actor), group in kept.groupby(["node", "actor"]):
        for metric, (to, since, successes) in TIMES.items():
            counted = group[group.status == "success"] if successes else group
            merged = bundle.histogram(node, actor, metric)
            assert merged.significant_figures == (DIGITS if metric in ("response", "service") else 2), metric
            expected = HdrHistogram(1, NS_MAX, merged.significant_figures)
            for value in counted[to] - counted[since]:
                expected.record_value(int(value))
            assert merged.get_total_count() == len(counted), (node, metric)
            assert merged.counts == expected.counts or list(merged.counts) == list(expected.counts), (node, metric)


def test_merged_histograms_are_those_of_all_attempts(tmp_path):
    for verb in ("simulate", "emulate"):
        assert_exact(run(tmp_path, verb))


@pytest.mark.skipif(not Path(SERVER).exists(), reason="no nats-server is here")
def test_so_they_are_over_processes(tmp_path):
    assert_exact(run(tmp_path, "emulate", "--placement", "processes"))


@contextmanager
def fleet(folder, agents):
    """The URL of a server with as many agents; they end with the block."""
    ports = folder / "ports"
    ports.mkdir()
    served = [SERVER, "-a", "127.0.0.1", "-p", "-1", "-js", "-sd", folder / "js", "--ports_file_dir", ports]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with ExitStack() as stack:

        def start(command):
            process = subprocess.Popen(command, **quiet)
            stack.callback(process.wait, 30)
            stack.callback(process.terminate)

        start(served)
        for _ in range(500):
            if url := next(nats_urls(ports), None):
                break
            time.sleep(0.02)
        else:
            pytest.fail("the server never listened")
        for number in range(1, agents + 1):
            name = f"a{number}"
            start([BINARY, "agent", "--nats", url, "--name", name, "--cache", folder / f"cache-{name}"])
        yield url


def nats_urls(ports):
    """URLs that a server wrote down once it listened."""
    for file in ports.glob("nats-server_*.ports"):
        text = file.read_text(encoding="utf-8")
        yield from json.loads(text)["nats"] if text.endswith("}") else []


@pytest.mark.skipif(not Path(SERVER).exists(), reason="no nats-server is here")
def test_so_they_are_over_agents(tmp_path):
    with fleet(tmp_path, 3) as url:
        bundle = run(tmp_path, "emulate", "--placement", "agents", "--nats", url, "--expect-agents", "3")
    assert len(read_json(bundle.folder / "manifest.json")["clocks"]) == 3
    assert_exact(bundle)


def test_both_engines_choose_the_same_exchanges(tmp_path):
    bundles = [run(tmp_path, verb, share="10%") for verb in ("simulate", "emulate")]
    chosen = [set(map(tuple, rows(b)[["node", "member", "stream", "seq"]].to_numpy())) for b in bundles]
    # 720 exchanges, one in ten: 72 ± 8, five deviations
    assert 32 < len(chosen[0]) < 112
    assert chosen[0] == chosen[1]


def test_nothing_is_kept_unless_asked_for(tmp_path):
    bundle = run(tmp_path, "simulate", share="0%")
    assert not (bundle.folder / "requests.parquet").exists()
    assert "requests" not in read_json(bundle.folder / "summary.json")
