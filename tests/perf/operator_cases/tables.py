# SPDX-License-Identifier: Apache-2.0
"""Rows of features: scikit-learn's steps, linear models, support vectors, trees. PyTorch has none of the models."""
import numpy as np

from . import ML, Case, F, below, const, index, of_class, three, torch, x

ROWS = ((64, 16), (10_000, 32), (500_000, 64))
F32 = {"types": ("f32",), "domain": ML}
NONE = {"no_peer": "PyTorch has no such function"}


def numbers(count, seed=0, scale=1.0):
    return [float(v) for v in np.random.default_rng(seed).standard_normal(count) * scale]


def with_nan(shape, dtype, seed):
    from . import normal, true_in
    return np.where(true_in(0.1)(shape, bool, seed + 1), np.nan, normal(shape, dtype, seed)).astype(dtype)


@of_class("features")
def features():
    for size, (rows, columns) in three(*ROWS):
        given = x(rows, columns)
        yield Case("Scaler", size, [given], lambda x: (x - 0.5) * 2, **F32, attributes={"offset": [0.5], "scale": [2.0]})
        yield Case("Normalizer", size, [given], lambda x: F.normalize(x, 2, -1), **F32, attributes={"norm": "L2"})
        yield Case("Binarizer", size, [given], lambda x: (x > 0.5).to(x.dtype), **F32, attributes={"threshold": 0.5})
        yield Case("Imputer", size, [x(rows, columns, kind=with_nan)], lambda x: x.nan_to_num(0.25), **F32,
                   attributes={"imputed_value_floats": [0.25], "replaced_value_float": float("nan")})
        yield Case("ArrayFeatureExtractor", size, [given, const(list(range(0, columns, 2)))], lambda x, i: x[:, ::2].contiguous(), **F32,
                   moved=lambda a, o: 2 * o[0].nbytes)
        yield Case("FeatureVectorizer", size, [given, given], lambda *t: torch.cat(t, 1), **F32, attributes={"inputdimensions": [columns] * 2})
        places = index(columns, rows * 4)
        yield Case("OneHotEncoder", size, [places], lambda i, c=columns: F.one_hot(i, c).float(), types=("f32",), domain=ML,
                   attributes={"cats_int64s": list(range(columns)), "zeros": 1})
        yield Case("LabelEncoder", size, [places], None, types=("f32",), domain=ML, **NONE,
                   attributes={"keys_int64s": list(range(columns)), "values_int64s": [7 * k % columns for k in range(columns)]}, version=2)
        yield Case("LinearRegressor", size, [given], None, **F32, **NONE, flops=2 * rows * columns * 4,
                   attributes={"coefficients": numbers(4 * columns), "intercepts": numbers(4), "targets": 4})
        yield Case("LinearClassifier", size, [given], None, **F32, **NONE, outputs=2, flops=2 * rows * columns * 4,
                   attributes={"coefficients": numbers(4 * columns), "intercepts": numbers(4), "classlabels_ints": [0, 1, 2, 3],
                               "post_transform": "SOFTMAX", "multi_class": 1})
    for size, rows, columns, vectors in (("small", 64, 16, 20), ("middle", 2000, 32, 500), ("large", 50_000, 64, 2000)):
        kernel = {"kernel_type": "RBF", "kernel_params": [0.05, 0.0, 3.0]}
        yield Case("SVMRegressor", size, [x(rows, columns)], None, **F32, **NONE, flops=3 * rows * columns * vectors,
                   attributes={"coefficients": numbers(vectors, 1), "support_vectors": numbers(vectors * columns, 2), "n_supports": vectors,
                               "rho": [0.3], **kernel})
        yield Case("SVMClassifier", size, [x(rows, columns)], None, **F32, **NONE, outputs=2, flops=3 * rows * columns * vectors,
                   attributes={"coefficients": numbers(vectors, 1), "support_vectors": numbers(vectors * columns, 2), "rho": [0.3],
                               "vectors_per_class": [vectors // 2] * 2, "classlabels_ints": [0, 1], **kernel})


def forest(prefix, count, depth, columns, targets):
    """Whole trees whose leaves give to one of the targets."""
    random = np.random.default_rng(3)
    inner, nodes = 2 ** depth - 1, 2 ** (depth + 1) - 1
    leaf = np.tile(np.arange(nodes) >= inner, count)
    ids = np.tile(np.arange(nodes), count)
    trees = np.repeat(np.arange(count), nodes)
    return {"nodes_treeids": trees.tolist(), "nodes_nodeids": ids.tolist(), "nodes_featureids": random.integers(columns, size=count * nodes).tolist(),
            "nodes_values": random.standard_normal(count * nodes).tolist(), "nodes_modes": np.where(leaf, "LEAF", "BRANCH_LEQ").tolist(),
            "nodes_truenodeids": np.where(leaf, 0, 2 * ids + 1).tolist(), "nodes_falsenodeids": np.where(leaf, 0, 2 * ids + 2).tolist(),
            f"{prefix}_treeids": trees[leaf].tolist(), f"{prefix}_nodeids": ids[leaf].tolist(),
            f"{prefix}_ids": (trees[leaf] % targets).tolist(), f"{prefix}_weights": (random.standard_normal(leaf.sum()) * 0.1).tolist()}


def ensemble(count, depth, columns):
    """The same as one TreeEnsemble: inner nodes and leaves have lists of their own."""
    random = np.random.default_rng(3)
    inner, last = 2 ** depth - 1, 2 ** (depth - 1) - 1
    ids = np.tile(np.arange(inner), count)
    first, leaves = np.repeat(np.arange(count), inner) * inner, np.repeat(np.arange(count), inner) * 2 ** depth
    ends = ids >= last
    children = [np.where(ends, leaves + 2 * (ids - last) + k, first + 2 * ids + 1 + k) for k in range(2)]
    from onnx import numpy_helper
    return {"tree_roots": (np.arange(count) * inner).tolist(), "nodes_featureids": random.integers(columns, size=count * inner).tolist(),
            "nodes_splits": numpy_helper.from_array(random.standard_normal(count * inner).astype(np.float32)),
            "nodes_modes": numpy_helper.from_array(np.zeros(count * inner, np.uint8)),
            "nodes_truenodeids": children[0].tolist(), "nodes_falsenodeids": children[1].tolist(),
            "nodes_trueleafs": ends.astype(int).tolist(), "nodes_falseleafs": ends.astype(int).tolist(),
            "leaf_targetids": [0] * (count * 2 ** depth), "n_targets": 1,
            "leaf_weights": numpy_helper.from_array((random.standard_normal(count * 2 ** depth) * 0.1).astype(np.float32))}


@of_class("trees")
def trees():
    for size, rows, columns, count, depth in (("small", 64, 16, 10, 3), ("middle", 10_000, 32, 100, 5), ("large", 100_000, 64, 200, 6)):
        yield Case("TreeEnsembleRegressor", size, [x(rows, columns)], None, **F32, **NONE,
                   attributes={**forest("target", count, depth, columns, 1), "n_targets": 1})
        yield Case("TreeEnsembleClassifier", size, [x(rows, columns)], None, **F32, **NONE, outputs=2,
                   attributes={**forest("class", count, depth, columns, 3), "classlabels_int64s": [0, 1, 2], "post_transform": "SOFTMAX"})
        yield Case("TreeEnsemble", size, [x(rows, columns)], None, **F32, **NONE,
                   attributes={**ensemble(count, depth, columns), "aggregate_function": 1, "post_transform": 0}, version=5)
