# SPDX-License-Identifier: Apache-2.0
"""Plans in this process, through the C ABI: for thousands of them a process each would take longer than what is timed."""
import ctypes
import re
import shutil
import subprocess
from ctypes import POINTER, Structure, byref, c_char_p, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path

import ml_dtypes
import numpy as np

DTYPES = [np.dtype(each) for each in (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", ml_dtypes.bfloat16, "float32", "float64",
    ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz)]
LEGACY_STREAM = 1
OF_THE_SYSTEM = ("linux-vdso", "ld-linux", "libc.", "libm.", "libdl.", "libpthread.", "librt.", "libstdc++", "libgcc_s")
OF_CUDA = ("libcu", "libnv")  # the GPU's machine has its own


class Tensor(Structure):
    _fields_ = [("struct_size", c_size_t), ("dtype", c_int32), ("rank", c_int32), ("shape", POINTER(c_int64)), ("data", c_void_p),
                ("bytes", c_size_t), ("memory", c_int32), ("device", c_int32)]


class SessionOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("device", c_int32), ("threads", c_int32), ("without_cuda_graphs", c_int32),
                ("output_memory", c_int32), ("graph_cache", c_uint64), ("tuning_cache", c_char_p), ("thorough_tuning", c_int32),
                ("allocator", c_void_p), ("max_iterations", c_uint64), ("weight_budget", c_uint64)]


class PoolOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("threads", c_int32), ("spin_microseconds", c_int32), ("cpus", c_void_p), ("cpu_count", c_size_t)]


def needed(binary):
    """The libraries beside the system's own that a program or library of this machine needs."""
    lines = subprocess.run(["ldd", binary], capture_output=True, text=True, check=True).stdout.splitlines()
    found = [line.split("=>")[1].split()[0] for line in lines if "=>" in line and "not found" not in line]
    return [Path(each) for each in found if not Path(each).name.startswith(OF_THE_SYSTEM)]


def late(binary):
    """The libraries that a program opens by name, and what they need; those that this machine lacks are left out."""
    table = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    paths = dict(re.findall(r"^\s*(\S+) \(.*=> (\S+)$", table, re.MULTILINE))
    names = {name.decode() for name in re.findall(rb"\0(lib\w+\.so\.\d+)\0", Path(binary).read_bytes())}
    opened = [Path(paths[name]) for name in names if name in paths and not name.startswith((*OF_THE_SYSTEM, *OF_CUDA))]
    return [each for path in opened for each in (path, *needed(path))]


def bundle(binary, library, folder):
    """Copies the command, the library and what they need, for a machine that has none of it. Later commands find it there."""
    lib = folder / "lib"
    lib.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(library).resolve(), lib / "libsinter.so")
    shutil.copy(binary, folder / "sinter")
    for each in {*needed(library), *needed(binary), *late(binary)}:
        shutil.copy(each.resolve(), lib / each.name)


class Library:
    def __init__(self, path):
        path = Path(path)
        waiting = [each for each in path.parent.iterdir() if ".so" in each.name and each != path] if path.parent.name == "lib" else []
        for _ in range(len(waiting)):  # each as soon as what it needs itself is there
            waiting = [each for each in waiting if not self.opened(each)]
        self.c = ctypes.CDLL(str(path))
        self.c.sinter_last_error.restype = c_char_p
        self.c.sinter_plan_input_count.restype = self.c.sinter_plan_output_count.restype = c_size_t

    @staticmethod
    def opened(path):
        try:
            return ctypes.CDLL(str(path))
        except OSError:
            return None

    def check(self, status):
        if status:
            raise RuntimeError(self.c.sinter_last_error().decode())

    def set_threads(self, threads):
        options = PoolOptions(ctypes.sizeof(PoolOptions), threads)
        self.check(self.c.sinter_set_thread_pool(byref(options)))


class Session:
    """A plan with inputs that lie where the caller has them."""

    def __init__(self, library, plan, threads=0, on_device=False):
        self.library, self.c, self.on_device, self.kept = library, library.c, on_device, []
        handle, self.session = c_void_p(), c_void_p()
        library.check(self.c.sinter_plan_load(str(plan).encode(), byref(handle)))
        options = SessionOptions(ctypes.sizeof(SessionOptions), 0, threads, 0, 1 if on_device else 0)
        try:
            library.check(self.c.sinter_session_create(handle, byref(options), byref(self.session)))
            self.outputs_count = self.c.sinter_plan_output_count(handle)
            self.plan = handle
        except RuntimeError:
            self.c.sinter_plan_free(handle)
            raise

    def close(self):
        self.c.sinter_session_free(self.session)
        self.c.sinter_plan_free(self.plan)

    def use(self, name, address, dtype, shape):
        """Memory that runs read where it lies; the caller keeps it."""
        place = c_size_t()
        self.library.check(self.c.sinter_plan_input_index(self.plan, name.encode(), byref(place)))
        sizes = (c_int64 * max(1, len(shape)))(*shape)
        tensor = Tensor(ctypes.sizeof(Tensor), DTYPES.index(np.dtype(dtype)), len(shape), sizes, address,
                        int(np.prod(shape)) * np.dtype(dtype).itemsize, int(self.on_device), -1)
        self.kept.append((sizes, tensor))
        self.library.check(self.c.sinter_session_use_input(self.session, place, byref(tensor)))

    def run(self):
        if status := self.c.sinter_session_run(self.session):
            self.library.check(status)

    def start(self, stream=LEGACY_STREAM):
        if status := self.c.sinter_session_run_async(self.session, c_void_p(stream)):
            self.library.check(status)

    def wait(self):
        self.library.check(self.c.sinter_session_await(self.session))

    def output(self, place):
        """(address, dtype, shape) of what the last run made."""
        tensor = Tensor(ctypes.sizeof(Tensor))
        self.library.check(self.c.sinter_session_output(self.session, c_size_t(place), byref(tensor)))
        return tensor.data, DTYPES[tensor.dtype], tuple(tensor.shape[k] for k in range(tensor.rank))

    def arrays(self):
        """All outputs of a plan for the CPU, copied."""
        made = []
        for place in range(self.outputs_count):
            address, dtype, shape = self.output(place)
            size = int(np.prod(shape)) * dtype.itemsize
            made.append(np.frombuffer(ctypes.string_at(address, size) if size else b"", dtype).reshape(shape))
        return made
