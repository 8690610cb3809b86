"""A Python program takes part in a run of the built program as a full actor, over a real NATS server.

    REHEARSAL_BIN=target/debug/rehearsal python -m pytest tests/python/test_foreign.py
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from check_bundle import check, read_json

BINARY = os.environ.get("REHEARSAL_BIN")
BESIDE = Path(sys.executable).parent / "nats-server"
SERVER = os.environ.get("NATS_SERVER") or shutil.which("nats-server") or str(BESIDE)
SHIPPED = Path(__file__).resolve().parents[2] / "configs" / "foreign"
# a busy machine may raise these doubts, and no others
LATE = {"generator_late", "generator_saturated", "target_saturated", "rate_missed", "skipped", "stolen"}
LATE |= {"contended", "warmup_included"}
PATIENCE_S = 90

pytestmark = [
    pytest.mark.skipif(not BINARY, reason="REHEARSAL_BIN names no program"),
    pytest.mark.skipif(not Path(SERVER).exists(), reason="there is no nats-server"),
]


@pytest.fixture(scope="module", name="url")
def server(tmp_path_factory):
    """A server on a port of its own."""
    folder = tmp_path_factory.mktemp("nats")
    args = [SERVER, "-a", "127.0.0.1", "-p", "-1", "-js", "-sd", folder / "js", "--ports_file_dir", folder]
    with subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        ports = folder / f"{Path(SERVER).name}_{process.pid}.ports"
        begun = time.monotonic()
        while not (ports.exists() and ports.stat().st_size):
            assert time.monotonic() - begun < PATIENCE_S and process.poll() is None, "no server"
            time.sleep(0.02)
        yield json.loads(ports.read_text(encoding="utf-8"))["nats"][0]
        process.terminate()


def start(args):
    return subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def sensor(file, url, *more):
    return start([sys.executable, SHIPPED / "sensor.py", file, "--nats", url, *more])


def emulate(file, url, out, *more):
    return start([BINARY, "emulate", file, "--placement", "processes", "--nats", url, "--out", out, "--quiet", *more])


def end(process):
    """Exit code, and what it said on stderr."""
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, f"{out}\n{err}"


def file(folder, seconds="5s", **keys):
    """The experiment that is shipped, with other keys of the run and the sensor."""
    text = (SHIPPED / "sensor.toml").read_text(encoding="utf-8").replace('duration = "5s"', seconds)
    for key, value in keys.items():
        text = re.sub(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
    path = folder / "trial.toml"
    path.write_text(text, encoding="utf-8")
    return path


def codes(bundle, notes=False):
    reasons = read_json(bundle / "verdict.json")["reasons"]
    return {r["code"] for r in reasons if notes or r["severity"] != "note"}


def group(bundle, node):
    groups = read_json(bundle / "summary.json")["groups"]
    return next(g for g in groups if (g["node"], g["actor"]) == (node, "main"))


def test_the_shipped_sensor_takes_part_as_a_full_actor(tmp_path, url):
    out = tmp_path / "b"
    program = sensor(SHIPPED / "sensor.toml", url)
    code, said = end(emulate(SHIPPED / "sensor.toml", url, out))
    assert end(program)[0] == 0
    assert code in (0, 20), said
    assert codes(out) <= LATE, codes(out)
    sent, received = group(out, "sensor"), group(out, "receiver")
    assert (sent["totals"]["generated"], sent["totals"]["success"], sent["open"]) == (200, 200, 0)
    assert received["totals"]["served"] == 200
    assert received["totals"]["bytes_received"] == sent["totals"]["bytes_sent"] == 200 * 700
    for metric in ("response", "service", "lag", "blocked"):
        assert sent["metrics"][metric]["count"] == 200, metric
    assert sent["metrics"]["response"]["p99_ns"] >= sent["metrics"]["service"]["p50_ns"] > 0
    rows = [r for r in pq.read_table(out / "series.parquet").to_pylist() if r["node"] == "sensor"]
    counted = {r["second"]: r["generated"] for r in rows if r["actor"] == "main"}
    assert set(range(5)) <= set(counted) and sum(counted.values()) == 200
    hosts = [r for r in rows if r["actor"] == "host"]
    assert len(hosts) >= 5 and all(r["memory_bytes"] > 0 for r in hosts)
    assert "rows" in check(out)


def test_a_run_of_counted_requests_ends_when_the_foreign_node_is_done(tmp_path, url):
    trial = file(tmp_path, 'stop = "all-requests-done"', rate='"50/s"\nrequests = 40')
    program = sensor(trial, url)
    code, said = end(emulate(trial, url, tmp_path / "b"))
    assert end(program)[0] == 0
    assert code in (0, 20), said
    assert codes(tmp_path / "b") <= LATE
    totals = group(tmp_path / "b", "sensor")["totals"]
    assert (totals["generated"], totals["success"]) == (80, 80)


def test_a_receiver_that_is_slow_shows_in_the_foreign_response_times(tmp_path, url):
    trial = file(tmp_path, 'duration = "3s"')
    with open(trial, "a", encoding="utf-8") as text:
        text.write('analyzer = { pause = "20ms" }\n')
    program = sensor(trial, url)
    code, said = end(emulate(trial, url, tmp_path / "b"))
    assert end(program)[0] == 0
    assert code in (0, 20), said
    metrics = group(tmp_path / "b", "sensor")["metrics"]
    assert metrics["service"]["min_ns"] >= 19_900_000
    assert metrics["response"]["min_ns"] >= metrics["service"]["min_ns"]


def test_a_foreign_node_that_is_killed_is_named(tmp_path, url):
    trial = file(tmp_path, 'duration = "30s"')
    program = sensor(trial, url)
    run = emulate(trial, url, tmp_path / "b")
    begun = time.monotonic()
    while not list(tmp_path.glob("b.partial/latency.hlog")):
        assert time.monotonic() - begun < PATIENCE_S and run.poll() is None
        time.sleep(0.05)
    time.sleep(3)
    program.send_signal(signal.SIGKILL)
    program.communicate()
    code, said = end(run)
    assert code == 20, said
    assert "node_lost" in codes(tmp_path / "b")
    totals = group(tmp_path / "b", "sensor")["totals"]
    assert 0 < totals["success"] < 1200, "what it had reported is kept"


def test_without_the_program_the_run_says_what_is_missing(tmp_path, url):
    code, said = end(emulate(SHIPPED / "sensor.toml", url, tmp_path / "b"))
    assert code == 20, said
    run = re.search(r"foreign node `sensor`: --nats (\S+) --run (\S+) --node sensor", said)
    assert run and run[1] == url, said
    reasons = read_json(tmp_path / "b" / "verdict.json")["reasons"]
    faults = [r for r in reasons if r["code"] == "fault" and r["node"] == "sensor"]
    assert faults and run[2] in faults[0]["text"], faults


def test_the_dry_run_simulates_it_and_embedded_placement_refuses_it(tmp_path):
    done = subprocess.run([BINARY, "simulate", SHIPPED / "sensor.toml", "--out", tmp_path / "s", "--quiet"], check=False)
    assert done.returncode == 0
    assert group(tmp_path / "s", "sensor")["totals"]["success"] == 200
    code, said = end(start([BINARY, "emulate", SHIPPED / "sensor.toml", "--out", tmp_path / "e"]))
    assert code == 3
    assert "`sensor` is foreign" in said and "--placement processes" in said
    assert not (tmp_path / "e").exists()
