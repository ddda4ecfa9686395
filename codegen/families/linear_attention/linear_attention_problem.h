// SPDX-License-Identifier: Apache-2.0
// A region of one LinearAttention (ir/ops/recurrent/linear_attention.cpp), as its kernels see it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sinter/dtype.h>

#include "codegen/families/operator_family.h"
#include "codegen/targets/device_model.h"
#include "ir/recurrence/linear_attention.h"

namespace sinter::codegen {

/// A value in memory.
struct StateOperand {
  std::uint32_t buffer = 0;  // of the plan
  DType type = DType::kFloat32;
};

struct LinearAttentionProblem {
  ir::LinearAttention layer;
  StateOperand query, key, value, out, new_state;
  std::optional<StateOperand> decay, beta, erase, state;
  std::optional<StateOperand> starts, sources, slots;  // of a ragged batch

  std::int64_t key_size() const { return layer.key_size.value(); }
  std::int64_t value_size() const { return layer.value_size.value(); }
  /// All operands in memory, in the order of the kernels' parameters.
  std::vector<std::uint32_t> buffers() const;
  /// Everything except the buffers.
  std::string to_string() const;

  /// Chunks of all sequences and states, and the bytes of the record of each (chunk_record.cuh).
  Dim chunks(const ExprTable& exprs) const;
  std::int64_t record_bytes() const;
  /// Integers of a ragged batch's table (chunk_table.cuh).
  Dim table_words(const ExprTable& exprs) const;
  /// Why the kernels for chunks do not take the layer on `device`; empty if they do.
  std::string no_chunks(const DeviceModel& device) const;
};

/// Tokens in a chunk.
inline constexpr std::int64_t kChunkTokens = 64;
/// A sequence of n tokens in a ragged batch has at most n / kLeastRaggedChunk chunks.
inline constexpr std::int64_t kLeastRaggedChunk = 32;
/// Tokens of a ragged batch whose chunks fit the table (chunk_table.cuh).
inline constexpr std::int64_t kMostRaggedTokens = 65536;

LinearAttentionProblem read_linear_attention(const OperatorRegion& region);

/// Columns of the states that a block has.
struct ChunkSchedule {
  std::int64_t slice = 0;
  std::vector<Condition> conditions;

  /// "linear_attention slice=32".
  std::string to_string() const;
};
inline constexpr int kChunkThreads = 256;
/// What the kernels for chunks hand on: buffers of the plan. `table`: of a ragged batch.
struct ChunkBuffers {
  std::uint32_t records = 0;
  std::optional<std::uint32_t> table = {};
};
/// Bytes of shared memory of a block of ChunkOperands and of ChunkStates; the kernels assert them.
std::int64_t operand_bytes(const LinearAttentionProblem& problem);
std::int64_t chunk_bytes(const LinearAttentionProblem& problem, std::int64_t slice);
/// In the order in which the runtime tests their conditions; the last has none. `forced`, if not
/// empty, is the only one, in to_string() form; Error(kUsage) if it is none of the layer's.
std::vector<ChunkSchedule> choose_chunks(const LinearAttentionProblem& problem, ExprTable& exprs,
                                         const DeviceModel& device, const std::string& forced);

}  // namespace sinter::codegen
