"""Makes the bundles that a notebook reads, in under a minute: `python make.py pl5g`, `compare`,
`anatomy`, `sweep`, `replay`, `users` or `protocols`.

They lie in results/notebooks/<name> below the project's folder, and replace those of an earlier call. Another place is
the second argument.
"""

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import wire
from bundle import ROOT, program

NINE = [f"{scenario}{number}" for scenario in "abc" for number in (1, 2, 3)]
# a share of the paper's requests that takes about thirteen seconds here
EMULATED = {"a1": "0.013", "b1": "0.009", "c1": "0.014"}
# bytes of frames at top speed, of the paper's 64 to 1460; streams that are held; packets with times, the paper's own
SIZES = (64, 256, 512, 1024, 1460)
STREAMS = 200_000
TIMED = (1_000, 5_000, 10_000, 50_000, 100_000, 150_000)
TIMED_GAP_US = 20
ALGORITHM_1_MAX = 50_000  # packets; its sleeps take several times as long


def pl5g(out):
    """Dry runs of all nine, and of each scenario the first for real with a process for each node."""
    for name in NINE:
        run("simulate", out, f"pl5g/{name}", f"{name}-simulated", "--scale", "0.01", "--repetitions", "1")
    for name, scale in EMULATED.items():
        more = ["--placement", "processes", "--scale", scale, "--repetitions", "1"]
        run("emulate", out, f"pl5g/{name}", f"{name}-emulated", *more)


def compare(out):
    """The same experiment on both engines, three repetitions of five measured seconds."""
    for engine in ("simulate", "emulate"):
        run(engine, out, "uav-control", engine, "--duration", "6s", "--repetitions", "3")


def anatomy(out):
    """Four cameras at a receiver that keeps up, and at one with too few workers."""
    enough = ["--duration", "9s", "--set", "experiment.warmup=1s"]
    few = ["--set", "nodes.receiver.actors.main.workers=2", "--set", "nodes.camera.actors.main.in_flight=1"]
    run("emulate", out, "uav-control", "enough", *enough)
    run("emulate", out, "uav-control", "few", *enough, *few)


def sweep(out):
    """The shipped sweep on all cores, and a search for the same edge at one of its delays."""
    out.mkdir(parents=True)
    call("sweep", str(ROOT / "configs/sweeps/drones.toml"), "--out", str(out / "drones"), "--quiet")
    workers = ["--set", "nodes.receiver.actors.main.workers=8", "--duration", "5s"]
    search = ["--find", "nodes.camera.count", "--while", "response.p99<100ms", "--format", "json"]
    found = call("plan", str(ROOT / "configs/uav-control.toml"), *workers, *search)
    (out / "found.json").write_text(found)


def replay(out):
    """Captures over a veth pair of its own: top speed, streams that are held, and times, beside tcpreplay where it is installed."""
    out.mkdir(parents=True)
    missing, peer = wire.missing(), wire.peer()
    about = {"missing": missing, "tcpreplay": peer, "streams": STREAMS, "timed": TIMED, "gap_us": TIMED_GAP_US}
    (out / "about.json").write_text(json.dumps(about))
    if missing:
        print(f"note: without {' and '.join(missing)} nothing is sent but payloads of UDP over the loopback")
        return payloads(out)
    if peer is None:
        print("note: tcpreplay is missing (apt-get install tcpreplay): only our own curves")
    with wire.Wire() as pair:
        top_speed(out, pair, peer)
        held(out, pair, peer)
        timed(out, pair, peer)


def top_speed(out, pair, peer):
    """Frames of several lengths, as fast as they go."""
    for size in SIZES:
        file = wire.capture(out / f"top-{size}.pcap", size, 1_000, 0)
        for path in ("xdp-live", "af-xdp", "packet"):
            pair.ours(out / "top" / f"{path}-{size}", file, "--path", path, "--top-speed", "--duration", "300ms")
        if peer:
            pair.tcpreplay(out / "top" / f"tcpreplay-{size}", file, ["--top-speed", "--loops", "250"], "-t", "--loop", "250")


def held(out, pair, peer):
    """New streams at top speed, until as many are open as wanted; these come again."""
    file = wire.capture(out / "streams.pcap", 64, wire.FLOWS, 0)
    hold = ["--top-speed", "--hold", str(STREAMS), "--edit", "random_hosts=10.0.0.0/8"]
    pair.ours(out / "streams" / "rehearsal", file, "--path", "af-xdp", *hold, "--duration", "3s")
    if peer:
        # tcpreplay makes no streams: it gets all of them as a capture
        call("replay", str(file), "--path", "pcap", "--write", str(out / "streams-all.pcap"), "--quiet", *hold)
        listen = ["--top-speed", "--loops", wire.ENDLESS, "--receive-as", "streams"]
        pair.tcpreplay(out / "streams" / "tcpreplay", out / "streams-all.pcap", listen, "-t", "--loop", "0", "--duration", "3")
        (out / "streams-all.pcap").unlink()


