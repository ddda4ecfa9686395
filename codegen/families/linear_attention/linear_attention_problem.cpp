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

std::int64_t aligned(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }

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
  return layer.batch * Dim(layer.heads()) *
         ir::ceil_div(layer.length, Dim(kChunkTokens), exprs.ranges());
}

namespace {

struct RecordParts {
  std::int64_t shared = 0, added = 0;  // bytes: of what all slices read, and of the columns
};
RecordParts record_parts(const LinearAttentionProblem& problem) {
  constexpr std::int64_t kTiles = kChunkTokens / kTile;
  const std::int64_t keys = problem.key_size() / kTile, values = problem.value_size() / kTile;
  const std::int64_t of_keys = problem.layer.rule == ir::UpdateRule::kLinear ? 2 : 3;
  return {(of_keys * kTiles * keys + kTiles * (kTiles + 1) / 2) * kLanes +
              (problem.decay ? problem.key_size() * 4 : 0),
          kTiles * values * kLanes};
}

}  // namespace

std::int64_t LinearAttentionProblem::record_bytes() const {
  const RecordParts parts = record_parts(*this);
  return parts.shared + parts.added;
}

std::int64_t operand_bytes(const LinearAttentionProblem& problem) {
  const std::int64_t keys = problem.key_size(), values = problem.value_size();
  const bool erases = problem.layer.rule != ir::UpdateRule::kLinear;
  return kChunkTokens * 2 * (2 * (keys + kPad) + values + kPad) +
         kChunkTokens * 4 * (problem.layer.by_channel ? keys + 4 : 1) +
         aligned((erases ? kChunkTokens : 1) * (kChunkTokens + 4) * 4) + kChunkTokens * 4;
}

std::int64_t chunk_bytes(const LinearAttentionProblem& problem, const ChunkSchedule& schedule) {
  const std::int64_t stage =
      record_parts(problem).shared + kChunkTokens / kTile * (schedule.slice / kTile) * kLanes;
  return schedule.stages * stage +
         (problem.key_size() + kChunkTokens) * (schedule.slice + kPad) * 2;
}

std::string LinearAttentionProblem::no_chunks(const DeviceModel& device) const {
  if (size_of(query.type) != 2) return "chunks are products of 16 bits";
  if (layer.is_ragged()) return "its sequences are of several lengths";
  if (layer.rule == ir::UpdateRule::kGeneralDelta) return "its rule is general";
  if (layer.out_heads() != layer.heads()) return "several queries read each state";
  if (key_size() % 64 != 0) return "its keys are no multiple of 64";
  if (value_size() % kTile != 0) return "its values are no multiple of 16";
  if (operand_bytes(*this) > device.block_shared_bytes ||
      chunk_bytes(*this, {kTile, 1, {}}) > device.block_shared_bytes)
    return fmt::format("a chunk does not fit the shared memory of {}", device.architecture);
  return "";
}

std::string ChunkSchedule::to_string() const {
  return fmt::format("linear_attention slice={} stages={}", slice, stages);
}

std::vector<ChunkSchedule> choose_chunks(const LinearAttentionProblem& problem, ExprTable& exprs,
                                         const DeviceModel& device, const std::string& forced) {
  constexpr int kMostStages = 3;
  // Wider slices read less; narrower ones are more blocks, of which each multiprocessor needs one.
  constexpr double kFullShare = 0.75;
  constexpr std::int64_t kWidest = 64;
  std::vector<ChunkSchedule> all;
  for (std::int64_t slice = kTile; slice <= kWidest; slice *= 2) {
    if (problem.value_size() % slice != 0) break;
    for (int stages = kMostStages; stages > 0; --stages) {
      ChunkSchedule schedule{slice, stages, {}};
      if (chunk_bytes(problem, schedule) > device.block_shared_bytes) continue;
      if (forced == schedule.to_string()) return {schedule};
      if (all.empty() || all.back().slice < slice) all.push_back(schedule);
    }
  }
  if (!forced.empty())
    throw Error(ErrorCode::kUsage, fmt::format("schedule '{}' is none of this layer's: '{}' is",
                                               forced, all.front().to_string()));
  const Dim& batch = problem.layer.batch;
  const std::int64_t least =
      std::max<std::int64_t>(ir::lower_bound(batch, exprs.ranges()).value_or(1), 1);
  const auto most = ir::upper_bound(batch, exprs.ranges());
  std::vector<ChunkSchedule> chosen;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i + 1 == all.size()) {
      chosen.push_back(all[i]);
      break;
    }
    // Sequences with which the next slices are too few blocks.
    const std::int64_t blocks = problem.layer.heads() * (problem.value_size() / all[i + 1].slice);
    const auto few = static_cast<std::int64_t>(kFullShare * device.multiprocessors);
    const std::int64_t limit = (few + blocks - 1) / blocks - 1;
    if (limit < least) continue;
    chosen.push_back(all[i]);
    if (most && *most <= limit) break;
    chosen.back().conditions.emplace_back(exprs.intern(batch), 1, limit);
  }
  return chosen;
}

}  // namespace sinter::codegen
