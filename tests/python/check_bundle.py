"""Opens result bundles with the standard tools and checks that they are what they say.

    python check_bundle.py BUNDLE [BUNDLE ...]

Needs pyarrow and hdrhistogram. Reads piece by piece, so that the length of a run does not matter. A folder with an
index.json is checked with all its repetitions. Prints one line per bundle; exits with 1 at the first that is wrong and
says what is wrong.
"""

import hashlib
import json
import math
import sys
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
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
    "cpu_host_percent": REAL,
    "cpu_run_percent": REAL,
    "thread_busy_percent": REAL,
    "cpu_used_ghz": REAL,
    "context_switches": INT32,
    "voluntary_switches": INT32,
    "involuntary_switches": INT32,
    "open_files": INT32,
    "open_files_limit": INT64,
    "open_sockets": INT32,
    "ephemeral_ports": INT32,
    "ephemeral_ports_limit": INT32,
    "udp_in_errors": INT32,
    "udp_receive_buffer_errors": INT32,
    "udp_send_buffer_errors": INT32,
    "tcp_retransmitted": INT32,
    "tcp_listen_overflows": INT32,
    "tcp_listen_drops": INT32,
    "tcp_receive_buffer_drops": INT32,
}
# of a node, of a process that several nodes share, of a machine: the names of their actor and kind
RESOURCES = ["host", "process", "machine"]
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
    "one_way_p50_ns": INT64,
    "one_way_p99_ns": INT64,
    "inter_departure_p50_ns": INT64,
    "inter_departure_p99_ns": INT64,
    "jitter_p50_ns": INT64,
    "jitter_p99_ns": INT64,
    "ipdv_p99_ns": INT64,
}
GAUGES = {"queue_length": INT64, "open": INT64}
SERIES = {**KEYS, **HOST, **dict.fromkeys(COUNTERS, INT64), **TIMES, **GAUGES}
EVENTS = {"at_ns": INT64, "second": INT32, "kind": TEXT, "node": TEXT, "actor": TEXT, "text": TEXT}
REQUIRED = {"second", "node", "actor", "kind"}
# one hour; three digits at most: the histograms of a metric have one shape, and all fit into this one
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


def sha256_of(path):
    """The SHA-256 of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def check_files(bundle, manifest):
    """Every file is there, as the manifest says, and no other."""
    there = {path.name for path in bundle.iterdir()} - {"manifest.json"}
    need(there == set(manifest["files"]), f"files {sorted(there)}, the manifest lists {sorted(manifest['files'])}")
    for name, digest in manifest["files"].items():
        found = sha256_of(bundle / name)
        need(found == digest, f"{name} has SHA-256 {found}, the manifest says {digest}")
    need(manifest["experiment_sha256"] == manifest["files"]["experiment.toml"], "the experiment's SHA-256 differs")
    if manifest["engine"] == "simulate":
        need(manifest["machine"] is None and manifest["created_unix_ns"] is None, "a simulated bundle names its machine")


def check_schema(schema, columns, name):
    """The columns, their order and their types."""
    found = {field.name: field.type for field in schema}
    need(list(found) == list(columns), f"{name} has columns {list(found)}")
    for column, kind in columns.items():
        need(found[column] == kind, f"{name}.{column} is {found[column]}, not {kind}")


def parts(path, columns, name):
    """The row groups of a table, one at a time: a long run's table does not fit into memory as a whole."""
    with pq.ParquetFile(path) as file:
        check_schema(file.schema_arrow, columns, name)
        for number in range(file.num_row_groups):
            table = file.read_row_group(number)
            for column in REQUIRED & set(columns):
                need(table[column].null_count == 0, f"{name}.{column} holds null")
            yield table


def check_keys(table, seen):
    """No second of a group or host is there twice; `seen` holds a byte for each second of each."""
    for second, *key in zip(*(table[column].to_pylist() for column in ("second", "node", "actor"))):
        seconds = seen[tuple(key)]
        if second >= len(seconds):
            seconds.extend(bytes(second + 1 - len(seconds)))
        need(not seconds[second], f"series has two rows of second {second} of {'/'.join(key)}")
        seconds[second] = 1


def check_nulls(table):
    """A host has its own columns only, a group has all counters or none; gives the groups' rows."""
    is_host = pc.is_in(table["actor"], value_set=pa.array(RESOURCES))
    hosts, groups = table.filter(is_host), table.filter(pc.invert(is_host))
    for column in SERIES:
        if column not in KEYS:
            rows = groups if column in HOST else hosts
            known = len(rows) - rows[column].null_count
            need(known == 0, f"series: {known} rows of a {'group' if column in HOST else 'host'} have {column}")
    for column in HOST:
        least = pc.min(hosts[column]).as_py()
        need(least is None or least >= 0, f"series: {column} is negative, {least}")
    known = pc.is_valid(groups["generated"])
    for column in COUNTERS:
        same = pc.all(pc.equal(pc.is_valid(groups[column]), known), min_count=0).as_py()
        need(same, f"series: only some counters are null, {column} is not like generated")
        least = pc.min(groups[column]).as_py()
        need(least is None or least >= 0, f"series: {column} is negative, {least}")
    return groups


