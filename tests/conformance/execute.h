// SPDX-License-Identifier: Apache-2.0
// One case through the whole of Sinter: import, passes, codegen, plan bytes, session.
#pragma once

#include <set>
#include <string>

#include "tests/conformance/cases.h"
#include "tools/compiler/build/target.h"

namespace sinter::conformance {

struct ExecuteOptions {
  tools::Target target;
  bool fuse = true;
  bool run = true;           // false: stop when the plan has been read back
  std::string kernel_cache;  // CUDA; empty: none
};

/// Compiles and runs `test` on each of its data sets and compares the outputs as ONNX's runner
/// does: type and shape exactly, elements to rtol and atol. Returns the names of the inputs that
/// the model had to be compiled for one value of. Throws Error, with what differs, if the case
/// fails.
std::set<std::string> execute(const Case& test, const ExecuteOptions& options);

/// Throws Error unless `actual` agrees with `expected`.
void check_output(const std::string& name, const ir::Tensor& actual, const ir::Tensor& expected,
                  double rtol, double atol);

}  // namespace sinter::conformance
