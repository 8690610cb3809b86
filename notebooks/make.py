"""Makes the bundles that a notebook reads, in under a minute: `python make.py pl5g`, `compare`,
`anatomy` or `sweep`.

They lie in results/notebooks/<name> below the project's folder, and replace those of an earlier call. Another place is
the second argument.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from bundle import ROOT, program

NINE = [f"{scenario}{number}" for scenario in "abc" for number in (1, 2, 3)]
# a share of the paper's requests that takes about thirteen seconds here
EMULATED = {"a1": "0.013", "b1": "0.009", "c1": "0.014"}


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
    makers = {"pl5g": pl5g, "compare": compare, "anatomy": anatomy, "sweep": sweep}
    if name not in makers:
        sys.exit(f"{name} is none of {', '.join(makers)}")
    out = Path(out) if out else ROOT / "results" / "notebooks" / name
    shutil.rmtree(out, ignore_errors=True)
    makers[name](out)
    print(out)


if __name__ == "__main__":
    main(*sys.argv[1:3]) if len(sys.argv) > 1 else sys.exit(__doc__)
