"""Every notebook runs from bundles that its one command makes, and comes to the numbers it explains."""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
PROGRAM = os.environ.get("REHEARSAL_BIN", str(ROOT / "target/debug/rehearsal"))
sys.path.insert(0, str(NOTEBOOKS))

from bundle import Bundle, report  # noqa: E402

SERVER = Path(sys.executable).with_name("nats-server")


def run(name, tmp_path, monkeypatch):
    """Makes the bundles, executes the notebook and gives the key values that its last cell prints."""
    monkeypatch.setenv("REHEARSAL_BIN", PROGRAM)
    monkeypatch.setenv("REHEARSAL_RESULTS", str(tmp_path))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    if SERVER.exists():
        monkeypatch.setenv("NATS_SERVER", os.environ.get("NATS_SERVER", str(SERVER)))
    command = [sys.executable, str(NOTEBOOKS / "make.py"), name, str(tmp_path / name)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if "nats-server" in made.stderr and made.returncode != 0:
        pytest.skip("there is no nats-server")
    assert made.returncode == 0, made.stderr
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", 4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "notebooks are kept without their outputs"
    # a socket file instead of open ports
    kernel = AsyncKernelManager(transport="ipc", ip=str(tmp_path / "kernel"))
    NotebookClient(notebook, km=kernel, timeout=120, resources={"metadata": {"path": str(NOTEBOOKS)}}).execute()
    pictures = [output for cell in notebook.cells for output in cell.get("outputs", []) if "image/png" in output.get("data", {})]
    return json.loads(notebook.cells[-1].outputs[0].text), len(pictures)


def test_pl5g(tmp_path, monkeypatch):
    key, pictures = run("pl5g", tmp_path, monkeypatch)
    assert pictures == 2
    assert key["intervals_that_reproduce"] == 9 and key["allocations_that_agree"] == 18
    totals = {"a1": 180_000, "a2": 144_000, "a3": 180_000, "b1": 790_800, "b2": 790_800, "b3": 790_800}
    totals |= {name: 366_400 for name in ("c1", "c2", "c3")}
    for name, total in totals.items():
        assert abs(key["simulated"][f"pl5g-{name}"] - total / 100) < 10, name
    # four cameras, one request in flight each, 20 ms of analysis: a machine that costs nothing serves 200/s
    assert abs(key["simulated_a1_rate"] - 200) < 0.5
    for generated, success, lost in key["emulated"].values():
        assert generated == success > 1000 and lost == 0
    assert set(key["claims"]) == {"pl5g-a1", "pl5g-b1", "pl5g-c1"}
    assert list(key["claims"]["pl5g-a1"]) == ["linear", "strong", "flat-memory", "cpu-bound"]
    assert list(key["claims"]["pl5g-b1"]) == ["collapse", "flat-memory", "cpu-bound"]
    answers = {answer for claims in key["claims"].values() for answer in claims.values()}
    assert answers <= {"holds", "does-not", "cannot-be-told"}
    assert all(seconds >= 10 for seconds in key["seconds"].values())
    for folder in sorted((tmp_path / "pl5g").glob("*-emulated")):
        agrees_with_pandas(folder)


def agrees_with_pandas(folder):
    """The program's coefficients and line are those that pandas computes from the same series."""
    [entry] = report(folder, ramp=1)
    seconds = Bundle(folder).node("receiver").query("rate == rate and cpu_percent == cpu_percent")
    receiver = next(node for node in entry["nodes"] if node["role"] == "receiver")
    found = receiver["all"]
    last = Bundle(folder).summary["duration_seconds"]
    seconds = seconds[seconds.index < last]
    assert found["n"] == len(seconds)
    assert found["pearson"]["r"] == pytest.approx(seconds["rate"].corr(seconds["cpu_percent"]), abs=1e-9)
    ranks = seconds[["rate", "cpu_percent"]].rank()
    assert found["spearman"]["r"] == pytest.approx(ranks["rate"].corr(ranks["cpu_percent"]), abs=1e-9)
    slope = seconds["rate"].cov(seconds["cpu_percent"]) / seconds["rate"].var()
    assert found["lines"][0]["slope"] == pytest.approx(slope, rel=1e-9)
    steady = seconds[(seconds.index >= 1) & (seconds.index < int(last) - 1)]
    assert receiver["cpu_percent"]["mean"] == pytest.approx(steady["cpu_percent"].mean(), rel=1e-9)
    assert found["pearson"]["interval"]["lower"] <= found["pearson"]["interval"]["upper"]


def test_compare(tmp_path, monkeypatch):
    key, pictures = run("compare", tmp_path, monkeypatch)
    assert pictures == 3
    # five nodes with a rate; of four senders p50 and p99 of two times each
    assert key["compared"]["judged"] == 5 + 4 * 2 * 2
    assert any("not calibrated" in note for note in key["compared"]["notes"])
    # one schedule for each repetition, whatever the engine
    assert [repetition for repetition, _ in key["schedules"]] == [1, 2, 3]
    assert key["totals"] == [[engine, 720, 720, 0] for engine in ("simulate", "emulate") for _ in range(3)]
    assert key["engines"] == ["emulated", "simulated"] and key["repetitions"] == {"emulated": 3, "simulated": 3}
    assert abs(key["p50_ms"]["simulated"] - 20) < 0.1 and key["p50_ms"]["emulated"] >= 20


def test_anatomy(tmp_path, monkeypatch):
    key, pictures = run("anatomy", tmp_path, monkeypatch)
    assert pictures == 2
    assert abs(key["response_mean_ms"] / key["parts_mean_ms"] - 1) < 0.005, "blocked, lag and service are all of it"
    assert key["service_min_ms"] > 19.9 and key["enough_blocked_p50_ms"] == 0
    # two workers and 20 ms each: 100/s of 120/s, so the rest waits, and a verdict says so
    assert 60 < key["few_rate"] < 101 and key["few_verdict"] == "INVALID"
    assert key["few_blocked_p50_ms"] > 5 * key["few_service_p50_ms"]
    assert key["few_response_p50_ms"] > key["few_blocked_p50_ms"]


def test_sweep(tmp_path, monkeypatch):
    key, pictures = run("sweep", tmp_path, monkeypatch)
    assert pictures == 2 and key["points"] == 15
    # eight workers of 20 ms serve 400/s: thirteen drones at 30/s
    assert (key["found"], key["fails_at"], key["violations"]) == (13, 14, [])
    assert key["late_from"] == [16]
    assert abs(key["served_at_most"] - 400) < 8


def test_replay(tmp_path, monkeypatch):
    key, pictures = run("replay", tmp_path, monkeypatch)
    # each gap of 20 µs 6 % too long, and 5 µs of jitter: by hand
    drift, jitter = key["told_apart_us"].values()
    assert drift == pytest.approx([1.2, 0.06 * 149_999 * 20]) and jitter == pytest.approx([10, 10])
    counts = [1_000, 5_000, 10_000, 50_000, 100_000, 150_000]
    assert [key["sent"][f"rehearsal-{count}"] for count in counts] == counts
    # what the benchmark left on this machine, if it ran here
    pictures -= key["benched"] > 0
    if not key["wired"]:
        assert pictures == 0 and key["top"] == key["held"] == key["timed"] == {}
        return
    assert pictures == 3
    assert [key["timed"][f"rehearsal-{count}"] for count in counts] == [[count, count, 0, 0] for count in counts]
    streams, most, opened = key["held"]["rehearsal"]
    assert (streams, most) == (200_000, 200_000) and opened > 0
    ours = ["xdp-live", "af-xdp", "packet"]
    assert {f"{path}-{size}" for path in ours for size in (64, 256, 512, 1024, 1460)} <= set(key["top"])
    assert all(rate > 0 for rate in key["top"].values())
    # what Algorithm 1 overshoots adds up, and Eq. 1 does not show it: the two readings are orders of magnitude apart
    eq1, added_up, last = key["errors_us"]["algorithm1-50000"]
    assert last > 100 * eq1 and added_up >= last
    if key["tcpreplay"]:
        assert key["timed"]["tcpreplay-1000"][1] == 1_000 and key["held"]["tcpreplay"][0] == 200_000


def test_users(tmp_path, monkeypatch):
    key, pictures = run("users", tmp_path, monkeypatch)
    assert pictures == 4
    # as they were measured, and are told in the README
    speed = key["full_speed"]
    assert speed["voice"]["users"] >= 1_000_000 and speed["voice"]["arrived"] > 0.98 * 300_000
    assert speed["small"]["arrived"] > 0.98 * 500_000 and min(speed["cbr"]["arrived"], speed["mpeg"]["arrived"]) > 400_000
    # what the links carry: 3,000 packets of 1,090 B, and 850 of 166 B a second
    assert 650 < key["knee_users"]["a"] < 850 and 7000 < key["knee_users"]["c"] < 9500
    assert abs(key["arrived_at_most"]["a"] / 3000 - 1) < 0.05 and abs(key["arrived_at_most"]["c"] / 850 - 1) < 0.05
    # 486 kbit/s on the wire of each: 26.16 Mbit/s for 54, less what bursts cost
    assert 45 < key["knee_users"]["b"] < 58
    # 8/s for half of the time; 2.7 packets a frame; 10/s in 35.2 % of 3 min in 100
    for panel, wanted in {"a": 4, "b": 67.5, "c": 0.1056}.items():
        assert abs(key["packets_per_user"][panel] / wanted - 1) < 0.1, panel
    # 98 B instead of 166 B on the wire
    assert abs(key["small_arrived_at_most"] / key["large_arrived_at_most"] - 166 / 98) < 0.1
    assert key["small_knee_users"] < key["knee_users"]["c"] / 4
    busy, lazy = key["activity_transitions"]
    assert 7 < busy / lazy < 14
    busy, lazy = key["activity_offered"]
    assert abs(busy / lazy - 1) < 0.15
    assert key["same_schedule"]
    for dry, real in zip(key["arrived_dry"], key["arrived_real"], strict=True):
        assert abs(real / dry - 1) < 0.02


def test_protocols(tmp_path, monkeypatch):
    key, pictures = run("protocols", tmp_path, monkeypatch)
    assert pictures == 6
    parts = {"handshakes": 8, "bulk": 5, "versions": 5, "networks": 9, "malformed": 3, "proxy": 6}
    assert {part: len(variants) for part, variants in key["parts"].items()} == parts
    suite, agreed = "TLS_AES_128_GCM_SHA256", key["agreed"]
    assert len(agreed) == 8
    for name, (opened, full, resumed, tls, cipher, alpn, requests, lost) in agreed.items():
        assert requests > 50 and lost == 0, name
        assert alpn == (("h3" if "3" in name else "h2" if "2" in name else "http/1.1") if tls else ""), name
        assert (tls, cipher) == (("", "") if name == "http1" else ("TLS 1.3", suite)), name
        if name.endswith("full"):
            assert (opened, full, resumed) == (requests, requests, 0), name
        elif name.endswith("resumed"):
            # those are full that were under way before there was a ticket
            assert opened == requests == full + resumed and 1 <= full <= 16, name
        else:
            assert 1 <= opened <= 16, name
    for end in (0, 1):
        cost = {name: ends[end] for name, ends in key["handshakes"].items()}
        # on a kept connection it is lost in the noise, and may come out below nothing
        assert cost["full handshake of TLS"] > cost["resumed handshake"] > 3 * cost["TLS on a kept connection"]
    assert all(cost > 0 for cost in key["encryption_us_per_mb"].values())
