// SPDX-License-Identifier: Apache-2.0
// The cases of ONNX's backend test data, as they lie in the onnx package.
#pragma once

#include <string>
#include <vector>

#include "ir/tensor.h"

namespace onnx {
class ModelProto;
}

namespace sinter::conformance {

/// One test case. Folders of `node`, `simple`, `pytorch-operator` and `pytorch-converted` hold a
/// model and sets of inputs and outputs; those of `real` name one of the `light` models.
struct Case {
  std::string name;                 // "node/test_add"
  std::string model;                // path of the .onnx file
  std::vector<std::string> data;    // folders of data sets; empty for light models
  double rtol = 1e-3, atol = 1e-7;  // ONNX's own, unless the case gives others
};

/// Every case under `data` (onnx/backend/test/data), by name. Throws Error(kUsage) if there is
/// none.
std::vector<Case> find_cases(const std::string& data);

/// Throws Error(kInvalidModel).
onnx::ModelProto read_model(const std::string& path);

/// Names of the graph's inputs that are not initializers, in order.
std::vector<std::string> input_names(const onnx::ModelProto& model);

struct DataSet {
  std::vector<std::pair<std::string, ir::Tensor>> inputs, outputs;  // by name
};
/// The data sets of `test`, whose model is `model`. A light model's input is what ONNX's runner
/// makes: i / n for element i of n, as float32; its outputs lie next to the model.
std::vector<DataSet> read_data_sets(const Case& test, const onnx::ModelProto& model);

}  // namespace sinter::conformance
