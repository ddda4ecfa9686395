// SPDX-License-Identifier: Apache-2.0
// The epilogue of an output of a user's kernel: the definition of its store(i, value).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codegen/emit/kernel_request.h"
#include "codegen/plan/expr_table.h"
#include "codegen/program/describe.h"

namespace sinter::codegen {

/// Stands for the kernel's value in a loop program's buffers.
inline constexpr std::uint32_t kStoredValue = 0xffffffffu;

struct CustomEpilogue {
  std::size_t output = 0;              // index of the operator's output
  DType type = DType::kFloat32;        // of the output
  plan::fb::LoopProgramT program;      // over the output's elements; reads kStoredValue
  std::vector<std::uint32_t> buffers;  // those of the program that have memory, in its order
};

/// Lowers the nodes of `body` that follow output `output` of CustomKernel `kernel` elementwise.
/// `inputs` and `outputs` are the body's buffers; `alone` receives the output if nothing in the
/// body reads it. Throws Error(kInternal) if a node reads another element than its own.
CustomEpilogue lower_epilogue(const Graph& body, const Node& kernel, std::size_t output,
                              Buffers inputs, Buffers outputs, std::uint32_t alone,
                              ExprTable& exprs);
/// Indices of the body's outputs that are output `output`, or computed from it.
std::vector<std::size_t> stored_outputs(const Graph& body, const Node& kernel, std::size_t output);

/// CUDA text of the epilogue: a function, and epilogues::NAME with its arguments and store(i,
/// value).
struct EpilogueText {
  std::string text;
  std::vector<std::string> headers;     // that the text needs
  std::vector<std::string> parameters;  // of the kernel: "const f16* y_x0"
  std::vector<plan::fb::KernelArg> args;
  std::string value;  // "epilogues::y{y_x0, y_y0}", of these parameters
};
/// `types`: of `epilogue.buffers`.
EpilogueText epilogue_text(const CustomEpilogue& epilogue, const std::string& name,
                           std::span<const DType> types, const KernelRequest& facts,
                           ExprTable& exprs);

}  // namespace sinter::codegen
