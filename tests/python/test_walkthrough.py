"""The README's walk-through over two hosts, word for word, on two hosts that are network namespaces of this machine.

    REHEARSAL_BIN=target/debug/rehearsal python -m pytest tests/python/test_walkthrough.py

Needs root, `ip`, and a nats-server.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from check_bundle import check, read_json

BINARY = os.environ.get("REHEARSAL_BIN")
ROOT = Path(__file__).resolve().parents[2]
SERVER = os.environ.get("NATS_SERVER") or shutil.which("nats-server") or str(Path(sys.executable).parent / "nats-server")
# both ends of a network for tests of interconnected devices (RFC 2544), as the README's are for documentation
HOSTS = {"A": "198.19.250.1", "B": "198.19.250.2"}
# a busy machine may raise these doubts, and no others
LATE = {"generator_late", "generator_saturated", "target_saturated", "rate_missed", "skipped", "stolen", "throttled"}
LATE |= {"contended", "warmup_included"}
PATIENCE_S = 150

pytestmark = [
    pytest.mark.skipif(not BINARY, reason="REHEARSAL_BIN names no program"),
    pytest.mark.skipif(not Path(SERVER).exists(), reason="there is no nats-server"),
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="network namespaces need root and iproute2"),
]


def blocks():
    """The shell blocks of the walk-through, by their first line."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"^```sh\n# (on both|on A|on B|then on A)\b.*?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in found] == ["on both", "on A", "on B", "then on A"]
    return dict(found)


def ip(*words):
    """Calls ip(8)."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture(scope="module", name="hosts")
def two_hosts():
    """Two namespaces with a cable between them."""
    names = {host: f"rh-walk-{host.lower()}-{os.getpid()}" for host in HOSTS}
    try:
        for name in names.values():
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", names["A"], "link", "add", "lan", "type", "veth", "peer", "name", "lan", "netns", names["B"])
        for host, name in names.items():
            ip("-n", name, "address", "add", f"{HOSTS[host]}/24", "dev", "lan")
            ip("-n", name, "link", "set", "lan", "up")
        yield names
    finally:
        for name in names.values():
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def environment(folder):
    """Where a shell finds the programs, and nothing of the caller's settings."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    for name, program in {"rehearsal": BINARY, "nats-server": SERVER}.items():
        with contextlib.suppress(FileExistsError):
            (programs / name).symlink_to(Path(program).resolve())
    kept = {name: value for name, value in os.environ.items() if not name.startswith("REHEARSAL_")}
    return kept | {"PATH": f"{programs}:{os.environ['PATH']}", "REHEARSAL_CACHE": str(folder / "cache"), "TMPDIR": str(folder)}


def shell(namespace, text, folder, log, **more):
    """Starts a shell on one of the hosts, in a folder like the repository."""
    command = ["ip", "netns", "exec", namespace, "sh", "-eu", "-c", text]
    return subprocess.Popen(command, cwd=folder, env=environment(folder), stdout=log, stderr=log, text=True, **more)


def test_the_walk_through_works_word_for_word(hosts, tmp_path):
    told = blocks()
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    both = told["on both"]
    for host, address in {"A": "192.0.2.1", "B": "192.0.2.7"}.items():
        assert f"{host}={address}" in both
        both = both.replace(f"{host}={address}", f"{host}={HOSTS[host]}")
    with contextlib.ExitStack() as stack:
        logs = {host: stack.enter_context(open(tmp_path / f"{host}.log", "w+", encoding="utf-8")) for host in HOSTS}
        for host in HOSTS:
            text = f"{both}\n{told[f'on {host}']}\nwait\n"
            process = shell(hosts[host], text, tmp_path, logs[host], start_new_session=True)
            # what a terminal's end does to all that was started in it
            stack.callback(os.killpg, process.pid, signal.SIGTERM)
        with open(tmp_path / "run.log", "w+", encoding="utf-8") as log:
            run = shell(hosts["A"], f"{both}\n{told['then on A']}", tmp_path, log)
            stack.callback(run.kill)
            code = run.wait(timeout=PATIENCE_S)
            text = "".join((tmp_path / name).read_text(encoding="utf-8") for name in ("run.log", "A.log", "B.log"))
        assert code in (0, 10, 20), text
    (bundle,) = (tmp_path / "results").iterdir()
    check(bundle)
    summary, verdict = (read_json(bundle / name) for name in ("summary.json", "verdict.json"))
    assert {r["code"] for r in verdict["reasons"] if r["severity"] != "note"} <= LATE, text
    totals = summary["total"]["totals"]
    assert totals["generated"] == totals["success"] == 450, text
    assert {clock["agent"] for clock in summary["clocks"]} == {"a", "b"}, summary["clocks"]
    assert re.search(r"^a +.*^b +", text, re.MULTILINE | re.DOTALL), "the list of agents"
