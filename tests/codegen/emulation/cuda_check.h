// SPDX-License-Identifier: Apache-2.0
// Emits programs, runs them on the emulator and compares with the interpreter.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cuda_emulation.h"
#include "tests/codegen/emit/cuda_programs.h"

namespace sinter::test {

/// Programs over one expression table that are compiled together: most of the time goes into
/// starting the compiler.
class CudaCheck {
 public:
  /// Symbols of all programs and their known ranges.
  explicit CudaCheck(ir::Ranges ranges = {}) : exprs(std::move(ranges)) {}

  /// Adds a program, to be run for each of `symbols`.
  void add(const std::string& name, ProgramBuilder program,
           std::vector<ir::Bindings> symbols = {{}});

  /// Compiles and runs everything, every variant whose conditions hold. Returns what went wrong, a
  /// line for each; empty if all is well.
  std::string run();

  const std::vector<codegen::EmittedKernel>& kernels() const { return kernels_; }
  std::vector<std::string> sources() const;
  /// How often each schedule ran.
  const std::map<std::string, int>& schedules_run() const { return schedules_run_; }

  codegen::ExprTable exprs;

 private:
  struct Case {
    std::string name;
    ProgramBuilder program;
    std::vector<ir::Bindings> symbols;
  };
  std::string run_case(const Case& test, const codegen::EmittedKernel& kernel,
                       const EmulatedKernels& library, const ir::Bindings& symbols);
  std::vector<Case> cases_;
  std::vector<codegen::EmittedKernel> kernels_;
  std::map<std::string, int> schedules_run_;
};

}  // namespace sinter::test
