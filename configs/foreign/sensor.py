"""A sensor in Python that takes part in a run as a full actor: life cycle, HTTP traffic, a report each second.

    pip install nats-py msgpack hdrhistogram
    python3 sensor.py sensor.toml --nats nats://127.0.0.1:4222 [--run TOKEN] [--node sensor]

It reads its load from the same file that the run is started with, and joins the run that is named, or the first one
that is prepared. framework/bus/PROTOCOL.md describes every message. Exit codes: 0 the run is over and reported, 1 it is
not, 2 the file does not fit.
"""

import argparse
import asyncio
import contextlib
import json
import re
import resource
import sys
import time
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

try:
    import msgpack
    import nats
    from hdrh.histogram import HdrHistogram
    from nats.aio.msg import Msg
    from nats.errors import Error as NatsError
except ModuleNotFoundError as why:
    sys.exit(f"error: {why}; pip install nats-py msgpack hdrhistogram")

NS = 1_000_000_000
HOUR_NS = 3600 * NS  # histograms tell apart up to an hour, to three digits
CLOCK_TRIES = 8  # questions for the run's time
REPORTS_MAX = 600  # reports kept until they are acknowledged
MESSAGES_MAX = 4096  # messages that may wait to be handled
RESEND_S, REPEAT_S, BEAT_S = 2.0, 0.5, 1.0
PATIENCE_S = 30.0  # longest wait for an answer of the other side once the run has stopped
ATTEMPTS = {"max_reconnect_attempts": 120, "reconnect_time_wait": 0.5, "connect_timeout": 2}
UNITS = {"ns": 1, "us": 1000, "ms": 1_000_000, "s": NS, "B": 1, "kB": 1000, "KiB": 1024, "MB": 1_000_000}


def quantity(text: str) -> int:
    """`20ms` in ns, `1kB` in bytes."""
    number, unit = re.fullmatch(r"([0-9.]+)([A-Za-z]+)", text).groups()
    return round(float(number) * UNITS[unit])


@dataclass
class Load:
    """The actor's keys, as far as this program knows them."""

    to: str
    gap_ns: int
    streams: int
    payload_bytes: int
    timeout_ns: int
    requests: int | None

    @staticmethod
    def of(table: dict[str, Any]) -> "Load":
        known = {"kind", "to", "rate", "streams", "bytes", "timeout", "requests"}
        if strange := sorted(set(table) - known):
            raise ValueError(f"this sensor does not know {', '.join(strange)}")
        rate = float(table["rate"].removesuffix("/s"))
        size, timeout = quantity(table.get("bytes", "1kB")), quantity(table.get("timeout", "10s"))
        return Load(table["to"], round(NS / rate), table.get("streams", 1), size, timeout, table.get("requests"))


@dataclass
class Books:
    """Counters since the start, and the times of the present second."""

    totals: Counter = field(default_factory=Counter)
    times: dict[str, HdrHistogram] = field(default_factory=dict)
    waiting: int = 0

    def record(self, metric: str, ns: int) -> None:
        histogram = self.times.setdefault(metric, HdrHistogram(1, HOUR_NS, 3))
        histogram.record_value(min(max(ns, 1), HOUR_NS))

    def take_times(self) -> list[dict[str, Any]]:
        times, self.times = self.times, {}
        return [{"metric": metric, "v2": histogram.encode()} for metric, histogram in sorted(times.items())]


