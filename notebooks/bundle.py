"""Opens a result bundle for analysis: `Bundle("results/…").series` is a pandas frame, and so on.

Needs pandas, pyarrow and hdrhistogram. Both engines leave the same files, so the same lines read a dry run and an
emulation; what a run does not know is NaN.
"""

import json
from functools import cached_property
from pathlib import Path

import pandas as pd
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

NS_MAX, DIGITS = 3_600_000_000_000, 3  # the shape of every histogram in latency.hlog


class Bundle:
    """One bundle, read when it is first asked for."""

    def __init__(self, folder):
        self.folder = Path(folder)

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
        """All values of `metric` (response, service, lag, …; ns), merged exactly over the seconds."""
        merged, tag = HdrHistogram(1, NS_MAX, DIGITS), f"{node}/{actor}/{metric}"
        log = HistogramLogReader(str(self.folder / "latency.hlog"), HdrHistogram(1, NS_MAX, DIGITS))
        while (interval := log.get_next_interval_histogram()) is not None:
            if interval.get_tag() == tag:
                merged.add(interval)
        return merged

    def _json(self, name):
        return json.loads((self.folder / name).read_text())
