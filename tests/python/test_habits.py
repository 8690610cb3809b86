"""What continuous integration and scrapers read of a run, read with their own eyes; and the example workflow, word for word.

    REHEARSAL_BIN=target/debug/rehearsal python -m pytest tests/python/test_habits.py
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

BINARY = os.environ.get("REHEARSAL_BIN")
ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / "configs/ci/github-actions.yml"
EXPERIMENT = """[experiment]
name = "habits"
duration = "DURATION"
repetitions = 1

[nodes.sensor]
count = 2
[nodes.sensor.actors.main]
kind = "sensor"
to = "receiver/main"
rate = "25/s"

[nodes.receiver.actors.main]
kind = "receiver"

[thresholds]
"success.rate" = ">10/s"
"response.p50" = "LIMIT"

[links.default]
delay = "5ms"
"""

pytestmark = pytest.mark.skipif(not BINARY, reason="REHEARSAL_BIN names no program")


def experiment(folder, duration="2s", limit="<10s"):
    """Writes the experiment; gives its file."""
    file = folder / "habits.toml"
    file.write_text(EXPERIMENT.replace("DURATION", duration).replace("LIMIT", limit), encoding="utf-8")
    return file


def scrape(url):
    """The metric families at `url`, as the strict parser of the Prometheus project reads them."""
    request = urllib.request.Request(url, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        return {family.name: family for family in text_string_to_metric_families(answer.read().decode("utf-8"))}


def total(family, **labels):
    """The sum of a counter's samples with these labels."""
    chosen = [s for s in family.samples if all(s.labels.get(k) == v for k, v in labels.items())]
    return sum(s.value for s in chosen if s.name.endswith("_total"))


