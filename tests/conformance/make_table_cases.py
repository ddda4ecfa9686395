#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the cases of tests/conformance/tables, in the layout of ONNX's backend tests: pipelines of
scikit-learn, XGBoost and LightGBM trained on scikit-learn's bundled data, and operators of ai.onnx.ml one
by one, each with what ONNX Runtime makes of it. Nothing is written for a pipeline unless the library's own
predict agrees: labels exactly, numbers to 1e-5.

  pip install scikit-learn skl2onnx xgboost lightgbm onnxmltools onnxruntime
  python tests/conformance/make_table_cases.py           rewrites tests/conformance/tables/node
  build/bin/conformance --data tests/conformance/tables --list tests/conformance/tables/list.json
"""
import json
import pathlib
import shutil
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).parent / "tables" / "node"
ML = "ai.onnx.ml"
TOLERANCE = 1e-5
rng = np.random.default_rng(5)


def answers(model, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def save(name, model, feeds, results):
    """`results` give the outputs their types: converters leave some open or say one row."""
    for value, result in zip(model.graph.output, results):
        kind = helper.np_dtype_to_tensor_dtype(result.dtype)
        value.CopyFrom(helper.make_tensor_value_info(value.name, kind, [None] * result.ndim))
    folder = ROOT / f"test_{name}"
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    model.ClearField("doc_string")
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    (folder / "data.json").write_text(json.dumps({"rtol": TOLERANCE, "atol": TOLERANCE}) + "\n")
    for what, arrays in (("input", feeds.values()), ("output", results)):
        for i, array in enumerate(arrays):
            (data / f"{what}_{i}.pb").write_bytes(numpy_helper.from_array(np.asarray(array)).SerializeToString())


def case(name, op, inputs, outputs=1, version=1, own=None, **attributes):
    """One node. `own`: results where ONNX Runtime departs from the specification, computed apart."""
    feeds = {f"x{i}": value for i, value in enumerate(inputs)}
    infos = [helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
             for key, value in feeds.items()]
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, list(feeds), names, name=f"the_{op}", domain=ML,
                            **{key.rstrip("_"): value for key, value in attributes.items()})
    graph = helper.make_graph([node], name, infos, [helper.make_empty_tensor_value_info(y) for y in names])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(ML, version)],
                              ir_version=8)
    save(name, model, feeds, own if own is not None else answers(model, feeds))


def pipeline(name, model, x, own, same_scores=True):
    feeds = {model.graph.input[0].name: x}
    results = answers(model, feeds)
    for i, expected in enumerate(own if same_scores else own[:1]):
        got = results[i].reshape(np.shape(expected))
        agree = np.array_equal(got, expected) if got.dtype.kind == "i" else \
            np.allclose(got, expected, rtol=TOLERANCE, atol=TOLERANCE)
        if not agree:
            raise SystemExit(f"{name}: ONNX Runtime and the library differ in output {i}")
    save(name, model, feeds, results)


# ---- libraries

def sklearn_pipelines():
    from skl2onnx import to_onnx
    from sklearn import datasets, ensemble, impute, linear_model, pipeline as pipelines, preprocessing, svm, tree
    iris, cancer, diabetes, digits = (getattr(datasets, f"load_{name}")()
                                      for name in ("iris", "breast_cancer", "diabetes", "digits"))
    join = pipelines.make_pipeline
    few = {"random_state": 0}
    table = [
        ("sklearn_forest_iris", ensemble.RandomForestClassifier(8, max_depth=4, **few), iris),
        ("sklearn_forest_cancer", ensemble.RandomForestClassifier(8, max_depth=5, **few), cancer),
        ("sklearn_forest_digits", ensemble.RandomForestClassifier(5, max_depth=5, **few), digits),
        ("sklearn_boosting_cancer", ensemble.GradientBoostingClassifier(n_estimators=8, **few), cancer),
        ("sklearn_boosting_iris", ensemble.GradientBoostingClassifier(n_estimators=4, **few), iris),
        ("sklearn_forest_diabetes", ensemble.RandomForestRegressor(6, max_depth=4, **few), diabetes),
        ("sklearn_boosting_diabetes", ensemble.GradientBoostingRegressor(n_estimators=10, **few), diabetes),
        ("sklearn_extra_trees", ensemble.ExtraTreesRegressor(5, max_depth=4, **few), diabetes),
        ("sklearn_tree_iris", tree.DecisionTreeClassifier(max_depth=4, **few), iris),
        ("sklearn_scaled_forest", join(preprocessing.StandardScaler(), ensemble.RandomForestClassifier(
            5, max_depth=4, **few)), cancer),
        ("sklearn_imputed_boosting", join(impute.SimpleImputer(), preprocessing.MinMaxScaler(),
                                          ensemble.GradientBoostingClassifier(n_estimators=5, **few)), cancer),
        ("sklearn_logistic_cancer", join(preprocessing.StandardScaler(), linear_model.LogisticRegression()), cancer),
        ("sklearn_logistic_iris", linear_model.LogisticRegression(max_iter=500), iris),
        ("sklearn_normalized", join(preprocessing.Normalizer("l1"), linear_model.LogisticRegression()), iris),
        ("sklearn_binarized", join(preprocessing.Binarizer(threshold=3.), linear_model.LogisticRegression()), iris),
        ("sklearn_ridge", linear_model.Ridge(), diabetes),
        ("sklearn_svc_rbf", svm.SVC(), iris),
        ("sklearn_svc_linear", join(preprocessing.StandardScaler(), svm.SVC(kernel="linear", C=.1)), cancer),
        ("sklearn_svc_probability", svm.SVC(probability=True, C=.5, **few), iris),
        ("sklearn_svr", svm.SVR(), diabetes),
    ]
    for name, estimator, data in table:
        x = data.data.astype(np.float32)
        estimator.fit(x, data.target)
        is_classifier = hasattr(estimator, "classes_")
        options = {id(estimator): {"zipmap": False}} if is_classifier else None
        model = to_onnx(estimator, x[:1], options=options, target_opset={"": 17, ML: 3})
        rows = x[::max(1, len(x) // 24)][:24]
        own = [estimator.predict(rows)]
        has_probabilities = hasattr(estimator, "predict_proba")
        if has_probabilities:
            own.append(estimator.predict_proba(rows))
        pipeline(name, model, rows, own)


def boosted_pipelines():
    import lightgbm
    import xgboost
    from onnxmltools import convert_lightgbm, convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType
    from sklearn import datasets
    iris, cancer, diabetes = (getattr(datasets, f"load_{name}")() for name in ("iris", "breast_cancer", "diabetes"))
    table = [
        ("xgboost_cancer", xgboost.XGBClassifier(n_estimators=8, max_depth=4), cancer, convert_xgboost, {}),
        ("xgboost_iris", xgboost.XGBClassifier(n_estimators=4, max_depth=3), iris, convert_xgboost, {}),
        ("xgboost_diabetes", xgboost.XGBRegressor(n_estimators=8, max_depth=4), diabetes, convert_xgboost, {}),
        ("lightgbm_cancer", lightgbm.LGBMClassifier(n_estimators=6, verbose=-1), cancer, convert_lightgbm,
         {"zipmap": False}),
        ("lightgbm_iris", lightgbm.LGBMClassifier(n_estimators=4, num_leaves=8, verbose=-1), iris, convert_lightgbm,
         {"zipmap": False}),
        ("lightgbm_diabetes", lightgbm.LGBMRegressor(n_estimators=6, verbose=-1), diabetes, convert_lightgbm, {}),
    ]
    for name, estimator, data, convert, options in table:
        x = data.data.astype(np.float32)
        if data is not iris:  # trees that know which way missing values go
            x[np.random.default_rng(0).random(x.shape) < .1] = np.nan
        estimator.fit(x, data.target)
        columns = FloatTensorType([None, x.shape[1]])
        model = convert(estimator, initial_types=[("X", columns)], target_opset=15, **options)
        rows = x[::max(1, len(x) // 24)][:24]
        own = [estimator.predict(rows)] + ([estimator.predict_proba(rows)] if hasattr(estimator, "classes_") else [])
        pipeline(name, model, rows, own)


# ---- operators

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def trees(prefix, targets, modes=MODES, count=4, missing=True, every=False, positive=False, ids=None):
    """Attributes of `count` trees of depth 3 over three columns of halves; `every`: leaves have weights for all."""
    a = {key: [] for key in ("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_values", "nodes_modes",
                             "nodes_truenodeids", "nodes_falsenodeids", "nodes_missing_value_tracks_true",
                             f"{prefix}_treeids", f"{prefix}_nodeids", f"{prefix}_weights", ids)}
    for t in range(count):
        for n in range(15):
            is_leaf = n >= 7
            row = (t, n, int(rng.integers(3)), float(rng.integers(-3, 4) / 2),
                   "LEAF" if is_leaf else modes[int(rng.integers(len(modes)))],
                   0 if is_leaf else 2 * n + 1, 0 if is_leaf else 2 * n + 2, int(missing and rng.integers(2)))
            for key, value in zip(list(a)[:8], row):
                a[key].append(value)
            if is_leaf:
                for target in range(targets) if every else (t % targets,):
                    weight = float(rng.uniform(0, .4) if positive else rng.standard_normal())
                    for key, value in zip(list(a)[8:], (t, n, weight, target)):
                        a[key].append(value)
    return a


def halves(rows=20, missing=True):
    x = (rng.integers(-4, 5, (rows, 3)) / 2).astype(np.float32)
    if missing:
        x[rng.integers(0, 6, x.shape) == 0] = np.nan
    return x


def tree_operators():
    for mode in MODES:
        case(f"trees_{mode.lower()}", "TreeEnsembleRegressor", [halves()],
             **trees("target", 1, (mode,), ids="target_ids"), n_targets=1)
    for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
        for targets, every in ((1, False), (3, True), (2, False)):
            case(f"trees_{aggregate.lower()}_{targets}", "TreeEnsembleRegressor", [halves()],
                 **trees("target", targets, every=every, ids="target_ids"), n_targets=targets,
                 aggregate_function=aggregate, base_values=[float(i + .5) for i in range(targets)])
    for transform in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"):
        case(f"trees_classes_{transform.lower()}", "TreeEnsembleClassifier", [halves()], 2,
             **trees("class", 3, ids="class_ids", count=6), classlabels_int64s=[4, 7, 9], post_transform=transform)
        case(f"trees_two_classes_{transform.lower()}", "TreeEnsembleClassifier", [halves()], 2,
             **trees("class", 1, ids="class_ids"), classlabels_int64s=[0, 1], post_transform=transform,
             base_values=[.25])
        case(f"trees_two_positive_{transform.lower()}", "TreeEnsembleClassifier", [halves()], 2,
             **trees("class", 1, ids="class_ids", positive=True), classlabels_int64s=[0, 1], post_transform=transform)
    case("trees_probit", "TreeEnsembleRegressor", [halves()],
         **trees("target", 2, ids="target_ids", positive=True, every=True, count=2), n_targets=2,
         post_transform="PROBIT", base_values=[.1, .1])
    case("trees_int64_rows", "TreeEnsembleClassifier", [rng.integers(-2, 3, (9, 3))], 2,
         **trees("class", 3, ids="class_ids"), classlabels_int64s=[0, 1, 2])
    case("trees_one_row", "TreeEnsembleRegressor", [halves(1)], **trees("target", 1, ids="target_ids", count=40),
         n_targets=1)


def feature_operators():
    x = halves(6, missing=False)
    case("scaler", "Scaler", [x], offset=[1., 2., -3.], scale=[.5, 2., 4.])
    case("scaler_of_integers", "Scaler", [rng.integers(-5, 6, (4, 3))], offset=[1.], scale=[.5])
    for norm in ("MAX", "L1", "L2"):
        case(f"normalizer_{norm.lower()}", "Normalizer", [np.abs(x) + .25], norm=norm)
    case("imputer_nan", "Imputer", [halves(6)], imputed_value_floats=[7., 8., 9.], replaced_value_float=float("nan"))
    case("imputer_number", "Imputer", [x], imputed_value_floats=[7.], replaced_value_float=.5)
    case("imputer_int64", "Imputer", [rng.integers(-1, 2, (5, 3))], imputed_value_int64s=[5], replaced_value_int64=-1)
    case("binarizer", "Binarizer", [x], threshold=.5)
    case("array_feature_extractor", "ArrayFeatureExtractor", [x, np.array([2, 0])])
    case("feature_vectorizer", "FeatureVectorizer", [x, x[:, :2] + 1], inputdimensions=[3, 2])
    case("one_hot_encoder", "OneHotEncoder", [rng.integers(0, 5, (6,))], cats_int64s=[3, 1, 4], zeros=1)
    case("label_encoder_int_float", "LabelEncoder", [rng.integers(0, 5, (7,))], version=2, keys_int64s=[3, 1, 4],
         values_floats=[.5, 1.5, 2.5], default_float=-7.)
    for version in (2, 4):  # from 4 on a key may be NaN
        case(f"label_encoder_float_int_{version}", "LabelEncoder", [np.array([1, .5, np.nan, 9], np.float32)],
             version=version, keys_floats=[.5, 1., float("nan")], values_int64s=[8, 6, 4], default_int64=3)
    for targets in (1, 3):
        case(f"linear_regressor_{targets}", "LinearRegressor", [x],
             coefficients=[float(v) for v in rng.standard_normal(3 * targets)],
             intercepts=[float(v) for v in rng.standard_normal(targets)], targets=targets)
    for transform in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"):
        case(f"linear_classifier_{transform.lower()}", "LinearClassifier", [x], 2,
             coefficients=[float(v) for v in rng.standard_normal(9)], intercepts=[.1, -.2, .3],
             classlabels_ints=[5, 6, 7], post_transform=transform, multi_class=1)
    case("linear_classifier_one_score", "LinearClassifier", [x], 2, coefficients=[.3, -.7, .2], intercepts=[.1],
         classlabels_ints=[0, 1])
    vectors = [float(v) for v in rng.standard_normal(12)]
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        case(f"svm_regressor_{kernel.lower()}", "SVMRegressor", [x], coefficients=[.5, -1., .25, .75],
             support_vectors=vectors, n_supports=4, rho=[.3], kernel_type=kernel, kernel_params=[.3, .1, 2.])
    case("svm_one_class", "SVMRegressor", [x], coefficients=[.5, -1., .25, .75], support_vectors=vectors,
         n_supports=4, rho=[.3], kernel_type="RBF", kernel_params=[.3, 0., 3.], one_class=1)


def main():
    warnings.filterwarnings("ignore")
    shutil.rmtree(ROOT, ignore_errors=True)
    sklearn_pipelines()
    boosted_pipelines()
    tree_operators()
    feature_operators()
    print(f"{len(list(ROOT.iterdir()))} cases")


if __name__ == "__main__":
    main()