def timed(out, pair, peer):
    """A capture's own times: by this program, by it with Algorithm 1 of the paper, and by tcpreplay."""
    for count in TIMED:
        file = wire.capture(out / f"timed-{count}.pcap", 64, count, TIMED_GAP_US)
        pair.ours(out / "timed" / f"rehearsal-{count}", file, "--path", "packet")
        if count <= ALGORITHM_1_MAX:
            pair.ours(out / "timed" / f"algorithm1-{count}", file, "--path", "packet", "--pacing", "dtrf")
        if peer:
            pair.tcpreplay(out / "timed" / f"tcpreplay-{count}", file, [])


def payloads(out):
    """What goes without root: payloads to a socket that nobody reads, judged by the sender alone."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
        ear.bind(("127.0.0.1", 0))
        to = "127.0.0.1:%d" % ear.getsockname()[1]
        for count in TIMED:
            file = wire.capture(out / f"timed-{count}.pcap", 64, count, TIMED_GAP_US)
            wire.rehearsal([], "replay", str(file), "--path", "udp", "--to", to, "--quiet", "--out", str(out / "timed" / f"rehearsal-{count}"))


# figure 14: a sweep for each panel
PANELS = {"a": "gensyn-figure-14-cbr", "b": "gensyn-figure-14-mpeg", "c": "gensyn-figure-14"}
ACTOR = "nodes.phones.actors.main"
# the link of panel (c), held back by senders themselves
NARROW = ["--set", "links.default.rate=1130kbit/s", "--set", "links.default.queue=20kB", "--set", "links.default.impose=userspace"]


def users(out):
    """GenSyn's figure 14 as dry runs, small packets, lazy users, and a few points for real."""
    out.mkdir(parents=True)
    for panel, name in PANELS.items():
        call("sweep", str(ROOT / f"configs/sweeps/{name}.toml"), "--out", str(out / f"panel-{panel}"), "--quiet")
    small = [f"{ACTOR}.diagram.modules.voice.bytes=10B", f"{ACTOR}.diagram.modules.voice.every=10ms"]
    more = [word for value in small for word in ("--set", value)]
    call("sweep", str(ROOT / "configs/sweeps/gensyn-figure-14.toml"), "--out", str(out / "small"), "--quiet", *more)
    model = ["--set", f"{ACTOR}.model=models/gensyn-cbr.toml", "--set", f"{ACTOR}.users=2000", "--duration", "120s"]
    for name, minutes in [("busy", 3), ("lazy", 30)]:
        stay = [f"{ACTOR}.diagram.states.pause.stay.mean={minutes}min", f"{ACTOR}.diagram.modules.stream.lasts.mean={minutes}min"]
        run("simulate", out, "gensyn-voip", name, *model, *[word for value in stay for word in ("--set", value)])
    for many in (2000, 6000, 16000):
        point = ["--set", f"{ACTOR}.users={many}", "--duration", "4s", *NARROW]
        run("simulate", out, "gensyn-voip", f"dry-{many}", *point)
        run("emulate", out, "gensyn-voip", f"real-{many}", *point)


# ways to send the same requests: carrier, handshake of TLS, connection
WAYS = {
    "http1": ("http1", None, "keep-alive"),
    "http1-tls": ("http1", "full", "keep-alive"),
    "http1-tls-full": ("http1", "full", "per-request"),
    "http1-tls-resumed": ("http1", "resumed", "per-request"),
    "http2-tls": ("http2", "full", "keep-alive"),
    "http3": ("http3", "full", "keep-alive"),
    "http3-full": ("http3", "full", "per-request"),
    "http3-resumed": ("http3", "resumed", "per-request"),
}


def protocols(out):
    """A second of each way to send; the figures that the notebook explains come from `cargo xtask bench protocols`."""
    for name, (carrier, handshake, connection) in WAYS.items():
        sets = [f"links.default.carrier={carrier}", f"links.default.connection={connection}"]
        sets += [] if handshake is None else [f"links.default.tls.handshake={handshake}"]
        run("emulate", out, "protocols", name, "--duration", "1s", *[word for value in sets for word in ("--set", value)])


def call(*args):
    """One call of the program that must succeed; gives what it prints."""
    done = subprocess.run([program(), *args], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(args)}\n{done.stdout}{done.stderr}")
    return done.stdout


def run(engine, out, experiment, name, *more):
    """One call of the program; a verdict or a threshold that fails is a result too."""
    file = ROOT / "configs" / f"{experiment}.toml"
    command = [program(), engine, str(file), "--out", str(out / name), "--quiet", *more]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 10, 20):
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def main(name, out=None):
    makers = {"pl5g": pl5g, "compare": compare, "anatomy": anatomy, "sweep": sweep, "replay": replay, "users": users, "protocols": protocols}
    if name not in makers:
        sys.exit(f"{name} is none of {', '.join(makers)}")
    out = Path(out) if out else ROOT / "results" / "notebooks" / name
    shutil.rmtree(out, ignore_errors=True)
    makers[name](out)
    print(out)


if __name__ == "__main__":
    main(*sys.argv[1:3]) if len(sys.argv) > 1 else sys.exit(__doc__)
