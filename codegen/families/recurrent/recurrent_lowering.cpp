// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/recurrent/recurrent_lowering.h"

#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

namespace sinter::codegen {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::kUnsupported, why); }

}  // namespace

int RecurrentProgram::gates() const {
  switch (cell) {
    case RecurrentCell::kLstm: return 4;
    case RecurrentCell::kGru:
    case RecurrentCell::kResetFirstGru: return 3;
    case RecurrentCell::kRnn: break;
  }
  return 1;
}

RecurrentProgram lower_recurrent(const Graph& body, Buffers inputs, Buffers outputs) {
  const Node* node = body.nodes().size() == 1 ? &body.nodes()[0] : nullptr;
  if (node == nullptr || node->op->name != "Recurrent")
    refuse("a region of kind 'recurrent' must be one Recurrent of values in memory");
  RecurrentProgram program;
  const std::string& cell = node->attrs.get_string("cell");
  program.cell = cell == "LSTM"                                    ? RecurrentCell::kLstm
                 : cell == "RNN"                                   ? RecurrentCell::kRnn
                 : node->attrs.get_int("linear_before_reset") != 0 ? RecurrentCell::kGru
                                                                   : RecurrentCell::kResetFirstGru;
  if (const std::string& special = node->attrs.get_string("special"); !special.empty())
    refuse(special);
  const TensorType &x = body.type(node->inputs[0]), &weights = body.type(node->inputs[1]);
  if (x.dtype != weights.dtype || !is_float(x.dtype) || size_of(x.dtype) > 4)
    refuse(fmt::format("x is {} and the weights are {}; both must be f16, bf16 or f32",
                       to_string(x.dtype), to_string(weights.dtype)));
  const std::string& direction = node->attrs.get_string("direction");
  program.dtype = x.dtype;
  program.directions = direction == "bidirectional" ? 2 : 1;
  program.backwards = direction == "reverse";
  program.steps = x.shape[0];
  program.batch = x.shape[1];
  if (!weights.shape[2].is_constant()) refuse("how many units it has is known only when it runs");
  program.units = weights.shape[2].value();

  std::size_t next = 0;
  const auto take = [&](RecurrentRole role) {
    const auto at = std::ranges::find(body.inputs(), node->inputs[next++]);
    if (at == body.inputs().end()) refuse("an operand of a recurrent layer is not in memory");
    program.buffers[static_cast<std::size_t>(role)] =
        inputs[static_cast<std::size_t>(at - body.inputs().begin())];
  };
  take(RecurrentRole::kX);
  take(RecurrentRole::kWeights);
  for (const auto& [flag, role] : {std::pair("bias", RecurrentRole::kBias),
                                   {"initial_h", RecurrentRole::kInitialH},
                                   {"initial_c", RecurrentRole::kInitialC},
                                   {"lengths", RecurrentRole::kLengths}})
    if (node->attrs.get_int(flag) != 0) take(role);
  constexpr RecurrentRole kResults[] = {RecurrentRole::kY, RecurrentRole::kLastH,
                                        RecurrentRole::kLastC};
  for (std::size_t i = 0; i < body.outputs().size(); ++i) {
    const auto at = std::ranges::find(node->outputs, body.outputs()[i]);
    if (at == node->outputs.end()) refuse("a result of a recurrent region is not the layer's");
    program.buffers[static_cast<std::size_t>(kResults[at - node->outputs.begin()])] = outputs[i];
  }
  return program;
}

std::string print_recurrent(const RecurrentProgram& program) {
  std::string text = fmt::format(
      "recurrent cell={} {} directions={}{} units={} steps={} batch={} given=", program.gates(),
      to_string(program.dtype), program.directions, program.backwards ? " backwards" : "",
      program.units, program.steps.to_string(), program.batch.to_string());
  for (const auto& buffer : program.buffers) text += buffer ? "1" : "0";
  return text;
}

StepCost cost_of(const RecurrentProgram& program, const SizeOf& size) {
  StepCost cost;
  cost.bytes_read = cost.bytes_written = Dim(0);
  for (std::size_t role = 0; role < kRecurrentRoles; ++role)
    if (program.buffers[role]) {
      const bool written = role >= static_cast<std::size_t>(RecurrentRole::kY);
      Dim& bytes = written ? cost.bytes_written : cost.bytes_read;
      bytes = bytes + size(*program.buffers[role]).bytes;
    }
  const Dim units(program.units);
  cost.flops =
      Dim(2 * program.gates() * program.directions) * program.steps * program.batch * units * units;
  cost.arithmetic = gemm_arithmetic(program.dtype, plan::fb::MathMode::Default);
  return cost;
}

}  // namespace sinter::codegen
