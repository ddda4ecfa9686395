// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/execute.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <onnx.pb.h>

#include "codegen/compile.h"
#include "frontend/import.h"
#include "fusion/pipeline.h"
#include "ir/text/text.h"
#include "tools/compiler/build/build.h"
#include "tools/compiler/run/inputs.h"

namespace sinter::conformance {
namespace {

/// Imports with the shapes of `data`. Inputs whose value the importer asks for become constants.
frontend::ImportedModel import(const Case& test, const DataSet& data,
                               std::set<std::string>& fixed) {
  frontend::ImportOptions options;
  for (const auto& [name, tensor] : data.inputs)
    options.input_shapes.insert_or_assign(name, tensor.type().shape);
  for (;;) {
    for (const auto& [name, tensor] : data.inputs)
      if (fixed.contains(name)) {
        options.input_shapes.erase(name);
        options.input_values.insert_or_assign(name, tensor);
      }
    try {
      return frontend::import_model(test.model, options);
    } catch (const frontend::UnsupportedModel& error) {
      const std::size_t before = fixed.size();
      fixed.insert(error.inputs().begin(), error.inputs().end());
      if (fixed.size() == before) throw;
    }
  }
}

Plan compile(const frontend::ImportedModel& model, const ExecuteOptions& options) {
  fusion::Context context;
  context.target = options.target.traits();
  context.fuse = options.fuse;
  const auto fused = fusion::run_pipeline(model.graph, context);
  codegen::CompileOptions compile;
  compile.target = options.target.kind;
  compile.architectures = options.target.architectures;
  compile.threads = 1;
  compile.cache_dir = options.kernel_cache;
  return tools::load_built(codegen::compile(fused.graph, compile));
}

bool close(double a, double b, double rtol, double atol) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  return std::isfinite(a) && std::isfinite(b) && std::abs(a - b) <= atol + rtol * std::abs(b);
}

}  // namespace

void check_output(const std::string& name, const ir::Tensor& actual, const ir::Tensor& expected,
                  double rtol, double atol) {
  if (actual.dtype() != expected.dtype() || actual.shape() != expected.shape())
    throw Error(ErrorCode::kInternal,
                fmt::format("output '{}' is {}, expected {}", name, ir::to_string(actual.type()),
                            ir::to_string(expected.type())));
  // As ONNX's own runner: two units in the last place.
  if (expected.dtype() == DType::kBFloat16) rtol = std::max(rtol, 0x1p-6);
  std::int64_t wrong = 0, first = -1;
  for (std::int64_t i = 0; i < expected.element_count(); ++i) {
    if (close(actual.at(i), expected.at(i), rtol, atol)) continue;
    if (wrong++ == 0) first = i;
  }
  if (wrong > 0)
    throw Error(ErrorCode::kInternal,
                fmt::format("output '{}': {} of {} elements of {} differ, the first at {}: {} "
                            "instead of {}",
                            name, wrong, expected.element_count(), ir::to_string(expected.type()),
                            first, actual.at(first), expected.at(first)));
}

std::set<std::string> execute(const Case& test, const ExecuteOptions& options) {
  std::set<std::string> fixed;
  for (const DataSet& data : read_data_sets(test, read_model(test.model))) {
    const Plan plan = compile(import(test, data, fixed), options);
    if (!options.run) continue;
    SessionOptions session_options;
    session_options.threads = 1;
    Session session(plan, session_options);
    for (const auto& [name, tensor] : data.inputs)
      if (!fixed.contains(name)) session.set_input(name, tools::view_of(tensor));
    session.run();
    for (const auto& [name, expected] : data.outputs)
      check_output(name, tools::tensor_of(session.output(name)), expected, test.rtol, test.atol);
  }
  return fixed;
}

}  // namespace sinter::conformance
