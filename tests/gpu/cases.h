// Small graphs that between them use every kind of kernel and product.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace sinter::gpu_test {

struct Case {
  std::string name;
  /// Graph text; T stands for the element type that the case is run in.
  std::string text;
  /// Sizes of the symbols, one entry for each run, in this order in one session.
  std::vector<ir::Bindings> sizes = {{}};
  /// Whether T may be a 16-bit type.
  bool has_half = true;
};

const std::vector<Case>& cases();
const Case& case_named(const std::string& name);
/// The graph of a case with T replaced.
ir::Graph graph_of(const Case& test, DType type);

}  // namespace sinter::gpu_test