def check_series(bundle, summary):
    """Keys are unique, what is unknown is null, and the rows of each group sum to its totals."""
    rows, seen = 0, defaultdict(bytearray)
    sums = defaultdict(lambda: dict.fromkeys(COUNTERS, 0))
    for table in parts(bundle / "series.parquet", SERIES, "series"):
        rows += len(table)
        check_keys(table, seen)
        grouped = check_nulls(table).group_by(["node", "actor"])
        for row in grouped.aggregate([(column, "sum") for column in COUNTERS]).to_pylist():
            for column in COUNTERS:
                sums[row["node"], row["actor"]][column] += row[f"{column}_sum"] or 0
    for group in summary["groups"]:
        have = sums[group["node"], group["actor"]]
        for column, counters in COUNTERS.items():
            want = sum(group["totals"][counter] for counter in counters)
            at = f"{group['node']}/{group['actor']}"
            need(have[column] == want, f"{at}: `{column}` sums to {have[column]}, the summary says {want}")
    return rows


def check_window(summary):
    """What rates are divided by is the measured seconds, or the duration of traffic if nothing is left out."""
    window = summary["window"]
    whole = window["to_second"] - window["from_second"] if window["trimmed"] else summary["duration_seconds"]
    need(window["seconds"] == whole, f"the window is {window}, its seconds are not {whole}")
    for part in summary["groups"]:
        datagrams = part["totals"]["datagrams_sent"] + part["totals"]["datagrams_received"] > 0
        seconds, counts = (summary["duration_seconds"], "totals") if datagrams else (window["seconds"], "window")
        rate = part[counts]["generated"] / seconds if seconds else 0
        at = f"{part['node']}/{part['actor']}"
        found = part["per_second"]["generated"]
        need(math.isclose(rate, found, rel_tol=1e-9), f"{at}: {rate} generated per second, the summary says {found}")


def check_identities(summary):
    """Every exchange and every attempt is accounted for, per group and over groups."""
    for part in summary["groups"] + summary["templates"] + [summary["total"]]:
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


def merge_log(path, window):
    """The measured intervals of each tag, merged one by one; with the log's start and its number of intervals."""
    reader = HistogramLogReader(str(path), HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS))
    intervals, merged = 0, {}
    try:
        while (histogram := reader.get_next_interval_histogram()) is not None:
            intervals += 1
            tag = histogram.get_tag()
            need(tag is not None and tag.count("/") == 2, f"latency.hlog has the tag {tag}")
            second = round(histogram.get_start_time_stamp() / 1000 - reader.get_start_time_sec())
            if window["from_second"] <= second < window["to_second"]:
                if tag not in merged:
                    merged[tag] = HdrHistogram(LOWEST_NS, HIGHEST_NS, histogram.significant_figures)
                merged[tag].add(histogram)
    finally:
        reader.close()
    return reader.get_start_time_sec(), intervals, merged


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
    start_seconds, intervals, merged = merge_log(bundle / "latency.hlog", summary["window"])
    need((start_seconds == 0) == (manifest["engine"] == "simulate"), f"latency.hlog starts at {start_seconds}")
    expected = {}
    for group in summary["groups"]:
        for metric, numbers in group["metrics"].items():
            expected[f"{group['node']}/{group['actor']}/{metric}"] = numbers
    need(set(merged) == set(expected), f"tags differ: {sorted(set(merged) ^ set(expected))}")
    for tag, numbers in expected.items():
        log = merged[tag]
        need(log.get_total_count() == numbers["count"], f"{tag}: the log counts {log.get_total_count()}, not {numbers['count']}")
        for name, share in (("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p999_ns", 0.999), ("max_ns", 1.0)):
            # a percentile is told from so many values on that one of them lies beyond it
            told = name in ("p50_ns", "max_ns") or numbers["count"] * round(1000 * (1 - share)) >= 1000
            found = quantile(log, share) if told else None
            need(found == numbers[name], f"{tag}: {name} of the log is {found}, the summary says {numbers[name]}")
    return intervals


def check_events(bundle):
    """The events' columns, and that each tells its second."""
    rows = 0
    for table in parts(bundle / "events.parquet", EVENTS, "events"):
        rows += len(table)
        for row in table.to_pylist():
            need(row["kind"] and row["text"], f"an event without kind or text: {row}")
            need(abs(row["at_ns"] / 1e9 - row["second"]) <= 1, f"an event at another second than it says: {row}")
    return rows


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
    check_window(summary)
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
