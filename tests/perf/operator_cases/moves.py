# SPDX-License-Identifier: Apache-2.0
"""Elements go elsewhere as they are: transposes, concatenation, slices, padding, tiles."""
from . import FLOATS, Case, F, Value, const, index, normal, of_class, three, torch, x

ANY = ("f32", "f16", "i64", "u8")
SHAPES = ((32, 64), (512, 1024), (4096, 8192))
IMAGES = ((1, 8, 16, 16), (8, 64, 56, 56), (32, 64, 128, 128))

# name: permutation and the three shapes
TRANSPOSES = {
    "matrix": ([1, 0], SHAPES), "last two": ([0, 2, 1], ((4, 32, 32), (16, 256, 256), (32, 1024, 1024))),
    "heads": ([0, 2, 1, 3], ((1, 16, 4, 32), (4, 128, 12, 64), (32, 512, 32, 64))),
    "keys": ([0, 2, 3, 1], ((1, 16, 4, 32), (4, 128, 12, 64), (32, 512, 32, 64))),
    "to nhwc": ([0, 2, 3, 1], IMAGES), "to nchw": ([0, 3, 1, 2], tuple((n, h, w, c) for n, c, h, w in IMAGES)),
    "to nhwc of 3": ([0, 2, 3, 1], ((1, 3, 16, 16), (8, 3, 224, 224), (16, 3, 1024, 1024))),
    "to nchw of 3": ([0, 3, 1, 2], ((1, 16, 16, 3), (8, 224, 224, 3), (16, 1024, 1024, 3))),
    "windows": ([0, 1, 3, 2, 4, 5], ((1, 2, 7, 2, 7, 8), (8, 8, 7, 8, 7, 96), (32, 8, 7, 8, 7, 384))),
    "outer": ([1, 0, 2], ((8, 8, 32), (128, 64, 64), (512, 512, 128))),
}


@of_class("transposes")
def transposes():
    for name, (order, shapes) in TRANSPOSES.items():
        for size, shape in three(*shapes):
            yield Case("Transpose", size, [x(*shape)], lambda x, order=order: x.permute(order).contiguous(), name.replace(" ", "_"),
                       ANY if name == "matrix" else FLOATS, attributes={"perm": order})
    for size, (n, c, h, w) in three((1, 16, 8, 8), (8, 64, 56, 56), (32, 64, 128, 128)):
        for mode, function in (("DCR", depth_to_space), ("CRD", lambda x: F.pixel_shuffle(x, 2))):
            yield Case("DepthToSpace", size, [x(n, c, h, w)], function, mode, attributes={"blocksize": 2, "mode": mode})
        yield Case("SpaceToDepth", size, [x(n, c, h, w)], space_to_depth, attributes={"blocksize": 2})


def depth_to_space(x):
    n, c, h, w = x.shape
    return x.view(n, 2, 2, c // 4, h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, c // 4, 2 * h, 2 * w)


def space_to_depth(x):
    n, c, h, w = x.shape
    return x.view(n, c, h // 2, 2, w // 2, 2).permute(0, 3, 5, 1, 2, 4).reshape(n, 4 * c, h // 2, w // 2)


@of_class("moves")
def joined():
    for size, (rows, columns) in three(*SHAPES):
        yield Case("Concat", size, [x(rows, columns // 2), x(rows, columns // 2)], lambda *t: torch.cat(t, 1), "columns", ANY,
                   attributes={"axis": 1})
        yield Case("Concat", size, [x(rows, columns // 4) for _ in range(4)], lambda *t: torch.cat(t, 0), "rows", attributes={"axis": 0})
        yield Case("Split", size, [x(rows, columns), const([columns // 2] * 2)],
                   lambda x, _: [t.contiguous() for t in x.chunk(2, 1)], outputs=2, attributes={"axis": 1})
        yield Case("Slice", size, [x(rows, columns), const([8]), const([columns - 8]), const([1])],
                   lambda x, *_: x[:, 8:-8].contiguous(), "columns", ANY, moved=twice_output)
        yield Case("Slice", size, [x(rows, columns), const([0]), const([columns]), const([1]), const([2])],
                   lambda x, *_: x[:, ::2].contiguous(), "every_second", moved=twice_output)
        yield Case("Slice", size, [x(rows, columns), const([-1]), const([-columns - 1]), const([1]), const([-1])],
                   lambda x, *_: x.flip(1), "backward", moved=twice_output)
        yield Case("Expand", size, [x(rows, 1), const([rows, columns])], lambda x, _, n=columns: x.expand(-1, n).contiguous(),
                   "column", ANY)
        yield Case("Tile", size, [x(rows, columns // 4), const([1, 4])], lambda x, _: x.repeat(1, 4), types=ANY)
        yield Case("Trilu", size, [x(1, columns, rows)], torch.tril, attributes={"upper": 0})
        yield Case("CenterCropPad", size, [x(rows, columns), const([rows - 4, columns - 8])],
                   lambda x, _: x[2:-2, 4:-4].contiguous(), moved=twice_output)
    for size, rows in three(128, 10_000, 500_000):
        yield Case("Concat", size, [x(rows, 33), x(rows, 31)], lambda *t: torch.cat(t, 1), "33_and_31", attributes={"axis": 1})
    for size, (n, c, h, w) in three(*IMAGES):
        yield Case("Concat", size, [x(n, c, h, w), x(n, c, h, w)], lambda *t: torch.cat(t, 1), "channels", attributes={"axis": 1})
        pads = [0, 0, 3, 3, 0, 0, 3, 3]
        for mode in ("constant", "reflect", "edge", "wrap"):
            theirs = {"edge": "replicate", "wrap": "circular"}.get(mode, mode)
            yield Case("Pad", size, [x(n, c, h, w), const(pads)], lambda x, _, m=theirs: F.pad(x, (3, 3, 3, 3), m), mode,
                       attributes={"mode": mode})
        yield Case("Crop", size, [x(n, c, h, w)], lambda x: x[:, :, 2:-2, 2:-2].contiguous(), opset=8, attributes={"border": [2, 2, 2, 2]},
                   moved=twice_output)


def twice_output(arrays, outputs):
    return 2 * sum(o.nbytes for o in outputs)


@of_class("moves")
def sequences():
    for size, (steps, batch, width) in three((16, 4, 32), (128, 32, 128), (512, 128, 512)):
        lengths = Value((batch,), "i64", lambda s, d, seed, n=steps: 1 + normal(s, d, seed) % n)
        yield Case("ReverseSequence", size, [x(steps, batch, width), lengths], None, attributes={"time_axis": 0, "batch_axis": 1},
                   no_peer="PyTorch has no such function")
        yield Case("OneHot", size, [index(width, steps * batch), const(width), const([0, 1], "T")],
                   lambda i, _, v, n=width: F.one_hot(i, n).to(v.dtype), attributes={"axis": -1})
