"""Running combinations and ranking. With numbers of its own: other cases stay as they are."""

import numpy as np

from golden_cases import COMPUTED, FLOATS, NAMES, case, wide


def scans(draw):
    ufuncs = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
    for combine, ufunc in ufuncs.items():
        for dtype in ("f32", "f16", "bf16", "f64", "i32", "i64", "u8", "u32"):
            for shape, axis in (((3, 7), 1), ((5, 2, 3), 0), ((2, 1, 2), 1), ((0, 4), 1)):
                for exclusive in (0, 1) if combine in ("sum", "prod") else (0,):
                    for reverse in (0, 1):
                        if dtype in FLOATS:
                            x = draw.standard_normal(shape).astype(NAMES[dtype])
                        else:
                            low = 0 if dtype.startswith("u") else -9
                            x = draw.integers(low, 10, shape).astype(NAMES[dtype])
                        y = np.flip(wide(x), axis) if reverse else wide(x)
                        if exclusive:
                            first = list(shape)
                            first[axis] = 1
                            start = np.full(first, combine == "prod", y.dtype)
                            rest = np.take(y, range(shape[axis] - 1), axis)
                            y = np.concatenate([start, rest], axis)
                        y = ufunc.accumulate(y, axis, dtype=y.dtype)
                        y = np.flip(y, axis) if reverse else y
                        attrs = {"axis": axis, "combine": combine, "exclusive": exclusive,
                                 "reverse": reverse}
                        onnx = [("CumSum", ["x0", "axis"], "y",
                                 {"exclusive": exclusive, "reverse": reverse})]
                        narrow = dtype in ("f16", "bf16", "u8")
                        case("Scan", [x], y, attrs,
                             None if combine != "sum" or narrow or x.size == 0 else onnx,
                             [("axis", np.array(axis, np.int64))])


def order(x, axis, descending):
    """Stable, NaN largest: NumPy's own order but for what descends."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    n = x.shape[axis]
    backwards = np.argsort(np.flip(x, axis), axis, kind="stable")
    return np.flip(n - 1 - backwards, axis)


def sorts(draw):
    for dtype in COMPUTED:
        if dtype == "bool":
            continue
        for shape, axis, count in (((3, 9), 1, 9), ((2, 12), 1, 4), ((6, 2, 2), 0, 2),
                                   ((3, 1), 1, 1), ((2, 5), 1, 0)):
            for descending in (0, 1):
                # Few different values: ties matter.
                low = 0 if dtype.startswith("u") else -3
                x = draw.integers(low, 4, shape).astype(NAMES[dtype])
                if dtype in FLOATS:
                    x = np.where(x == 0, -x * (draw.integers(0, 2, shape) * 2 - 1), x / 2)
                    x = x.astype(NAMES[dtype])
                y = np.take(order(wide(x), axis, descending), range(count), axis)
                onnx = [("TopK", ["x0", "k"], ["values", "y"],
                         {"axis": axis, "largest": descending})]
                case("ArgSort", [x], y, {"axis": axis, "count": [count], "descending": descending},
                     dtype="i64",
                     onnx_nodes=onnx if dtype in ("f32", "f64", "i64", "i32") and count > 0 else None,
                     constants=[("k", np.array([count], np.int64))])
    for dtype in FLOATS:
        x = np.array([[np.nan, 2, -np.inf, np.nan, np.inf, -0.0, 0.0, np.inf]], NAMES[dtype])
        for descending in (0, 1):
            case("ArgSort", [x], order(wide(x), 1, descending),
                 {"axis": 1, "count": [8], "descending": descending}, dtype="i64",
                 note="infinities, NaN, zeros")


def ordered():
    draw = np.random.default_rng(20261123)
    scans(draw)
    sorts(draw)
    suppressions(draw)
    sizes()
    token_counts()
    trees(np.random.default_rng(20261124))
    samplings(np.random.default_rng(20261128))
    selections(np.random.default_rng(20261130))


def kept_boxes(boxes, valid, iou):
    """One box after the other beside all that were kept, as the definition says."""
    boxes, kept = wide(boxes), np.zeros(valid.shape, bool)
    for row in np.ndindex(valid.shape[:-1]):
        for i in range(valid.shape[-1]):
            a = boxes[row][i]
            area = (a[2:] - a[:2]).prod()
            hit = False
            for j in np.flatnonzero(kept[row]):
                b = boxes[row][j]
                sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
                other = (b[2:] - b[:2]).prod()
                if (sides > 0).all() and area > 0 and other > 0:
                    both = sides.prod()
                    hit = hit or both / (area + other - both) > iou
            kept[row][i] = valid[row][i] and not hit
    return kept


def suppressions(draw):
    for shape in ((1, 1), (1, 40), (3, 17), (2, 2, 9), (2, 0)):
        low = draw.uniform(0, 20, (*shape, 2))
        boxes = np.concatenate([low, low + draw.uniform(-1, 12, (*shape, 2))], -1).astype(np.float32)
        valid = draw.random(shape) < .8
        for iou in (0.0, .3, .9):
            case("Suppress", [boxes, valid], kept_boxes(boxes, valid, iou), {"iou": iou},
                 dtype="bool")


def selections(draw):
    for shape in ((1, 1), (1, 50), (4, 16), (0, 8)):
        for share in (0.0, .3, 1.0):
            flags = draw.random(shape) < share
            counts = flags.sum(1)
            case("SelectIndices", [flags, np.cumsum(counts) - counts], np.flatnonzero(flags),
                 {"count": [int(flags.sum())]}, dtype="i64")


def mix(x):
    """SplitMix64's output for a state."""
    mask = (1 << 64) - 1
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & mask
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & mask
    return x ^ (x >> 31)


