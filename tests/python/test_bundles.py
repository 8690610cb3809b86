"""Bundles of both engines, read with the standard tools; and that the check finds what is wrong with one.

    REHEARSAL_BIN=target/debug/rehearsal python -m pytest tests/python/test_bundles.py
"""

import json
import os
import shutil
import subprocess
from hashlib import sha256

import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from check_bundle import COUNTERS, SERIES, Wrong, bundles, check, main, read_json

BINARY = os.environ.get("REHEARSAL_BIN")
EXPERIMENT = """# Two sensors with two streams each and a receiver, for a few seconds.
[experiment]
name = "small"
seed = 3
duration = "3s"
warmup = "1s"
repetitions = REPETITIONS

[nodes.sensor]
count = 2
[nodes.sensor.actors.main]
kind = "sensor"
to = "receiver/main"
rate = "25/s"
streams = 2

[nodes.receiver.actors.main]
kind = "receiver"
workers = 8
backlog = 16
"""

pytestmark = pytest.mark.skipif(not BINARY, reason="REHEARSAL_BIN names no program")


def run(folder, verb, repetitions=1):
    """Runs the experiment below `folder`; gives the result folder."""
    file = folder / "small.toml"
    file.write_text(EXPERIMENT.replace("REPETITIONS", str(repetitions)), encoding="utf-8")
    out = folder / verb
    done = subprocess.run([BINARY, verb, file, "--out", out, "--csv"], capture_output=True, text=True, timeout=120, check=False)
    # a busy machine may make a real run INVALID; the bundle is whole all the same
    assert done.returncode in (0, 20), done.stderr
    return out


@pytest.fixture(scope="module", name="pair")
def both_engines(tmp_path_factory):
    """The same experiment, simulated and emulated."""
    folder = tmp_path_factory.mktemp("runs")
    return [run(folder, verb) for verb in ("simulate", "emulate")]


def test_both_engines_leave_sound_bundles(pair):
    lines = [check(bundle) for bundle in pair]
    assert all("rows" in line for line in lines)


def test_both_engines_leave_the_same_columns_and_keys(pair):
    simulated, emulated = (pq.read_table(bundle / "series.parquet") for bundle in pair)
    assert simulated.schema.equals(emulated.schema)
    assert list(SERIES) == simulated.schema.names
    groups = [{(row["node"], row["actor"], row["kind"]) for row in table.to_pylist()} for table in (simulated, emulated)]
    # a dry run has no machine
    around = {kind for (_, _, kind) in groups[1] - groups[0]}
    assert groups[0] <= groups[1]
    assert around == {"machine", "process"}


def test_both_engines_generate_the_same(pair):
    totals = [read_json(bundle / "summary.json")["total"]["totals"] for bundle in pair]
    assert [t["generated"] for t in totals] == [300, 300]
    assert len({read_json(bundle / "summary.json")["schedule_digest"] for bundle in pair}) == 1


def test_the_csv_is_the_series(pair):
    for bundle in pair:
        series = pq.read_table(bundle / "series.parquet").to_pandas()
        text = pandas.read_csv(bundle / "series.csv")
        assert list(text.columns) == list(series.columns)
        assert len(text) == len(series)
        for column in COUNTERS:
            assert text[column].sum() == series[column].sum(), column


def test_repetitions_are_each_whole(tmp_path):
    out = run(tmp_path, "simulate", repetitions=2)
    assert [bundle.name for bundle in bundles(out)] == ["rep-01", "rep-02"]
    assert main([str(out)]) == 0


def spoil(bundle, name, change):
    """Changes one file of a bundle, and its SHA-256 in the manifest."""
    path = bundle / name
    path.write_bytes(change(path.read_bytes()))
    manifest = read_json(bundle / "manifest.json")
    manifest["files"][name] = sha256(path.read_bytes()).hexdigest()
    (bundle / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def change_summary(change):
    """A change of a JSON document, as a change of bytes."""

    def changed(content):
        document = json.loads(content)
        change(document)
        return json.dumps(document).encode()

    return changed


def lose_interval(content):
    """Without the last interval of the log."""
    return b"".join(content.splitlines(keepends=True)[:-1])


def one_more(document):
    document["groups"][0]["totals"]["generated"] += 1


def slower(document):
    metrics = next(group["metrics"] for group in document["groups"] if "response" in group["metrics"])
    metrics["response"]["p99_ns"] += 10 + metrics["response"]["p99_ns"] // 10


def better(document):
    document["status"], document["reasons"] = "VALID", [{"severity": "degraded"}]


def change_series(change):
    """A change of the series' table, written in row groups of seven rows, as a change of bytes."""

    def changed(content):
        into = pa.BufferOutputStream()
        pq.write_table(change(pq.read_table(pa.BufferReader(content))), into, row_group_size=7)
        return into.getvalue().to_pybytes()

    return changed


def first_row_again(table):
    return pa.concat_tables([table, table.slice(0, 1)])


def other_column(column, value):
    """The table with one value in all rows of a column."""

    def changed(table):
        values = pa.array([value] * len(table), SERIES[column])
        return table.set_column(table.schema.get_field_index(column), pa.field(column, SERIES[column]), values)

    return changed


def shorter(document):
    document["window"]["seconds"] -= 1


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("latency.hlog", lose_interval, "the log counts|tags differ"),
        ("summary.json", change_summary(one_more), "sums to"),
        ("summary.json", change_summary(slower), "p99_ns of the log"),
        ("verdict.json", change_summary(better), "its worst reason"),
        ("summary.json", change_summary(shorter), "its seconds are not"),
        ("series.parquet", change_series(first_row_again), "two rows of second 0"),
        ("series.parquet", change_series(other_column("sent", None)), "only some counters are null"),
        ("series.parquet", change_series(other_column("served", 1)), "rows of a host have served"),
        ("series.parquet", change_series(other_column("cpu_ghz", 2.0)), "rows of a group have cpu_ghz"),
    ],
)
def test_a_spoiled_bundle_is_found(pair, tmp_path, name, change, says):
    bundle = tmp_path / "spoiled"
    shutil.copytree(pair[0], bundle)
    spoil(bundle, name, change)
    with pytest.raises(Wrong, match=says):
        check(bundle)
    assert main([str(bundle)]) == 1


def test_row_groups_do_not_matter(pair, tmp_path):
    bundle = tmp_path / "pieces"
    shutil.copytree(pair[0], bundle)
    spoil(bundle, "series.parquet", change_series(lambda table: table))
    assert check(bundle).split(": ")[1] == check(pair[0]).split(": ")[1]


def test_a_changed_file_is_found_by_its_digest(pair, tmp_path):
    bundle = tmp_path / "changed"
    shutil.copytree(pair[0], bundle)
    with open(bundle / "series.csv", "a", encoding="utf-8") as file:
        file.write("\n")
    with pytest.raises(Wrong, match="has SHA-256"):
        check(bundle)