class Bus:
    """The run's subjects: envelopes out with numbers of their own, envelopes in as `(kind, body)`."""

    def __init__(self, client: nats.NATS, run: str | None, node: str) -> None:
        self.client, self.run, self.node = client, run, node
        self.numbers: Counter = Counter()
        self.offset_ns = 0  # the run's time less this host's monotonic clock
        self.round_trip_ns: int | None = None
        self.ignored = 0

    def now(self) -> int:
        """The run's time, ns since it was created."""
        return time.monotonic_ns() + self.offset_ns

    def seal(self, subject: str, kind: str, body: dict[str, Any]) -> bytes:
        self.numbers[subject] += 1
        sender = ".".join(subject.split(".")[4:6])
        number = self.numbers[subject] if sender.startswith(f"{self.node}.") else 0  # another's subject has its numbers
        head = {"v": 1, "kind": kind, "run": self.run, "from": sender, "seq": number, "t_ns": self.now()}
        return msgpack.packb(head | {"body": body})

    def subject(self, plane: str, actor: str, verb: str) -> str:
        return f"lab.v1.{self.run}.{plane}.{self.node}.{actor}.{verb}"

    async def say(self, plane: str, actor: str, verb: str, kind: str, body: dict[str, Any]) -> None:
        subject = self.subject(plane, actor, verb)
        await self.client.publish(subject, self.seal(subject, kind, body))

    async def ask(self, subject: str, kind: str, body: dict[str, Any]) -> bytes | None:
        """Waits a second for the answer."""
        with contextlib.suppress(NatsError, asyncio.TimeoutError):
            return (await self.client.request(subject, self.seal(subject, kind, body), timeout=1.0)).data
        return None

    def open(self, payload: bytes) -> dict[str, Any] | None:
        """An envelope of our run in the version that we know, or nothing."""
        with contextlib.suppress(ValueError, msgpack.exceptions.UnpackException):
            head = msgpack.unpackb(payload)
            if isinstance(head, dict) and head.get("v") == 1 and isinstance(head.get("body"), dict):
                if self.run in (None, head.get("run")):
                    return head
        self.ignored += 1
        return None