def drawn_token(values, reals, integers, allowed, seen, biased):
    """As ir/ops/sampling.cpp says, with a sort."""
    temperature, top_p, least, penalty = reals
    seed, top_k = int(integers[0]), int(integers[1])
    values = values.astype(np.float32)
    for token, bias in biased:
        values[token] += bias
    penalized = np.where(values > 0, values / np.float32(penalty), values * np.float32(penalty))
    values = np.where(seen, penalized, values).astype(np.float32)
    if np.isnan(values).any():
        return len(values)
    order = [i for i in np.argsort(-values, kind="stable") if allowed[i]]
    if not order or not 0 < temperature < np.inf:
        return order[0] if order else -1
    order = np.array(order)[:top_k if top_k > 0 else None]
    scores = (values[order].astype(np.float64) - np.float64(values[order[0]])) / temperature
    if top_p < 1:
        near = (values[order] - values[order[0]]) * np.float32(1 / temperature)
        near = np.where(values[order] == values[order[0]], np.float32(0), near)
        weights = np.floor(np.exp(near).astype(np.float64) * 2.0**40)
        before = np.concatenate([[0], np.cumsum(weights)[:-1]])
        scores = scores[before < max(1, np.ceil(top_p * weights.sum()))]
    numbers = [mix((seed + (int(i) + 1) * 0x9E3779B97F4A7C15) % 2**64) >> 12 for i in order[:len(scores)]]
    noise = -np.log(-np.log1p(-(np.array(numbers, np.float64) + 0.5) * 2.0**-52))
    sums = np.where(scores < least, -np.inf, scores + noise)
    return order[np.argmax(sums)]