def test_figures_of_a_real_run_are_open_metrics(tmp_path):
    """Scraped each half second: all can be parsed, no counter falls, the last page has what the run did until then."""
    command = [BINARY, "emulate", experiment(tmp_path, "5s"), "--out", tmp_path / "out", "--metrics", "127.0.0.1:0", "--tag", "a=b\"c\\d"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as program:
        try:
            url = next(line.split()[1] for line in program.stderr if line.startswith("metrics: "))
            pages = []
            while not pages or pages[-1]["rehearsal_run_seconds"].samples[0].value < 3:
                assert program.poll() is None, "it ended before three seconds were told"
                pages.append(scrape(url))
                time.sleep(0.5)
        finally:
            program.send_signal(signal.SIGTERM)
            program.communicate(timeout=60)
    last = pages[-1]
    kinds = {name: family.type for name, family in last.items()}
    assert kinds["rehearsal_attempts"] == "counter" and kinds["rehearsal_response_seconds"] == "histogram"
    assert last["rehearsal_sent_bytes"].unit == "bytes" and last["rehearsal_response_seconds"].unit == "seconds"
    assert last["rehearsal_run"].samples[0].labels["tag_a"] == 'b"c\\d'
    attempts = [total(page["rehearsal_attempts"], node="sensor", actor="main") for page in pages]
    assert attempts == sorted(attempts) and attempts[-1] >= 100, attempts
    success = total(last["rehearsal_exchanges"], node="sensor", outcome="success")
    counted = [s for s in last["rehearsal_response_seconds"].samples if s.name.endswith("_count")]
    assert [s.value for s in counted if s.labels["node"] == "sensor"] == [success]


ATTRIBUTES = {
    "testsuites": (set(), set()),
    "testsuite": ({"id", "package", "name", "timestamp", "hostname", "tests", "failures", "errors", "time"}, {"skipped"}),
    "property": ({"name", "value"}, set()),
    "testcase": ({"classname", "name", "time"}, set()),
    "failure": ({"type", "message"}, set()),
    "error": ({"type", "message"}, set()),
}


def junit(file):
    """Checks a JUnit file against the rules that both Ant's and Jenkins' schemas make; gives its suites."""
    root = ET.parse(file).getroot()
    assert root.tag == "testsuites"
    for element in root.iter():
        needed, allowed = ATTRIBUTES.get(element.tag, (set(), set()))
        assert needed <= set(element.attrib) <= needed | allowed, (element.tag, element.attrib)
    for at, suite in enumerate(root):
        order = [child.tag for child in suite]
        cases = suite.findall("testcase")
        assert order == ["properties", *["testcase"] * len(cases), "system-out", "system-err"]
        assert suite.get("id") == str(at) and int(suite.get("tests")) == len(cases)
        assert int(suite.get("failures")) == len(suite.findall("testcase/failure"))
        assert int(suite.get("errors")) == len(suite.findall("testcase/error"))
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp"))
        float(suite.get("time"))
        assert all(len(case) <= 1 for case in cases)
    return list(root)


@pytest.mark.parametrize(("limit", "loss", "code", "failed"), [("<10s", "0%", 0, []), ("<1us", "0%", 10, ["failure"]), ("<10s", "100%", 20, ["error", "failure", "failure"])])
def test_junit_is_what_its_readers_take(tmp_path, limit, loss, code, failed):
    """A pass, a failed threshold, and an INVALID run whose thresholds have nothing to be held against."""
    args = ["--set", f"links.default.loss={loss}", "--out", tmp_path / "out", "--junit", tmp_path / "junit.xml", "--quiet"]
    done = subprocess.run([BINARY, "simulate", experiment(tmp_path, limit=limit), *args], capture_output=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    [suite] = junit(tmp_path / "junit.xml")
    assert [case.get("name") for case in suite.findall("testcase")] == ["verdict", "success.rate >10/s", f"response.p50 {limit}"]
    assert [child.tag for case in suite.findall("testcase") for child in case] == failed
    assert suite.find("properties/property[@name='results']").get("value") == str(tmp_path / "out")


def steps():
    """Name, commands and whether they always run, of the workflow's steps that run something."""
    text = WORKFLOW.read_text(encoding="utf-8")
    found = []
    for step in re.split(r"^      - ", text, flags=re.MULTILINE)[1:]:
        block = re.search(r"^        run: \|\n((?:          .*\n|\n)+)", step, re.MULTILINE)
        if block:
            commands = re.sub(r"^ {10}", "", block.group(1), flags=re.MULTILINE)
            found.append((re.match(r"name: (.*)", step).group(1), commands, "if: always()" in step))
    assert [name for name, _, _ in found] == ["Install Rehearsal", "Start the service", "Load it", "Report", "Stop the service"]
    return found


def free_port():
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def workflow(home, limit):
    """Runs the workflow's steps in a checkout at `home`; gives their exit codes."""
    shutil.copytree(ROOT / "configs/ci", home / "configs/ci")
    (home / "bin").mkdir()
    (home / "bin/rehearsal").symlink_to(Path(BINARY).resolve())
    environment = {k: v for k, v in os.environ.items() if not k.startswith("REHEARSAL_")}
    environment |= {"PATH": f"{home}/bin:{os.environ['PATH']}", "PORT": str(free_port()), "LIMIT": limit, "RESULT": "results/service-ci"}
    codes = {}
    try:
        for name, commands, always in steps():
            if name == "Install Rehearsal" or (any(codes.values()) and not always):
                continue
            file = home / "step.sh"
            file.write_text(commands, encoding="utf-8")
            done = subprocess.run(["bash", "-e", file], cwd=home, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
            codes[name] = done.returncode
            print(name, done.returncode, done.stdout, done.stderr)
    finally:
        pid = home / "service.pid"
        if "Stop the service" not in codes and pid.exists():
            os.kill(int(pid.read_text(encoding="utf-8")), signal.SIGTERM)
    return codes


@pytest.mark.parametrize(("limit", "code"), [("<20s", 0), ("<1ns", 10)])
def test_the_workflow_does_what_it_says(tmp_path, limit, code):
    """Each step but the installation, as the runner would call it: `bash -e` in a checkout, one after the other."""
    # a machine that is too busy to send on time makes a run INVALID, which outranks thresholds: three tries
    for attempt in range(3):
        home = tmp_path / str(attempt)
        codes = workflow(home, limit)
        if codes["Load it"] != 20:
            break
    assert codes == {"Start the service": 0, "Load it": code, "Report": 0, "Stop the service": 0}
    [suite] = junit(home / "junit.xml")
    failed = [case.get("name") for case in suite.findall("testcase") if len(case)]
    assert failed == ([] if code == 0 else [f"response.p99 {limit}"])
    assert (home / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
