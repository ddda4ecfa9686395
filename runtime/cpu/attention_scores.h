// SPDX-License-Identifier: Apache-2.0
// The program of attention's scores, applied to a row of a tile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/cpu/ops/tile_ops.h"
#include "runtime/plan/plan_data.h"

namespace sinter::runtime::cpu {

/// The program AttentionStep.scores for one bound shape.
class ScoreProgram {
 public:
  /// `most`: maximum number of keys in a call. The program must have been verified.
  ScoreProgram(const plan::fb::PlanT& plan, const plan::fb::LoopProgramT& program,
               std::span<const std::int64_t> expressions, std::int64_t most);

  /// Bytes for each thread, a multiple of 64.
  std::size_t workspace_bytes() const { return values_.size() * slot_bytes_; }
  /// Applies the program in place to `count` scores, starting at key `key`. `index`: batch indices,
  /// then the row. `buffers` holds the address of each of plan.buffers.
  void run(std::span<std::byte* const> buffers, std::span<const std::int64_t> index,
           std::int64_t key, std::int64_t count, float* scores, std::byte* workspace) const;
  bool has_sinks() const { return has_sinks_; }
  /// The attention sink: the score of an extra key whose value is zero.
  float sink(std::span<std::byte* const> buffers, std::span<const std::int64_t> index,
             std::byte* workspace) const;

 private:
  struct Operand {
    std::uint32_t buffer = 0;
    DType storage = DType::kFloat32;
    std::int64_t offset = 0;
    std::vector<std::int64_t> strides;  // the last is the stride over keys
  };
  struct Value {
    plan::fb::InstrKind kind = plan::fb::InstrKind::Constant;
    DType type = DType::kFloat32;
    bool is_score = false;  // Load, Store: operates on the scores
    bool is_sink = false;   // Store: writes the sink
    bool per_key = false;   // one value for each key; else one for the row
    Operand operand;        // Load
    std::uint32_t dim = 0;  // Index
    OpKernel kernel = nullptr;
    std::vector<std::uint32_t> args;
    std::uint64_t constant = 0;
  };
  void load(const Value& value, std::span<std::byte* const> buffers,
            std::span<const std::int64_t> index, std::int64_t key, std::int64_t count,
            std::byte* to) const;

  /// Writes a row's sink to `sink`.
  void run(std::span<std::byte* const> buffers, std::span<const std::int64_t> index,
           std::int64_t key, std::int64_t count, float* scores, float* sink,
           std::byte* workspace) const;

  std::vector<Value> values_;
  bool has_sinks_ = false;
  std::size_t slot_bytes_;
};

}  // namespace sinter::runtime::cpu
