// SPDX-License-Identifier: Apache-2.0
// One-operator models: inputs in, expected outputs out.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx.pb.h>

#include "tests/frontend/model_builder.h"

namespace sinter::frontend {

inline std::vector<std::int64_t> v(std::initializer_list<std::int64_t> values) { return values; }

/// Imports a model of one node and evaluates it on `inputs`. Inputs named in `constants` become
/// initializers instead.
struct OneOp {
  std::string op;
  std::vector<ir::Tensor> inputs;
  std::vector<Attribute> attributes = {};
  int opset = 17;
  std::vector<std::size_t> constants = {};
  std::size_t outputs = 1;

  ModelBuilder model() const {
    ModelBuilder builder(opset);
    std::vector<std::string> names;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      names.push_back("in" + std::to_string(i));
      if (is_constant(i)) {
        builder.initializer(names.back(), inputs[i]);
        continue;
      }
      std::vector<ModelDim> dims;
      for (const auto dim : inputs[i].shape()) dims.emplace_back(static_cast<int>(dim));
      builder.input(names.back(), inputs[i].dtype(), dims);
    }
    std::vector<std::string> results;
    for (std::size_t i = 0; i < outputs; ++i) results.push_back("out" + std::to_string(i));
    builder.node(op, names, results, attributes);
    for (const auto& result : results) builder.output(result);
    return builder;
  }

  std::vector<ir::Tensor> run_all() const {
    std::vector<ir::Tensor> data;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (!is_constant(i)) data.push_back(inputs[i]);
    return model().run(data);
  }
  ir::Tensor run() const { return run_all().at(0); }

 private:
  bool is_constant(std::size_t i) const {
    for (const std::size_t constant : constants)
      if (constant == i) return true;
    return false;
  }
};

/// Checks shape and values (to 1e-5, absolute and relative).
inline void expect_tensor(const ir::Tensor& actual, const std::vector<std::int64_t>& shape,
                          const std::vector<double>& values) {
  EXPECT_EQ(actual.shape(), shape);
  ASSERT_EQ(actual.element_count(), static_cast<std::int64_t>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double found = actual.at(static_cast<std::int64_t>(i));
    if (found == values[i]) continue;  // infinities
    EXPECT_NEAR(found, values[i], 1e-5 * (1 + std::abs(values[i]))) << "element " << i;
  }
}

inline ModelBuilder microsoft(const std::string& op, const std::vector<std::string>& inputs,
                              const std::vector<Attribute>& attributes = {}) {
  ModelBuilder model;
  model.node(op, inputs, {"y"}, attributes).output("y");
  model.last_node().set_domain("com.microsoft");
  auto* import = model.model().add_opset_import();
  import->set_domain("com.microsoft");
  import->set_version(1);
  return model;
}

}  // namespace sinter::frontend
