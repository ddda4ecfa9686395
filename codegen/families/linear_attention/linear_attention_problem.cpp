// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/linear_attention/linear_attention_problem.h"

#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

namespace sinter::codegen {
namespace {

constexpr std::int64_t kTile = 16;    // rows and columns of a fragment
constexpr std::int64_t kPad = 8;      // elements between rows in shared memory
constexpr std::int64_t kLanes = 512;  // bytes of a fragment of a warp

}  // namespace

LinearAttentionProblem read_linear_attention(const OperatorRegion& region) {
  LinearAttentionProblem problem;
  problem.layer = ir::linear_attention(region.node.attrs, region.body.types(region.node.inputs));
  const auto input = [&](std::size_t i) {
    return StateOperand{region.buffer(i), region.type(i).dtype};
  };
  const auto optional = [&](const std::optional<std::size_t>& i) {
    return i ? std::optional(input(*i)) : std::nullopt;
  };
  const auto result = [&](std::size_t i) {
    return StateOperand{region.region.outputs[i], region.body.type(region.node.outputs[i]).dtype};
  };
  problem.query = input(0);
  problem.key = input(1);
  problem.value = input(2);
  const ir::LinearAttentionInputs& which = problem.layer.inputs;
  problem.decay = optional(which.decay);
  problem.beta = optional(which.beta);
  problem.erase = optional(which.erase);
  problem.state = optional(which.state);
  problem.starts = optional(which.starts);
  problem.sources = optional(which.sources);
  problem.slots = optional(which.slots);
  problem.out = result(0);
  problem.new_state = result(1);
  return problem;
}

std::vector<std::uint32_t> LinearAttentionProblem::buffers() const {
  std::vector<std::uint32_t> all = {query.buffer, key.buffer, value.buffer};
  for (const auto* operand : {&decay, &beta, &erase, &state, &starts, &sources, &slots})
    if (*operand) all.push_back((*operand)->buffer);
  all.push_back(out.buffer);
  all.push_back(new_state.buffer);
  return all;
}

std::string LinearAttentionProblem::to_string() const {
  std::string text = fmt::format(
      "linear attention {} scale {} by channel {} states {}x{} of {} heads {} {} {} batch {} "
      "length {} {}",
      ir::to_string(layer.rule), layer.scale, layer.by_channel, key_size(), value_size(),
      layer.heads(), layer.query_heads, layer.key_heads, layer.value_heads, layer.batch.to_string(),
      layer.length.to_string(), sinter::to_string(query.type));
  for (const auto* operand : {&decay, &beta, &erase, &state})
    text += *operand ? fmt::format(" {}", sinter::to_string((*operand)->type)) : " none";
  if (layer.is_ragged()) text += fmt::format(" of {} sequences", layer.sequences.to_string());
  return text + fmt::format(" {}", sinter::to_string(new_state.type));
}

Dim LinearAttentionProblem::chunks(const ExprTable& exprs) const {
  const std::int64_t tokens = layer.is_ragged() ? kLeastRaggedChunk : kChunkTokens;
  return layer.batch * Dim(layer.heads()) * ir::ceil_div(layer.length, Dim(tokens), exprs.ranges());
}

Dim LinearAttentionProblem::table_words(const ExprTable& exprs) const {
  return ir::ceil_div(layer.length, Dim(kLeastRaggedChunk), exprs.ranges()) * Dim(4) +
         layer.sequences + Dim(1);
}

namespace {

/// Bytes of what changes a state, of what reads it and of the columns.
struct RecordParts {
  std::int64_t changing = 0, reading = 0, added = 0;
};
RecordParts record_parts(const LinearAttentionProblem& problem) {
  constexpr std::int64_t kTiles = kChunkTokens / kTile;
  const std::int64_t keys = problem.key_size() / kTile, values = problem.value_size() / kTile;
  const std::int64_t of_keys = problem.layer.rule == ir::UpdateRule::kLinear ? 1 : 2;
  return {of_keys * kTiles * keys * kLanes + (problem.decay ? problem.key_size() * 4 : 0),
          (kTiles * keys + kTiles * (kTiles + 1) / 2) * kLanes, kTiles * values * kLanes};
}

}  // namespace

std::int64_t LinearAttentionProblem::record_bytes() const {
  const RecordParts parts = record_parts(*this);
  return parts.changing + parts.reading + parts.added;
}

std::int64_t operand_bytes(const LinearAttentionProblem& problem) {
  const std::int64_t keys = problem.key_size() + kPad, values = problem.value_size() + kPad;
  const bool erases = problem.layer.rule != ir::UpdateRule::kLinear;
  const std::int64_t queries = erases ? std::max(keys, (kChunkTokens + 4) * std::int64_t{2}) : keys;
  return kChunkTokens * 2 * (queries + keys + values) +
         kChunkTokens * 4 * (problem.layer.by_channel ? problem.key_size() + 4 : 1) +
         kChunkTokens * 4;
}

std::int64_t chunk_bytes(const LinearAttentionProblem& problem, std::int64_t slice) {
  return 2 * (slice / kTile) * (problem.key_size() + kChunkTokens) / kTile * kLanes;
}

std::string LinearAttentionProblem::no_chunks(const DeviceModel& device) const {
  if (size_of(query.type) != 2) return "chunks are products of 16 bits";
  if (layer.rule == ir::UpdateRule::kGeneralDelta) return "its rule is general";
  if (layer.out_heads() != layer.heads()) return "several queries read each state";
  if (key_size() % 64 != 0) return "its keys are no multiple of 64";
  if (value_size() % kTile != 0) return "its values are no multiple of 16";
  if (std::max(operand_bytes(*this), chunk_bytes(*this, kTile)) > device.block_shared_bytes)
    return fmt::format("a chunk does not fit the shared memory of {}", device.architecture);
  return "";
}

namespace {

/// What a thread of ChunkStates holds from one chunk to the next: states, and the next record's
/// tiles.
constexpr std::int64_t kMostRegisters = 160;
std::int64_t registers(const LinearAttentionProblem& problem, std::int64_t slice) {
  const std::int64_t columns = slice / kTile, keys = problem.key_size() / kTile;
  return columns * (keys / 4) * 8 + keys * 2 * 4 + columns * 4;
}

}  // namespace

std::string ChunkSchedule::to_string() const {
  return fmt::format("linear_attention slice={}", slice);
}

std::vector<ChunkSchedule> choose_chunks(const LinearAttentionProblem& problem, ExprTable& exprs,
                                         const DeviceModel& device, const std::string& forced) {
  constexpr std::int64_t kWidest = 64;
  std::vector<ChunkSchedule> all;
  for (std::int64_t slice = kTile; slice <= kWidest; slice *= 2) {
    if (problem.value_size() % slice != 0) break;
    const ChunkSchedule schedule{slice, {}};
    if (slice > kTile && (chunk_bytes(problem, slice) > device.block_shared_bytes ||
                          registers(problem, slice) > kMostRegisters))
      break;
    if (forced == schedule.to_string()) return {schedule};
    all.push_back(schedule);
  }
  if (!forced.empty())
    throw Error(ErrorCode::kUsage, fmt::format("schedule '{}' is none of this layer's: '{}' is",
                                               forced, all.front().to_string()));
  const Dim& batch = problem.layer.batch;
  const std::int64_t least =
      std::max<std::int64_t>(ir::lower_bound(batch, exprs.ranges()).value_or(1), 1);
  const auto most = ir::upper_bound(batch, exprs.ranges());
  std::vector<ChunkSchedule> chosen;
  for (const ChunkSchedule& schedule : all) {
    // The narrowest, whose chunks take the least time, of those whose blocks have a multiprocessor
    // each: of sequences up to this number.
    const std::int64_t limit =
        device.multiprocessors / (problem.layer.heads() * (problem.value_size() / schedule.slice));
    const bool is_last = &schedule == &all.back();
    if (!is_last && limit < least) continue;
    chosen.push_back(schedule);
    if (is_last || (most && *most <= limit)) break;
    chosen.back().conditions.emplace_back(exprs.intern(batch), 1, limit);
  }
  return chosen;
}

}  // namespace sinter::codegen
