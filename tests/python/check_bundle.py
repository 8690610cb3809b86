"""Opens result bundles with the standard tools and checks that they are what they say.

    python check_bundle.py BUNDLE [BUNDLE ...]

Needs pyarrow and hdrhistogram. A folder with an index.json is checked with all its repetitions. Prints one line per
bundle; exits with 1 at the first that is wrong and says what is wrong.
"""

import hashlib
import json
import math
import sys
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

TEXT, INT32, INT64, REAL = pa.string(), pa.int32(), pa.int64(), pa.float64()
KEYS = {"second": INT32, "node": TEXT, "actor": TEXT, "kind": TEXT, "instances": INT32}
HOST = {
    "cpu_percent": REAL,
    "cpu_ghz": REAL,
    "memory_bytes": INT64,
    "memory_percent": REAL,
    "steal_percent": REAL,
    "throttled_ns": INT64,
}
# column: the counters of summary.json that it is the sum of
COUNTERS = {
    "generated": ["generated"],
    "sent": ["attempts"],
    "success": ["success"],
    "unacknowledged": ["unacknowledged"],
    "lost": ["lost"],
    "rejected": ["rejected"],
    "invalid": ["invalid"],
    "failed": ["failed"],
    "aborted": ["aborted"],
    "deadline_missed": ["deadline_missed"],
    "skipped": ["skipped"],
    "queued": ["queued"],
    "bytes_sent": ["bytes_sent"],
    "bytes_received": ["bytes_received"],
    "received": ["received", "datagrams_received"],
    "served": ["served"],
}
TIMES = {
    "response_p50_ns": INT64,
    "response_p99_ns": INT64,
    "service_p99_ns": INT64,
    "handling_p50_ns": INT64,
    "handling_p99_ns": INT64,
    "handling_mean_ns": REAL,
    "lag_p99_ns": INT64,
    "blocked_p99_ns": INT64,
}
GAUGES = {"queue_length": INT64, "open": INT64}
SERIES = {**KEYS, **HOST, **dict.fromkeys(COUNTERS, INT64), **TIMES, **GAUGES}
EVENTS = {"at_ns": INT64, "second": INT32, "kind": TEXT, "node": TEXT, "actor": TEXT, "text": TEXT}
REQUIRED = {"second", "node", "actor", "kind"}
# one hour, three digits: the shape of every histogram of a bundle
LOWEST_NS, HIGHEST_NS, DIGITS = 1, 3_600_000_000_000, 3


class Wrong(Exception):
    """A bundle is not what it says."""


def need(holds, what):
    """Raises `Wrong` unless `holds`."""
    if not holds:
        raise Wrong(what)


def read_json(path):
    """The JSON document at `path`."""
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def check_files(bundle, manifest):
    """Every file is there, as the manifest says, and no other."""
    there = {path.name for path in bundle.iterdir()} - {"manifest.json"}
    need(there == set(manifest["files"]), f"files {sorted(there)}, the manifest lists {sorted(manifest['files'])}")
    for name, digest in manifest["files"].items():
        found = hashlib.sha256((bundle / name).read_bytes()).hexdigest()
        need(found == digest, f"{name} has SHA-256 {found}, the manifest says {digest}")
    need(manifest["experiment_sha256"] == manifest["files"]["experiment.toml"], "the experiment's SHA-256 differs")
    if manifest["engine"] == "simulate":
        need(manifest["machine"] is None and manifest["created_unix_ns"] is None, "a simulated bundle names its machine")


def check_schema(table, columns, name):
    """The columns, their order and their types."""
    found = {field.name: field.type for field in table.schema}
    need(list(found) == list(columns), f"{name} has columns {list(found)}")
    for column, kind in columns.items():
        need(found[column] == kind, f"{name}.{column} is {found[column]}, not {kind}")
        if column in REQUIRED:
            need(table[column].null_count == 0, f"{name}.{column} holds null")


def check_series(bundle, summary):
    """Keys are unique, what is unknown is null, and the rows of each group sum to its totals."""
    table = pq.read_table(bundle / "series.parquet")
    check_schema(table, SERIES, "series")
    rows = table.to_pylist()
    keys = {(row["second"], row["node"], row["actor"]) for row in rows}
    need(len(keys) == len(rows), "series has two rows with the same second, node and actor")
    sums = defaultdict(lambda: dict.fromkeys(COUNTERS, 0))
    for row in rows:
        at = f"series, second {row['second']} of {row['node']}/{row['actor']}"
        if row["actor"] == "host":
            beyond = [c for c in SERIES if c not in KEYS and c not in HOST and row[c] is not None]
            need(not beyond, f"{at}: a host has {beyond}")
            continue
        need(all(row[column] is None for column in HOST), f"{at}: a group has host columns")
        counted = [row[column] is not None for column in COUNTERS]
        need(all(counted) or not any(counted), f"{at}: only some counters are null")
        need(all(row[c] >= 0 for c in COUNTERS if row[c] is not None), f"{at}: a counter is negative")
        for column in COUNTERS:
            sums[row["node"], row["actor"]][column] += row[column] or 0
    for group in summary["groups"]:
        have = sums[group["node"], group["actor"]]
        for column, counters in COUNTERS.items():
            want = sum(group["totals"][counter] for counter in counters)
            at = f"{group['node']}/{group['actor']}"
            need(have[column] == want, f"{at}: `{column}` sums to {have[column]}, the summary says {want}")
    return len(rows)


