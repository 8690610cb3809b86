"""A wire for replays: two network namespaces with a veth pair between them, a capture to send, and who sends it.

Nothing but these namespaces sees what is sent, and they go with the `with` block that made them. It needs Linux, root and iproute2.
"""

import json
import os
import shutil
import struct
import subprocess
from pathlib import Path

from bundle import ROOT, program

NEAR, FAR = "va", "vb"
FLOWS = 64
RUN_MAX = 30  # seconds that one run may take; a sender that needs longer is ended, and what arrived counts
ENDLESS = "1000000000"  # loops that nobody sends: the far side ends when nothing comes any more


class Wire:
    """The pair. Sends through it, and judges what arrives; each result is a folder with a `replay.json`."""

    def __enter__(self):
        name = f"rhnote{os.getpid()}"
        self.near, self.far = f"{name}a", f"{name}b"
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _make(self):
        for space in (self.near, self.far):
            ip("netns", "add", space)
            # neighbours that nobody asked for would be counted as packets
            ip("netns", "exec", space, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
        queues = ["numtxqueues", "2", "numrxqueues", "2"]
        near = ["link", "add", NEAR, *queues, "netns", self.near, "type", "veth"]
        ip(*near, "peer", "name", FAR, *queues, "netns", self.far)
        for space, link in ((self.near, NEAR), (self.far, FAR)):
            ip("-n", space, "link", "set", link, "up")

    def __exit__(self, *_):
        for space in (self.near, self.far):
            subprocess.run(["ip", "netns", "delete", space], capture_output=True)

    def ours(self, out, file, *more):
        """Replays a capture with this program."""
        ends = ["--interface", NEAR, "--receive", FAR, "--receive-in", self.far]
        rehearsal(self._near(), "replay", str(file), *ends, "--out", str(out), "--quiet", *more)

    def tcpreplay(self, out, file, listen, *more):
        """Replays a capture with tcpreplay; `listen` is what the far side is told."""
        far = [program(), "replay", str(file), "--path", "others", "--receive", FAR, "--receive-in", self.far]
        far = subprocess.Popen([*self._near(), *far, "--out", str(out), *listen], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        try:
            said = []
            while not any("listening" in line for line in said):
                said.append(far.stderr.readline())
                assert said[-1], f"the far side does not listen\n{''.join(said)}"
            try:
                command = [*self._near(), "tcpreplay", "-i", NEAR, "-K", *more, str(file)]
                subprocess.run(command, check=True, capture_output=True, timeout=RUN_MAX)
            except subprocess.TimeoutExpired:
                print(f"note: tcpreplay was ended after {RUN_MAX} s: {out.name}")
            _, said = far.communicate(timeout=RUN_MAX)
            assert far.returncode in (0, 20), said
        finally:
            far.kill()

    def _near(self):
        return ["ip", "netns", "exec", self.near]


def missing():
    """What there is not for a wire."""
    lacks = [] if os.geteuid() == 0 else ["root"]
    if shutil.which("ip") is None:
        lacks.append("iproute2")
    if not lacks:
        try:
            with Wire():
                pass
        except subprocess.CalledProcessError as why:
            lacks.append(f"the right to make network namespaces and veth pairs ({why.stderr.strip()})")
    return lacks


def peer():
    """The version of tcpreplay, or `None` without."""
    if shutil.which("tcpreplay") is None:
        return None
    said = subprocess.run(["tcpreplay", "--version"], capture_output=True, text=True)
    lines = (said.stdout + said.stderr).splitlines()
    return next((line.split(":", 1)[1].split("(")[0].strip() for line in lines if "version:" in line), "unknown")


def capture(path, length, count, gap_us):
    """Writes `count` datagrams of UDP in 64 flows, `length` bytes long as frames and `gap_us` apart."""
    total = length - 14
    ethernet = bytes.fromhex("02000000000b 02000000000a 0800")
    network = struct.pack("!BBHIBBH", 0x45, 0, total, 0, 64, 17, 0) + bytes([10, 77, 0, 1, 10, 77, 0, 2])
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1))
        for number in range(count):
            at = number * gap_us
            udp = struct.pack("!HHHHI", 10_000 + number % FLOWS, 9_000, total - 20, 0, number)
            frame = (ethernet + network + udp).ljust(length, b"Z")
            file.write(struct.pack("<IIII", 1_700_000_000 + at // 1_000_000, at % 1_000_000, length, length) + frame)
    return path


def rehearsal(before, *args):
    """One call of the program, behind other words; a verdict that says no is a result too."""
    done = subprocess.run([*before, program(), *args], capture_output=True, text=True)
    assert done.returncode in (0, 20), f"{' '.join(args)}\n{done.stdout}{done.stderr}"


def ip(*args):
    subprocess.run(["ip", *args], check=True, capture_output=True, text=True)


def records(folder):
    """All results below a folder: what each says, by its path."""
    found = sorted(Path(folder).glob("**/replay.json"))
    return {str(path.parent.relative_to(folder)): json.loads(path.read_text()) for path in found}


def bench(part):
    """Figures that `cargo xtask bench replay --parts PART` left on this machine, by their names; none before that."""
    file = ROOT / "target" / "bench" / f"replay-{part}.json"
    results = json.loads(file.read_text())["results"] if file.exists() else {}
    return {key: result["figures"] for key, result in results.items() if isinstance(result, dict) and "figures" in result}
