# SPDX-License-Identifier: Apache-2.0
"""What places given as data decide: gather and scatter, scans, selections, sorting."""
from . import FLOATS, Case, Value, below, const, distinct, index, of_class, shuffled, three, torch, true_in, weight, x

ROWS = ((100, 32, 50), (20_000, 64, 20_000), (400_000, 128, 200_000))


def picked(arrays, outputs):
    """What was looked up is read and written once, indices are read."""
    return 2 * sum(o.nbytes for o in outputs) + sum(a.nbytes for a in arrays[1:] if a.dtype.kind == "i")


@of_class("gather")
def gather():
    for size, (rows, width, picks) in three(*ROWS):
        yield Case("Gather", size, [x(rows, width), index(rows, picks)], lambda x, i: x[i], "rows", (*FLOATS, "i64"),
                   attributes={"axis": 0}, moved=picked)
        yield Case("Gather", size, [x(rows, width), index(width, width // 2, type="i32")], lambda x, i: x.index_select(1, i), "columns",
                   attributes={"axis": 1}, moved=picked)
        yield Case("GatherElements", size, [x(rows, width), index(rows, picks, width)], lambda x, i: x.gather(0, i),
                   attributes={"axis": 0}, moved=picked)
        yield Case("GatherND", size, [x(rows, width), index(width, picks, 2)], lambda x, i: x[i[:, 0], i[:, 1]], "elements", moved=picked)
        yield Case("GatherND", size, [x(rows, width), index(rows, picks, 1)], lambda x, i: x[i[:, 0]], "rows", moved=picked)
    for size, (rows, width, picks) in (("words", (50_257, 768, 512)), ("large words", (128_256, 1024, 8192))):
        yield Case("Gather", size.replace(" ", "_"), [x(rows, width), index(rows, 4, picks // 4)], lambda x, i: x[i], "embedding",
                   attributes={"axis": 0}, moved=picked)


REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def scattered(size, rows, width, count, reduction, types=FLOATS, at=None, variant=""):
    """Rows of updates into a table, that meet."""
    places = at or index(rows, count, 1)

    def call(x, i, u):
        if reduction == "none":
            return x.index_copy(0, i[:, 0], u)
        if reduction == "add":
            return x.index_add(0, i[:, 0], u)
        return x.index_reduce(0, i[:, 0], u, REDUCE[reduction])
    return Case("ScatterND", size, [x(rows, width), places, x(count, width)], call, variant or f"{reduction}_rows", types,
                attributes={"reduction": reduction}, opset=18, moved=lambda a, o: 2 * o[0].nbytes + a[1].nbytes + a[2].nbytes, tolerance=5e-3)


def scattered_elements(size, rows, width, count, reduction, types=FLOATS):
    places = x(count, width, kind=below(rows), type="i64") if reduction != "none" else x(count, width, kind=columns_distinct(rows), type="i64")

    def call(x, i, u):
        return x.scatter(0, i, u) if reduction == "none" else x.scatter_reduce(0, i, u, REDUCE[reduction])
    return Case("ScatterElements", size, [x(rows, width), places, x(count, width)], call, reduction, types, opset=18,
                attributes={"reduction": reduction, "axis": 0}, moved=lambda a, o: 2 * o[0].nbytes + a[1].nbytes + a[2].nbytes, tolerance=5e-3)


def columns_distinct(rows):
    def made(shape, dtype, seed):
        return distinct(rows)((shape[0], 1), dtype, seed).repeat(shape[1], 1)
    return made


@of_class("scatter")
def scatter():
    for size, (rows, width, count) in three((64, 32, 128), (2_000, 64, 20_000), (20_000, 256, 200_000)):
        for reduction in ("add", "max", "min", "mul"):
            yield scattered(size, rows, width, count, reduction, ("f32",) if reduction == "mul" else FLOATS)
        yield scattered(size, count, width, rows, "none", (*FLOATS, "i64"), index(count, rows, 1, kind=distinct))
        yield scattered_elements(size, rows, width, count, "add")
        yield scattered_elements(size, rows, width, count, "max", ("f32",))
        yield scattered_elements(size, count, width, rows, "none")
        yield Case("Scatter", size, [x(count, width), x(rows, width, kind=columns_distinct(count), type="i64"), x(rows, width)],
                   lambda x, i, u: x.scatter(0, i, u), opset=9)
    for size, (rows, width, count) in three((64, 32, 128), (2_000, 64, 20_000), (20_000, 256, 200_000)):
        yield scattered(size, rows, width, count, "add", at=Value((count, 1), "i64", below(rows), True), variant="add_known_rows")
    yield scattered("narrow", 10_000, 128, 100_000, "add")
    # PyTorch rounds each partial sum of 16 bits.
    yield scattered("long", 8, 128, 800_000, "add", ("f32",))
    yield scattered("narrow", 10_000, 64, 100_000, "max")
    for size, (bins, count) in three((16, 4096), (256, 200_000), (4096, 16_000_000)):
        yield histogram(size, bins, count)
    yield histogram("million", 1000, 1_000_000)
    for size, (batch, heads, steps, width) in three((1, 4, 64, 16), (4, 8, 512, 64), (8, 32, 2048, 64)):
        yield Case("TensorScatter", size, [x(batch, heads, steps, width), x(batch, heads, 1, width), index(steps, batch)],
                   lambda x, u, i: x.scatter(2, i[:, None, None, None].expand(u.shape), u), opset=24)


def histogram(size, bins, count):
    def call(x, i, u):
        return x.scatter_add(0, i, u)
    return Case("ScatterElements", size, [x(bins), index(bins, count), x(count)], call, "histogram", ("f32", "f16", "i64"), opset=18,
                attributes={"reduction": "add", "axis": 0}, tolerance=5e-2)


@of_class("scans")
def scans():
    for size, (rows, columns) in three((32, 64), (512, 1024), (4096, 8192)):
        yield Case("CumSum", size, [x(rows, columns), const(1)], lambda x, _: x.cumsum(1), "rows", (*FLOATS, "i64"), tolerance=2e-2)
        yield Case("CumSum", size, [x(rows, columns), const(0)], lambda x, _: x.cumsum(0), "columns", tolerance=2e-2)
        yield Case("CumProd", size, [x(rows, columns, kind=near_one), const(1)], lambda x, _: x.cumprod(1), types=("f32",), opset=26,
                   tolerance=1e-2)
    for size, count in three(2048, 1 << 18, 1 << 25):
        yield Case("CumSum", size, [x(count), const(0)], lambda x, _: x.cumsum(0), "one_row", ("f32", "i32"), tolerance=2e-2)
    yield Case("CumSum", "4M", [x(1, 1 << 22), const(1)], lambda x, _: x.cumsum(1), "one_row", tolerance=0.2)


def near_one(shape, dtype, seed):
    from . import between
    return between(0.999, 1.001)(shape, dtype, seed)


@of_class("selections")
def selections():
    for size, side in three(64, 1024, 4096):
        yield Case("NonZero", size, [x(side, side, kind=sparse, type="f32")], lambda x: x.nonzero().t(), types=("f32",))
        yield Case("NonZero", size, [x(side, side, kind=true_in(0.3), type="bool")], lambda x: x.nonzero().t(), "bools", types=("bool",))
    yield Case("NonZero", "2048", [x(2048, 2048, kind=sparse)], lambda x: x.nonzero().t())
    for size, (rows, width) in three((256, 8), (100_000, 8), (4_000_000, 8)):
        yield Case("Compress", size, [x(rows, width), x(rows, kind=true_in(0.3), type="bool")], lambda x, c: x[c], "rows",
                   attributes={"axis": 0})
    yield Case("Compress", "million", [x(1_000_000, 8), x(1_000_000, kind=true_in(0.3), type="bool")], lambda x, c: x[c], "rows",
               attributes={"axis": 0})
    for size, count in three(1000, 500_000, 16_000_000):
        yield Case("Unique", size, [x(count, kind=below(max(16, count // 10)))], lambda x: torch.unique(x), types=("i64",), outputs=1)


def sparse(shape, dtype, seed):
    from . import normal
    return (normal(shape, dtype, seed) * true_in(0.3)(shape, bool, seed + 1)).astype(dtype)


@of_class("sorting")
def sorting():
    for size, (rows, columns) in three((16, 128), (256, 4096), (8192, 4096)):
        yield Case("TopK", size, [x(rows, columns, kind=shuffled), const([columns])], lambda x, _: x.sort(1, descending=True), "sort",
                   ("f32", "i32"), outputs=2, attributes={"axis": 1})
        yield Case("TopK", size, [x(rows, columns), const([8])], lambda x, _: x.topk(8, 1), "k8", outputs=2, attributes={"axis": 1}, compared=0)
    for size, columns in three(2048, 100_000, 16_000_000):
        yield Case("TopK", size, [x(1, columns, kind=shuffled), const([100])], lambda x, _: x.topk(100, 1), "k100", ("f32",), outputs=2,
                   attributes={"axis": 1})
    yield Case("TopK", "million", [x(1, 1_000_000, kind=shuffled), const([100])], lambda x, _: x.topk(100, 1), "k100", ("f32",), outputs=2,
               attributes={"axis": 1})
    yield Case("TopK", "logits", [x(64, 128_256), const([50])], lambda x, _: x.topk(50, 1), "k50", outputs=2, attributes={"axis": 1}, compared=0)