def check_identities(summary):
    """Every exchange and every attempt is accounted for, per group and over groups."""
    parts = summary["groups"] + summary["templates"] + [summary["total"]]
    for part in parts:
        at = f"{part.get('node', part.get('template', 'total'))}"
        t = part["totals"]
        settled = t["success"] + t["invalid"] + t["failed"] + t["lost"] + t["aborted"]
        need(t["generated"] == settled + part["open"], f"{at}: generated is not settled + open")
        over = t["success"] + t["invalid"] + t["failed"] + t["rejected"] + t["unacknowledged"] + t["aborted_attempts"]
        need(t["attempts"] == over + part["open_attempts"], f"{at}: attempts is not over + open")
        need(all(part["window"][name] <= t[name] for name in t), f"{at}: the window counts more than the run")
    for name in summary["total"]["totals"]:
        for rows in (summary["groups"], summary["templates"]):
            found = sum(row["totals"][name] for row in rows)
            need(found == summary["total"]["totals"][name], f"`{name}` of all rows is {found}, not the total")


def read_log(path):
    """Every interval of the log, as (second, tag, histogram)."""
    reader = HistogramLogReader(str(path), HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS))
    intervals = []
    while (histogram := reader.get_next_interval_histogram()) is not None:
        intervals.append((histogram.get_start_time_stamp(), histogram.get_tag(), histogram))
    return reader.get_start_time_sec(), intervals


def quantile(histogram, share):
    """The upper end of the bucket below or in which at least this share of the values lies."""
    wanted, seen = max(1, math.ceil(share * histogram.get_total_count())), 0
    for item in histogram.get_recorded_iterator():
        seen += item.count_added_in_this_iter_step
        if seen >= wanted:
            return item.value_iterated_to
    return 0


def check_log(bundle, manifest, summary):
    """The measured intervals of each tag merge to what the summary says."""
    start_seconds, intervals = read_log(bundle / "latency.hlog")
    need((start_seconds == 0) == (manifest["engine"] == "simulate"), f"latency.hlog starts at {start_seconds}")
    window = summary["window"]
    merged = {}
    for stamp_ms, tag, histogram in intervals:
        second = round(stamp_ms / 1000 - start_seconds)
        need(tag is not None and tag.count("/") == 2, f"latency.hlog has the tag {tag}")
        if window["from_second"] <= second < window["to_second"]:
            into = merged.setdefault(tag, HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS))
            into.add(histogram)
    expected = {}
    for group in summary["groups"]:
        for metric, numbers in group["metrics"].items():
            expected[f"{group['node']}/{group['actor']}/{metric}"] = numbers
    need(set(merged) == set(expected), f"tags differ: {sorted(set(merged) ^ set(expected))}")
    for tag, numbers in expected.items():
        log = merged[tag]
        need(log.get_total_count() == numbers["count"], f"{tag}: the log counts {log.get_total_count()}, not {numbers['count']}")
        for name, share in (("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p999_ns", 0.999), ("max_ns", 1.0)):
            found = quantile(log, share)
            need(found == numbers[name], f"{tag}: {name} of the log is {found}, the summary says {numbers[name]}")
    return len(intervals)


def check_events(bundle):
    """The events' columns, and that each tells its second."""
    table = pq.read_table(bundle / "events.parquet")
    check_schema(table, EVENTS, "events")
    for row in table.to_pylist():
        need(row["kind"] and row["text"], f"an event without kind or text: {row}")
        need(abs(row["at_ns"] / 1e9 - row["second"]) <= 1, f"an event at another second than it says: {row}")
    return table.num_rows


def check_verdict(bundle):
    """The verdict is the worst of its reasons."""
    verdict = read_json(bundle / "verdict.json")
    grave = {"note": "VALID", "degraded": "DEGRADED", "invalid": "INVALID"}
    order = ["VALID", "DEGRADED", "INVALID"]
    worst = max((order.index(grave[reason["severity"]]) for reason in verdict["reasons"]), default=0)
    need(verdict["status"] == order[worst], f"the verdict is {verdict['status']}, its worst reason {order[worst]}")
    failed = any(threshold["result"] != "pass" for threshold in verdict["thresholds"])
    possible = {"INVALID": {20}, "DEGRADED": {10 if failed else 0, 20}, "VALID": {10 if failed else 0}}
    need(verdict["exit_code"] in possible[verdict["status"]], f"the exit code is {verdict['exit_code']}")
    return verdict["status"]


def check(bundle):
    """Checks one bundle; gives a line about it, raises `Wrong` if it is not what it says."""
    bundle = Path(bundle)
    manifest = read_json(bundle / "manifest.json")
    need(manifest["schema_version"] == 1, f"schema version {manifest['schema_version']}")
    check_files(bundle, manifest)
    summary = read_json(bundle / "summary.json")
    rows = check_series(bundle, summary)
    check_identities(summary)
    intervals = check_log(bundle, manifest, summary)
    events = check_events(bundle)
    status = check_verdict(bundle)
    return f"{bundle}: {status}, {rows} rows, {intervals} intervals, {events} events"


def bundles(folder):
    """The bundles of a result folder: itself, or its repetitions."""
    folder = Path(folder)
    index = folder / "index.json"
    if not index.exists():
        return [folder]
    return [folder / row["folder"] for row in read_json(index)["repetitions"]]


def main(folders):
    """Checks every folder; gives the exit code."""
    if not folders:
        print("which bundles? python check_bundle.py BUNDLE ...", file=sys.stderr)
        return 1
    for folder in folders:
        for bundle in bundles(folder):
            try:
                print(check(bundle))
            except (Wrong, OSError, KeyError, ValueError) as why:
                print(f"{bundle}: {type(why).__name__}: {why}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
