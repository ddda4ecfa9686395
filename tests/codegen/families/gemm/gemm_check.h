// SPDX-License-Identifier: Apache-2.0
// Emits product kernels, runs them on the emulator and compares with the reference evaluation of
// their region.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/families/gemm/gemm_lowering.h"
#include "codegen/targets/cuda/compile_cuda.h"
#include "ir/graph.h"
#include "tests/codegen/emulation/cuda_emulation.h"

namespace sinter::test {

/// Kernels of several regions and schedules, compiled together.
class GemmCheck {
 public:
  explicit GemmCheck(ir::Ranges ranges = {}) : exprs(std::move(ranges)) {}

  /// Adds the one product region that the passes make of a graph. `schedule` empty: those that the
  /// compiler chooses.
  void add(const std::string& name, const std::string& graph, const std::string& schedule,
           std::vector<ir::Bindings> symbols = {{}});
  /// The same for the body of a region of kind "gemm".
  void add(const std::string& name, ir::Graph body, const std::string& schedule,
           std::vector<ir::Bindings> symbols = {{}});
  /// A convolution's or a product's region as loops, on the schedules that the compiler chooses.
  void add_loops(const std::string& name, ir::Graph body, std::vector<ir::Bindings> symbols = {{}});
  /// The same of the one product region that the passes make of a graph.
  void add_loops(const std::string& name, const std::string& graph);

  /// Compiles and runs everything; what went wrong, a line for each.
  std::string run();

  /// The code of all kernels for some architectures, in this order for each.
  std::vector<std::vector<codegen::CompiledKernel>> compile(
      const std::vector<std::string>& architectures = {"sm_80", "sm_90", "sm_100"}) const;
  /// EXPECTs that there is some for each.
  void expect_code() const;

  codegen::ExprTable exprs;
  std::vector<codegen::EmittedKernel> kernels;
  bool packs_elements = false;       // weights of 16 bits are packed
  bool programmatic_launch = false;  // of what is added next
  bool with_prologue = false;  // the same: blocks make the left operand's rows, where a region does
  const codegen::DeviceModel* device = &codegen::reference_device();  // of what is added next
  bool b_is_weight = false;                                           // the same
  bool tf32 = false;                  // the same: float32 is rounded
  std::vector<std::int64_t> offsets;  // the same: a grouped matmul's, whose types are i32
  bool by_warpgroups = false;         // the same; so is what a schedule of warpgroups is given for

 private:
  struct Case {
    std::string name;
    std::optional<std::uint32_t>
        prologue_rows;  // the memory of rows that no part of the kernel makes
    std::unique_ptr<ir::Graph> body;
    std::vector<ir::Bindings> symbols;
    std::vector<DType> types;
    std::vector<std::uint32_t> inputs, outputs;
    std::vector<std::int64_t> offsets;
    codegen::GemmProgram product;
  };
  Case& add_case(const std::string& name, ir::Graph body, std::vector<ir::Bindings> symbols);
  /// The operands of `test` with the weights, scales and zero points as its kernel has them.
  Memory packed(const Case& test, std::vector<ir::Tensor> inputs) const;
  std::string run_case(const Case& test, const codegen::EmittedKernel& kernel,
                       const EmulatedKernels& library, const ir::Bindings& symbols) const;

  std::vector<std::unique_ptr<Case>> cases_;
};

/// What is said against a kernel of the schedule for the graph's product, or "accepted".
std::string message_for(const std::string& graph, const std::string& schedule);

}  // namespace sinter::test
