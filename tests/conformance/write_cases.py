#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the backend test data of the installed onnx in the layout that tests/conformance/run reads.

Up to 1.22 the package carried all of it as files; since 1.23 the node cases are Python that makes
them (from fixed seeds, so that they are always the same). The other kinds are linked to.

    write_cases.py FOLDER    # FOLDER/node/test_abs/model.onnx, FOLDER/simple -> the package's, ..
"""
import pathlib
import sys

import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_node_model_tests

WRITERS = {
    "map_type": numpy_helper.from_dict,
    "sequence_type": numpy_helper.from_list,
    "optional_type": numpy_helper.from_optional,
    "tensor_type": numpy_helper.from_array,
}


def to_proto(value, info):
    if isinstance(value, onnx.TensorProto):
        return value
    return WRITERS[info.type.WhichOneof("value")](value, info.name)


def write_case(case, folder):
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString(deterministic=True))
    for i, (inputs, outputs) in enumerate(case.data_sets):
        data = folder / f"test_data_set_{i}"
        data.mkdir()
        for kind, values, infos in (("input", inputs, case.model.graph.input),
                                    ("output", outputs, case.model.graph.output)):
            for j, (value, info) in enumerate(zip(values, infos)):
                (data / f"{kind}_{j}.pb").write_bytes(to_proto(value, info).SerializeToString())


def main():
    to = pathlib.Path(sys.argv[1])
    to.mkdir(parents=True)
    for case in load_node_model_tests():
        write_case(case, to / "node" / case.name)
    package = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data"
    for kind in package.iterdir():
        if kind.is_dir() and kind.name != "node":
            (to / kind.name).symlink_to(kind)


if __name__ == "__main__":
    main()
