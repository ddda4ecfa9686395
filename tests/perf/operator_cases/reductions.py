# SPDX-License-Identifier: Apache-2.0
"""Many elements in, one out: over rows, over columns, over a middle axis, over all."""
from . import FLOATS, Case, F, between, const, of_class, shuffled, three, torch, x

POSITIVE = between(0.9, 1.1)
ROWS = ((32, 64), (512, 1024), (4096, 8192))
# operator: its function of (x, axes), the range, the types
REDUCTIONS = {
    "ReduceSum": (lambda x, a: x.sum(a), None, (*FLOATS, "i32", "f64")), "ReduceMean": (lambda x, a: x.mean(a), None, FLOATS),
    "ReduceMax": (lambda x, a: x.amax(a), None, (*FLOATS, "i32")), "ReduceMin": (lambda x, a: x.amin(a), None, FLOATS),
    "ReduceProd": (lambda x, a: x.prod(a[0]), POSITIVE, ("f32",)), "ReduceL1": (lambda x, a: x.abs().sum(a), None, FLOATS),
    "ReduceL2": (lambda x, a: torch.linalg.vector_norm(x, 2, a), None, FLOATS),
    "ReduceSumSquare": (lambda x, a: x.square().sum(a), None, FLOATS),
    "ReduceLogSum": (lambda x, a: x.sum(a).log(), POSITIVE, FLOATS), "ReduceLogSumExp": (lambda x, a: x.logsumexp(a), None, FLOATS),
}


def reduced(name, size, shape, axes, variant, types=None):
    function, kind, own = REDUCTIONS[name]
    return Case(name, size, [x(*shape, **({"kind": kind} if kind else {})), const(axes)], lambda x, _: function(x, axes), variant,
                types or own, attributes={"keepdims": 0}, tolerance=1e-2 if name == "ReduceProd" else 0)


@of_class("reductions")
def by_axes():
    for name in REDUCTIONS:
        for size, shape in three(*ROWS):
            yield reduced(name, size, shape, [1], "rows")
    for name in ("ReduceSum", "ReduceMean", "ReduceMax"):
        for size, shape in three(*ROWS):
            yield reduced(name, size, shape, [0], "columns", FLOATS)
        for size, shape in three((2, 32, 32), (8, 256, 256), (16, 1024, 2048)):
            yield reduced(name, size, shape, [1], "middle", FLOATS)
        for size, shape in three((4096,), (1 << 20,), (1 << 25,)):
            yield reduced(name, size, shape, [0], "all", FLOATS)
    for size, shape in three((1, 8, 7, 7), (8, 256, 28, 28), (64, 512, 32, 32)):
        yield Case("GlobalAveragePool", size, [x(*shape)], lambda x: x.mean((2, 3), keepdim=True))
        yield Case("GlobalMaxPool", size, [x(*shape)], lambda x: x.amax((2, 3), keepdim=True))
        yield Case("GlobalAveragePool", size, [x(shape[0], *shape[2:], shape[1])], lambda x: x.mean((2, 3), keepdim=True), "nhwc",
                   last=True)
        yield Case("GlobalLpPool", size, [x(*shape)], lambda x: torch.linalg.vector_norm(x, 2, (2, 3), keepdim=True))


@of_class("places")
def places():
    for name, function in (("ArgMax", lambda x, a: x.argmax(a)), ("ArgMin", lambda x, a: x.argmin(a))):
        for size, shape in three(*ROWS):
            yield Case(name, size, [x(*shape, kind=shuffled)], lambda x, f=function: f(x, 1), "rows", ("f32", "i32"),
                       attributes={"axis": 1, "keepdims": 0})
    for size, shape in (("vocabulary", (64, 32_000)), ("text", (1, 128_256))):
        yield Case("ArgMax", size, [x(*shape, kind=shuffled)], lambda x: x.argmax(1), attributes={"axis": 1, "keepdims": 0}, compared=0)
    for size, shape in three((1, 8, 16, 16), (1, 150, 128, 128), (4, 150, 256, 256)):
        yield Case("ArgMax", size, [x(*shape)], lambda x: x.argmax(1), "channels", attributes={"axis": 1, "keepdims": 0}, compared=0)
    for size, shape in three(*ROWS):
        yield Case("Hardmax", size, [x(*shape, kind=shuffled)], lambda x: F.one_hot(x.argmax(1), x.shape[1]).to(x.dtype), types=("f32",))