class Sensor:
    """The actor, its node and its logger in one."""

    def __init__(self, bus: Bus, actor: str, load: Load) -> None:
        self.bus, self.actor, self.load = bus, actor, load
        self.books = Books()
        self.addresses: dict[str, str] = {}
        self.start: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.stop, self.close = asyncio.Event(), asyncio.Event()
        self.open: dict[int, tuple[float, dict[str, Any]]] = {}
        self.second, self.dropped, self.done, self.cpu = 0, 0, False, time.process_time()
        self.switches = (0, 0)  # context switches up to the last report

    async def hear(self, message: Msg) -> None:
        """What the controller and the aggregator say."""
        if (head := self.bus.open(message.data)) is None:
            return
        match head["kind"], head["body"]:
            case "prepare", _:
                self.bus.run = head["run"]
                await self.read_clock(message.subject, head)
                await self.bus.say("ctl", "logger", "ready", "ready", {"node": self.bus.node})
            case "addresses", {"listen": listen} if message.subject.endswith(".host.addresses"):
                self.addresses = listen
            case "start-at", body if not self.start.done():
                self.start.set_result(body)
            case "report-ack", {"node": self.bus.node, "second": second}:
                self.open.pop(second, None)
            case "stop-run", _:
                self.stop.set()
            case "close-books", _:
                self.close.set()

    async def read_clock(self, subject: str, head: dict[str, Any]) -> None:
        """The run's time: asked for, the shortest round trip counts; or else a message's, which is late by its way."""
        bus, clock = self.bus, f"{subject.rsplit('.', 2)[0]}.host.clock"
        if bus.round_trip_ns is not None:
            return
        bus.offset_ns = head["t_ns"] - time.monotonic_ns()
        for _ in range(CLOCK_TRIES):
            asked = time.monotonic_ns()
            answer = await bus.ask(clock, "read-clock", {})
            round_trip = time.monotonic_ns() - asked
            reading = answer and bus.open(answer)
            if reading and (bus.round_trip_ns is None or round_trip < bus.round_trip_ns):
                bus.round_trip_ns, bus.offset_ns = round_trip, reading["t_ns"] - asked - round_trip // 2

    async def stream(self, number: int, start_ns: int, until_ns: int | None) -> None:
        """One concurrent source: the schedule does not wait for answers, at most one request is under way."""
        load, totals, line = self.load, self.books.totals, None
        intended = start_ns + number * load.gap_ns // load.streams
        for seq in range(load.requests or sys.maxsize):
            if until_ns is not None and intended >= until_ns:
                break
            ready = max(intended, self.bus.now())
            if not await self.sleep_until(intended):
                break
            totals["generated"] += 1
            line = await self.exchange(line, seq, number, intended, ready)
            intended += load.gap_ns
        if line is not None:
            line[1].close()

    async def sleep_until(self, at_ns: int) -> bool:
        """Whether the run still goes on then."""
        with contextlib.suppress(asyncio.TimeoutError):
            if (wait := at_ns - self.bus.now()) > 0:
                await asyncio.wait_for(self.stop.wait(), wait / NS)
        return not self.stop.is_set()

    async def exchange(self, line, seq: int, number: int, intended: int, ready: int):
        """One request and what became of it; gives the connection back if it can be used again."""
        books, totals = self.books, self.books.totals
        sent = self.bus.now()
        totals["attempts"] += 1
        books.record("lag", sent - ready)
        books.record("blocked", ready - intended)
        try:
            async with asyncio.timeout(self.load.timeout_ns / NS):
                line, code, reply_bytes = await self.post(line, self.reading(number, seq))
        except (OSError, EOFError, ValueError, TimeoutError):
            totals["unacknowledged"] += 1
            totals["lost"] += 1
            if line is not None:
                line[1].close()
            return None
        done = self.bus.now()
        totals["bytes_sent"] += self.load.payload_bytes
        totals["bytes_replied"] += reply_bytes
        if 200 <= code < 300:
            totals["success"] += 1
            books.record("response", done - intended)
            books.record("service", done - sent)
        elif code in (429, 503):
            totals.update(rejected=1, lost=1)
        else:
            totals["invalid" if 400 <= code < 500 else "failed"] += 1
        return line

    def reading(self, number: int, seq: int) -> bytes:
        """A reading of the announced size."""
        device = f"{self.bus.node}-{self.actor}-{number + 1}"
        empty = json.dumps({"device": device, "ts": round(time.time(), 3), "seq": seq, "data": ""})
        return (empty[:-2] + "x" * (self.load.payload_bytes - len(empty)) + empty[-2:]).encode()

    async def post(self, line, body: bytes):
        """A POST over HTTP/1.1 on a connection that is kept."""
        node, actor = self.load.to.split("/")
        address = self.addresses.get(f"lab.v1.{self.bus.run}.trf.{node}.{actor}", "")
        if not address:
            raise OSError(f"nobody said where {self.load.to} listens")
        if line is None:
            host, port = address.rsplit(":", 1)
            line = await asyncio.open_connection(host.strip("[]"), int(port))
        reader, writer = line
        fields = f"Host: {address}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        writer.write(f"POST / HTTP/1.1\r\n{fields}\r\n\r\n".encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = re.search(r"(?im)^content-length: *([0-9]+)", answer)
        reply = await reader.readexactly(int(length[1]) if length else 0)
        return line, int(answer.split(" ", 2)[1]), len(reply)

    async def report(self) -> None:
        """What was done in the second that ends now; kept until it is acknowledged."""
        cpu, used = self.cpu, time.process_time()
        usage, before = resource.getrusage(resource.RUSAGE_SELF), self.switches
        self.cpu, self.switches, memory = used, (usage.ru_nvcsw, usage.ru_nivcsw), usage.ru_maxrss * 1024
        host = {"node": self.bus.node, "second": self.second, "cpu_percent": (used - cpu) * 100, "memory_bytes": memory}
        host |= {"voluntary_switches": usage.ru_nvcsw - before[0], "involuntary_switches": usage.ru_nivcsw - before[1]}
        group = {"node": self.bus.node, "actor": self.actor, "kind": "sensor", "instances": 1, "second": self.second}
        group |= {"totals": dict(self.books.totals), "histograms": self.books.take_times()}
        if len(self.open) >= REPORTS_MAX:
            self.open.pop(min(self.open))
            self.dropped += 1
        report = {"node": self.bus.node, "second": self.second, "host": host, "groups": [group]}
        report["dropped"] = self.dropped
        self.open[self.second] = (time.monotonic(), report)
        self.second += 1
        await self.bus.say("tel", "logger", "report", "node-report", report)

    async def resend(self) -> None:
        """Reports that nobody has acknowledged, the oldest first."""
        now = time.monotonic()
        late = sorted(s for s, (sent, _) in self.open.items() if now - sent >= RESEND_S)[:32]
        for second in late:
            self.open[second] = (now, self.open[second][1])
            await self.bus.say("tel", "logger", "report", "node-report", self.open[second][1])

    async def beat(self) -> None:
        """That this node is there, and how far it is, each second once the run is known."""
        while True:
            ends = [(self.close.is_set(), "closing"), (self.stop.is_set(), "stopping"), (self.start.done(), "running")]
            stage = next((name for reached, name in ends if reached), "waiting")
            if self.bus.run is not None:
                body = {"node": self.bus.node, "stage": stage, "done": self.done}
                await self.bus.say("ctl", "host", "beat", "beat", body)
            await asyncio.sleep(BEAT_S)

    async def every_second(self, start_ns: int) -> None:
        while True:
            await asyncio.sleep(max(0, start_ns + (self.second + 1) * NS - self.bus.now()) / NS)
            await self.report()
            await self.resend()

    async def traffic(self, start: dict[str, Any]) -> None:
        """Everything between the start and the drain."""
        reports = asyncio.create_task(self.every_second(start["at"]))
        streams = [self.stream(n, start["at"], start["until"]) for n in range(self.load.streams)]
        await asyncio.gather(*streams)
        self.done = True
        if not self.stop.is_set():
            await self.bus.say("ctl", "host", "done", "node-done", {"node": self.bus.node})
        await self.stop.wait()
        reports.cancel()

    async def end(self) -> bool:
        """Drained, told to close, reported, ended; whether the other side has it all."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.close.is_set() and time.monotonic() < deadline:
            await self.bus.say("ctl", "host", "drained", "node-drained", {"node": self.bus.node})
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.close.wait(), REPEAT_S)
        if self.start.done():
            await self.report()
        while self.open and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
            await self.resend()
        told, end = False, self.bus.subject("ctl", "host", "end")
        while not told and not self.open and time.monotonic() < deadline:
            told = await self.bus.ask(end, "node-end", {"node": self.bus.node}) is not None
        return told


async def quiet(_: Exception) -> None:
    """The connection is made again by itself; what was lost meanwhile is asked for, or sent, again."""


async def main(args: argparse.Namespace) -> int:
    with open(args.file, "rb") as file:
        actors = tomllib.load(file)["nodes"][args.node]["actors"]
    actor, table = next((name, keys) for name, keys in actors.items() if keys["kind"] == "sensor")
    try:
        load = Load.of(table)
    except (KeyError, ValueError) as why:
        print(f"{args.file}: [nodes.{args.node}.actors.{actor}] does not fit: {why}", file=sys.stderr)
        return 2
    try:
        client = await nats.connect(args.nats, name=f"sensor {args.node}", no_echo=True, error_cb=quiet, **ATTEMPTS)
    except (NatsError, OSError) as why:
        print(f"no NATS server at {args.nats}: {why}", file=sys.stderr)
        return 1
    sensor = Sensor(Bus(client, args.run, args.node), actor, load)
    pattern = f"lab.v1.{args.run or '*'}.ctl.>"
    await client.subscribe(pattern, cb=sensor.hear, pending_msgs_limit=MESSAGES_MAX)
    alive = asyncio.create_task(sensor.beat())
    waits = [asyncio.ensure_future(sensor.start), asyncio.create_task(sensor.stop.wait())]
    await asyncio.wait(waits, timeout=args.patience, return_when=asyncio.FIRST_COMPLETED)
    if sensor.start.done():
        await sensor.traffic(sensor.start.result())
    told = sensor.stop.is_set() and await sensor.end()
    alive.cancel()
    await client.drain()
    totals, ignored = dict(sensor.books.totals), sensor.bus.ignored
    print(f"{args.node}: {totals}, {sensor.second} reports, {ignored} messages ignored", file=sys.stderr)
    return 0 if told else 1


if __name__ == "__main__":
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("file", help="the experiment")
    flags.add_argument("--nats", default="nats://127.0.0.1:4222", help="the NATS server")
    flags.add_argument("--run", help="the run's token in subjects; without it, the first run that is prepared")
    flags.add_argument("--node", default="sensor", help="the node instance to be")
    flags.add_argument("--patience", type=float, default=120.0, help="seconds to wait for the start")
    sys.exit(asyncio.run(main(flags.parse_args())))
