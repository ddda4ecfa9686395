// What is computed as a user's kernel stores an output: the definition of its store(i, value).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codegen/emit/kernel_request.h"
#include "codegen/plan/expr_table.h"
#include "codegen/program/describe.h"

namespace sinter::codegen {

/// Stands for the kernel's value among a loop program's buffers.
inline constexpr std::uint32_t kStoredValue = 0xffffffffu;

struct CustomEpilogue {
  std::size_t output = 0;              // number of the operator's
  DType type = DType::kFloat32;        // of the output
  plan::fb::LoopProgramT program;      // over the output's elements; reads kStoredValue
  std::vector<std::uint32_t> buffers;  // those of the program that are memory, in its order
};

/// For a region's body of a CustomKernel `kernel` and nodes that follow its output number `output`
/// element by element. `inputs` and `outputs` are the buffers of the body's; `alone` is written
/// where nothing in the body reads the output. Throws Error(kInternal) if something in the body
/// reads other elements than the one at hand.
CustomEpilogue lower_epilogue(const Graph& body, const Node& kernel, std::size_t output,
                              Buffers inputs, Buffers outputs, std::uint32_t alone,
                              ExprTable& exprs);
/// The places among the body's outputs that output number `output` or what follows it is.
std::vector<std::size_t> stored_outputs(const Graph& body, const Node& kernel, std::size_t output);

/// Its CUDA text: a function, and epilogues::NAME with its arguments, which has store(i, value).
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
