// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/attention_scores.h"

#include <cstring>

#include <fmt/format.h>
#include <sinter/error.h>

#include "runtime/cpu/ops/element.h"
#include "runtime/cpu/tiles/tile_runs.h"

namespace sinter::runtime::cpu {

using plan::fb::InstrKind;

ScoreProgram::ScoreProgram(const plan::fb::PlanT& plan, const plan::fb::LoopProgramT& program,
                           std::span<const std::int64_t> expressions, std::int64_t most)
    : slot_bytes_((static_cast<std::size_t>(most) * 8 + 63) / 64 * 64) {
  const std::size_t keys = program.extents.size() - 1;
  for (const auto& instr : program.instrs) {
    Value value;
    value.kind = instr->kind;
    value.type = static_cast<DType>(instr->dtype);
    value.args = instr->args;
    auto* constant = reinterpret_cast<std::byte*>(&value.constant);
    const auto number = [&](double real, std::int64_t integer) {
      if (is_float(value.type))
        fill_run(value.type, real, constant, 1);
      else
        index_run(value.type, integer, 0, constant, 1);
    };
    switch (instr->kind) {
      case InstrKind::Constant: number(instr->constant_float, instr->constant_int); break;
      case InstrKind::Size: {
        const std::int64_t size = expressions[instr->expression];
        number(static_cast<double>(size), size);
        break;
      }
      case InstrKind::Index:
        value.dim = instr->dim;
        value.per_key = instr->dim == keys;
        break;
      case InstrKind::Op: {
        const auto op = static_cast<ScalarOp>(instr->op);
        for (const std::uint32_t arg : instr->args)
          value.per_key = value.per_key || values_[arg].per_key;
        const DType operand = values_[instr->args[op == ScalarOp::kSelect ? 1 : 0]].type;
        value.kernel = find_op_kernel(op, operand, value.type);
        if (value.kernel == nullptr)
          throw Error(ErrorCode::kUnsupported, fmt::format("a program of scores has '{}' on {}",
                                                           to_string(op), to_string(operand)));
        break;
      }
      default: {  // Load or Store
        const plan::fb::AccessT& access = *program.accesses[instr->access];
        const std::uint32_t buffer = program.buffers[access.buffer];
        value.is_score = buffer == plan::kScoreBuffer;
        value.is_sink = buffer == plan::kSinkBuffer;
        value.per_key = value.is_score;
        has_sinks_ = has_sinks_ || value.is_sink;
        if (value.is_score || value.is_sink) break;
        value.operand = {buffer,
                         static_cast<DType>(plan.buffers[buffer]->dtype),
                         expressions[access.offset],
                         {}};
        for (const std::uint32_t stride : access.strides)
          value.operand.strides.push_back(expressions[stride]);
        value.per_key = value.operand.strides.back() != 0;
      }
    }
    values_.push_back(std::move(value));
  }
}

void ScoreProgram::load(const Value& value, std::span<std::byte* const> buffers,
                        std::span<const std::int64_t> index, std::int64_t key, std::int64_t count,
                        std::byte* to) const {
  const Operand& operand = value.operand;
  const std::int64_t step = operand.strides.back();
  std::int64_t at = operand.offset + key * step;
  for (std::size_t d = 0; d < index.size(); ++d) at += index[d] * operand.strides[d];
  const auto size = static_cast<std::int64_t>(size_of(operand.storage));
  const std::byte* from = buffers[operand.buffer] + at * size;
  if (operand.storage != value.type) {
    if (value.type == DType::kFloat32)
      return load_floats(operand.storage, from, step, count, reinterpret_cast<float*>(to));
    for (std::int64_t i = 0; i < count; ++i) {
      const std::byte* element = from + i * step * size;
      std::byte* place = to + i * static_cast<std::int64_t>(size_of(value.type));
      if (is_float(value.type))
        store_double(value.type, place, load_double(operand.storage, element));
      else
        store_int(value.type, place, load_int(operand.storage, element));
    }
    return;
  }
  if (step == 1 || count == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(count * size));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * size, from + i * step * size, static_cast<std::size_t>(size));
}

void ScoreProgram::run(std::span<std::byte* const> buffers, std::span<const std::int64_t> index,
                       std::int64_t key, std::int64_t count, float* scores,
                       std::byte* workspace) const {
  float sink = 0;
  run(buffers, index, key, count, scores, &sink, workspace);
}

float ScoreProgram::sink(std::span<std::byte* const> buffers, std::span<const std::int64_t> index,
                         std::byte* workspace) const {
  float score = 0, sink = 0;
  run(buffers, index, 0, 1, &score, &sink, workspace);
  return sink;
}

void ScoreProgram::run(std::span<std::byte* const> buffers, std::span<const std::int64_t> index,
                       std::int64_t key, std::int64_t count, float* scores, float* sink,
                       std::byte* workspace) const {
  const auto slot = [&](std::size_t i) { return workspace + i * slot_bytes_; };
  const auto view = [&](std::uint32_t i) {
    const Value& value = values_[i];
    const bool is_number = value.kind == InstrKind::Constant || value.kind == InstrKind::Size;
    const void* data = is_number ? &value.constant
                       : value.is_score && value.kind == InstrKind::Load
                           ? static_cast<void*>(scores)
                           : slot(i);
    return View{data, 0, value.per_key};
  };
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const Value& value = values_[i];
    const std::int64_t own = value.per_key ? count : 1;
    switch (value.kind) {
      case InstrKind::Load:
        if (!value.is_score) load(value, buffers, index, key, own, slot(i));
        break;
      case InstrKind::Index:
        index_run(value.type, value.per_key ? key : index[value.dim], value.per_key ? 1 : 0,
                  slot(i), own);
        break;
      case InstrKind::Op: {
        OpArgs args{1, own, slot(i), own, {}};
        for (std::size_t k = 0; k < value.args.size(); ++k) args.args[k] = view(value.args[k]);
        value.kernel(args);
        break;
      }
      case InstrKind::Store: {
        const View made = view(value.args[0]);
        const auto* from = static_cast<const float*>(made.data);
        if (value.is_sink) {
          *sink = *from;
          break;
        }
        for (std::int64_t c = 0; c < count; ++c) scores[c] = from[made.per_column ? c : 0];
        break;
      }
      default: break;
    }
  }
}

}  // namespace sinter::runtime::cpu
