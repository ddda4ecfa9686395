// SPDX-License-Identifier: Apache-2.0
// Small graphs that between them use every kind of kernel and product: files cases/NAME.graph of
// graph text, with what a case is run with in comments in front:
//   # sizes: batch=1 seq=64; batch=3 seq=17     runs of one session, in this order
//   # types: as written                         no 16-bit type stands for T
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace sinter::gpu_test {

struct Case {
  std::string name;
  /// Graph text; T stands for the element type that the case is run in.
  std::string text;
  /// Sizes of the symbols, one entry for each run.
  std::vector<ir::Bindings> sizes = {{}};
  /// Whether T may be a 16-bit type.
  bool has_half = true;
};

const std::vector<Case>& cases();
const Case& case_named(const std::string& name);
/// The graph of a case with T replaced.
ir::Graph graph_of(const Case& test, DType type);

}  // namespace sinter::gpu_test
