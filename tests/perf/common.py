# SPDX-License-Identifier: Apache-2.0
"""What the benchmark scripts share: running the binary, provenance of a result file."""
import datetime
import json
import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "models"))
from runs import Failed, Sinter  # noqa: E402

CACHE = ROOT / "models" / "cache"
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def minilm_shapes(batch, seq):
    return "--shapes=" + ",".join(f"{name}:{batch}x{seq}" for name in INPUTS)


def sinter_json(binary, *words):
    """The JSON object that a verb prints."""
    try:
        return Sinter(binary, ".").json(*words)
    except Failed as error:
        raise SystemExit(str(error)) from None


def output_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def provenance(commit=None):
    """Where and when: commit, machine, GPU, driver and CUDA."""
    gpu = output_of("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").split("\n")[0]
    cpu = next((line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), platform.processor())
    return dict(date=datetime.date.today().isoformat(),
                commit=commit or output_of("git", "-C", str(ROOT), "rev-parse", "HEAD"),
                cpu=cpu, cores=os.cpu_count(), gpu=gpu.split(", ")[0] if gpu else None,
                driver=gpu.split(", ")[1] if gpu else None)


def write(path, result):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"wrote {path}")


@contextmanager
def beside(jobs):
    """A pool of threads whose programs have half of the cores, while this thread, whose calls are timed, has the
    others: a host that waits for a core lets the GPU run dry."""
    cores = sorted(os.sched_getaffinity(0))
    half = len(cores) // 2
    os.sched_setaffinity(0, cores[:half] or cores)
    try:
        with ThreadPoolExecutor(jobs, initializer=os.sched_setaffinity, initargs=(0, cores[half:])) as pool:
            yield pool
    finally:
        os.sched_setaffinity(0, cores)
