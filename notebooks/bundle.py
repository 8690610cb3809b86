"""Opens result bundles for analysis: `Bundle("results/…").series` is a pandas frame, and so on.

Needs pandas, pyarrow and hdrhistogram. Both engines leave the same files, so the same lines read a dry run and an
emulation; what a run does not know is NaN. `report` asks the program itself for statistics over repetitions.
"""

import json
import os
import subprocess
import tomllib
from functools import cached_property
from pathlib import Path

import pandas as pd
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

ROOT = Path(__file__).resolve().parents[1]
NS_MAX, DIGITS = 3_600_000_000_000, 3  # what every histogram in latency.hlog fits into; some have two digits
QUANTILES = [0, 25, 50, 75, 90, 95, 99, 99.9]


class Bundle:
    """One bundle, read when it is first asked for. Its verdict comes first: it is printed when the bundle is opened."""

    def __init__(self, folder, quiet=False):
        self.folder = Path(folder)
        if not quiet:
            print(self.told())

    def told(self):
        """The verdict in words: its status, each doubt, and each limit that was loosened."""
        reasons = [r for r in self.verdict["reasons"] if r["severity"] != "note" or r["code"] == "limits_loosened"]
        head = f"{self.verdict['status']}  {self.folder.name}"
        return "\n".join([head, *(f"  {r['severity']}  {r['code']}: {r['text']}" for r in reasons)])

    @cached_property
    def manifest(self):
        """Where it came from: engine, seed, version, hosts, digests of the files."""
        return self._json("manifest.json")

    @cached_property
    def summary(self):
        """Counts, rates and percentiles of every group over the measured seconds."""
        return self._json("summary.json")

    @cached_property
    def verdict(self):
        """Whether these numbers may be trusted, and why not."""
        return self._json("verdict.json")

    @cached_property
    def series(self):
        """One row per second, node and actor; units are in the columns' names."""
        return pd.read_parquet(self.folder / "series.parquet")

    @cached_property
    def events(self):
        """The run's life cycle and faults."""
        return pd.read_parquet(self.folder / "events.parquet")

    def histogram(self, node, actor, metric):
        """All values of `metric` (response, service, lag, …; ns), merged exactly over the seconds.

        `None` for node or actor takes all of them; so does a name before the hyphen, such as camera.
        """
        merged = None
        log = HistogramLogReader(str(self.folder / "latency.hlog"), HdrHistogram(1, NS_MAX, DIGITS))
        while (interval := log.get_next_interval_histogram()) is not None:
            tag = interval.get_tag().split("/")
            if _is(node, tag[0]) and _is(actor, tag[1]) and tag[2] == metric:
                if merged is None:
                    merged = HdrHistogram(1, NS_MAX, interval.significant_figures)
                merged.add(interval)
        return HdrHistogram(1, NS_MAX, DIGITS) if merged is None else merged

    def quantiles_ms(self, metric, node=None, actor=None, at=QUANTILES):
        """Percentiles of a metric in ms, as a series by percentile."""
        histogram = self.histogram(node, actor, metric)
        return pd.Series({q: histogram.get_value_at_percentile(q) / 1e6 for q in at}, name=metric)

    def node(self, node):
        """CPU load, memory and rate of one node, by second; a receiver's rate is what it served."""
        own = self.series[self.series["node"] == node].set_index("second")
        host, groups = own[own["kind"] == "host"], own[own["kind"] != "host"]
        counted = "served" if (groups["kind"] == "receiver").any() else "success"
        frame = host[["cpu_percent", "memory_bytes", "memory_percent"]].copy()
        frame["rate"] = groups.groupby("second")[counted].sum(min_count=1)
        return frame

    def _json(self, name):
        return json.loads((self.folder / name).read_text())


def _is(wanted, name):
    return wanted is None or name == wanted or name.rpartition("-")[0] == wanted


def repetitions(folder):
    """The bundles of a run: one in each `rep-NN`, or the folder itself."""
    folder = Path(folder)
    inside = sorted(folder.glob("rep-*/manifest.json"))
    return [Bundle(path.parent) for path in inside] or [Bundle(folder)]


def program():
    """Where the program is: REHEARSAL_BIN, or what cargo built."""
    built = [ROOT / "target" / kind / "rehearsal" for kind in ("release", "debug")]
    return os.environ.get("REHEARSAL_BIN") or str(next((path for path in built if path.exists()), "rehearsal"))


def report(*folders, ramp=None):
    """What `rehearsal report` tells of these folders: a list, one entry for each experiment and engine."""
    command = [program(), "report", *map(str, folders), "--format", "json"]
    command += [] if ramp is None else ["--ramp", str(ramp)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def compare(simulated, emulated):
    """What `rehearsal compare` tells of a dry run and a real run of one experiment; errors outside of bounds are a result."""
    done = subprocess.run([program(), "compare", str(simulated), str(emulated), "--format", "json"], capture_output=True, text=True)
    assert done.returncode in (0, 10), done.stderr
    return json.loads(done.stdout)


def paper():
    """The published figures of PL-5G, by experiment, and what the paper claims."""
    figures = tomllib.loads((ROOT / "configs/pl5g/paper.toml").read_text())
    return {e["experiment"]: e for e in figures["experiments"]}, figures
