# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's Triton Inference Server from PyPI's nvidia-pytriton, started as its users start it."""
import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from pathlib import Path


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def is_live(port, path="/v2/health/live"):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


class Server:
    """Models are loaded when asked for."""

    def __init__(self, folder, repository):
        package = Path(importlib.util.find_spec("pytriton").origin).parent  # not imported: the server alone is wanted
        home, libraries = package / "tritonserver", package.parent / "nvidia_pytriton.libs"
        # The backend starts the stub that lies beside it, which must be this Python's.
        backend = folder / "backends" / "python"
        shutil.copytree(home / "backends" / "python", backend)
        version = "{}.{}".format(*sys.version_info)
        shutil.copy(home / "python_backend_stubs" / version / "triton_python_backend_stub", backend)
        self.http, self.grpc, metrics = free_ports(3)
        self.log = folder / "triton.log"
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                       "LD_LIBRARY_PATH": f"{libraries}:{sysconfig.get_config_var('LIBDIR')}", "PYTHONNOUSERSITE": "1"}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [home / "bin" / "tritonserver", f"--model-repository={repository}", f"--backend-directory={backend.parent}",
                 "--model-control-mode=explicit", f"--http-port={self.http}", f"--grpc-port={self.grpc}",
                 f"--metrics-port={metrics}", "--http-address=127.0.0.1", "--grpc-address=127.0.0.1", "--exit-timeout-secs=10"],
                env=environment, stdout=log, stderr=subprocess.STDOUT)
        while not is_live(self.http):
            assert self.process.poll() is None, self.log.read_text(errors="replace")
            time.sleep(0.1)

    def stop(self):
        """Its exit code."""
        self.process.terminate()
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()
