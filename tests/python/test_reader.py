"""The notebooks' reader gives the numbers of the summary, for a bundle of either engine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "notebooks"))

from bundle import Bundle  # noqa: E402

PROGRAM = os.environ.get("REHEARSAL_BIN", str(ROOT / "target/debug/rehearsal"))


@pytest.mark.parametrize("engine", ["simulate", "emulate"])
def test_reader(engine, tmp_path, capsys):
    out = tmp_path / "run"
    command = [PROGRAM, engine, str(ROOT / "configs/uav-control.toml"), "--quiet", "--out", str(out)]
    command += ["--set", "experiment.warmup=0s", "--duration", "2s"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (out / "summary.json").exists(), done.stderr
    run = Bundle(out)
    assert capsys.readouterr().out.split()[0] == run.verdict["status"], "the verdict comes first"
    cameras = run.series.query("kind == 'camera'")
    assert cameras["success"].sum() == sum(cameras.groupby("node")["success"].sum()) > 200
    assert set(cameras["node"]) == {"camera-1", "camera-2", "camera-3", "camera-4"}
    for node in sorted(set(cameras["node"])):
        response = run.histogram(node, "main", "response")
        assert response.get_total_count() == cameras.query("node == @node")["success"].sum()
        # the analyzer's pause is 20 ms: no answer can be faster
        assert response.get_min_value() >= 20_000_000 * 0.999
    assert run.manifest["engine"] == engine
    assert run.verdict["status"] in {"VALID", "DEGRADED", "INVALID"}
    assert {"started", "stopped"} <= set(run.events["kind"])