def samplings(draw):
    for dtype in ("f32", "f16", "bf16"):
        for count in (1, 40, 200):
            rows, words = 12, (count + 31) // 32
            logits = (draw.standard_normal((rows, count)) * 3).astype(NAMES[dtype])
            logits[5:] = np.round(logits[5:])  # ties
            if count > 1:
                logits[3, 1], logits[4, 1] = np.nan, np.inf
            sets = draw.integers(-2**31, 2**31, (4, words)).astype(np.int32)
            bits = np.unpackbits(sets.view(np.uint8), axis=1, bitorder="little")[:, :count] == 1
            tokens = np.sort(draw.choice(count, min(count, 6), False)).astype(np.int32)
            biases = draw.standard_normal(len(tokens)).astype(np.float32) * 4
            reals = np.stack([draw.choice([0, .4, 1, 3], rows), draw.choice([.1, .6, .95, 1], rows),
                              np.log(draw.choice([.05, .3, 1e-300], rows)), draw.choice([1, 1.5, 2], rows)], 1)
            integers = np.stack([draw.integers(0, 2**62, rows), draw.choice([0, 1, 20, 90], rows),
                                 draw.integers(-1, 4, rows), draw.integers(-1, 4, rows),
                                 draw.integers(0, 3, rows), draw.integers(0, 4, rows)], 1)
            wanted = []
            for row in range(rows):
                _, _, allowed, seen, first, size = integers[row]
                own = list(zip(tokens, biases))[first:first + size]
                wanted.append(drawn_token(wide(logits[row]), reals[row], integers[row],
                                          bits[allowed] if allowed >= 0 else np.ones(count, bool),
                                          bits[seen] if seen >= 0 else np.zeros(count, bool), own))
            case("SampleTokens", [logits, reals, integers, sets, tokens, biases], np.array(wanted), dtype="i32")


def give(x, nodes, thresholds, trees, weights, targets, combine):
    """Row by row, tree by tree, as ir/ops/trees.cpp says; a target that no tree gives anything is zero."""
    y = np.zeros((len(x), targets))
    unite = {"sum": np.add, "min": np.minimum, "max": np.maximum}[combine]
    for row, own in zip(x, y):
        given = set()
        for root, target in trees:
            at = root
            while nodes[at][0] >= 0:
                column, first, missing = nodes[at]
                value = row[column]
                at = first + (not (value <= thresholds[at] or (np.isnan(value) and missing)))
            for w, weight in enumerate(weights[nodes[at][1]]):
                to = target + w
                own[to] = unite(own[to], np.float64(weight)) if to in given else weight
                given.add(to)
    return y


def trees(draw):
    for targets, width, combine in ((1, 1, "sum"), (4, 1, "sum"), (3, 3, "sum"), (3, 2, "min"), (2, 1, "max")):
        for dtype in ("f32", "f64"):
            nodes, thresholds, starts, leaves = [], [], [], 0
            for _ in range(5):
                root, depths = len(nodes), [0]
                starts.append([root, draw.integers(0, targets - width + 1)])
                for depth in depths:  # grows
                    if depth == 3 or (depth and draw.integers(0, 4) == 0):
                        nodes.append([-1, leaves, 0])
                        leaves += 1
                    else:
                        nodes.append([draw.integers(0, 3), root + len(depths), draw.integers(0, 2)])
                        depths.extend([depth + 1] * 2)
                    thresholds.append(draw.integers(-3, 4) / 2)
            x = draw.integers(-4, 5, (7, 3)) / 2
            x[draw.integers(0, 5, x.shape) == 0] = np.nan
            x, thresholds = x.astype(NAMES[dtype]), np.array(thresholds, NAMES[dtype])
            weights = draw.standard_normal((leaves, width)).astype(NAMES[dtype])
            case("TreeEnsemble", [x, np.array(nodes, np.int32), thresholds, np.array(starts, np.int32), weights],
                 give(x, nodes, thresholds, starts, weights, targets, combine),
                 {"targets": targets, "combine": combine})


def sizes():
    for number in (1, 7):
        case("Extent", [np.array(number)], np.array(number), {"symbol": "n"})


def token_counts():
    for mask, rows in (([[1, 0, 0], [1, 1, 1]], 6), ([[1] * 20, [0] * 20], 24), ([[0]], 1), ([[1] * 300] * 2, 600),
                       ([[1] * 290 + [0] * 300] * 2, 608)):
        for dtype in (np.int64, np.bool_, np.float32):
            case("TokenCount", [np.array(mask, dtype)], np.array(rows), {"symbol": "n"}, dtype="i64")
