// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/attention/schedule/attention_schedule.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <sinter/error.h>

namespace sinter::codegen {
namespace {

/// Elements of a row in a warpgroup's tile: whole blocks of 64.
std::int64_t tile_width(std::int64_t head) { return (head + 63) / 64 * 64; }

}  // namespace

std::string AttentionSchedule::to_string() const {
  std::string text =
      fmt::format("attention rows={}x{} key_groups={} keys={} vector={}{}", row_warps, warp_rows,
                  key_groups, keys, vector, pairs ? "" : " single");
  if (ahead > 1) text += fmt::format(" ahead={}", ahead);
  if (splits > 1) text += fmt::format(" split_kv={}", splits);
  if (least_rows > 0) text += fmt::format(" least_rows={}", least_rows);
  if (most_rows > 0) text += fmt::format(" most_rows={}", most_rows);
  if (stages > 0) text += fmt::format(" stages={}", stages);
  if (queries > 1) text += fmt::format(" queries={}", queries);
  if (tma > 0) text += fmt::format(" tma={}", tma);
  if (blocks > 0) text += fmt::format(" blocks={}", blocks);
  if (turns > 0) text += fmt::format(" turns={}", turns);
  if (at_once > 0) text += fmt::format(" at_once={}", at_once);
  return text;
}

AttentionSchedule parse_attention_schedule(const std::string& text) {
  AttentionSchedule result;
  std::istringstream words(text);
  const auto refuse = [&] {
    throw Error(ErrorCode::kUnsupported, fmt::format("'{}' is no schedule of attention", text));
  };
  std::string word;
  words >> word;
  if (word != "attention") refuse();
  while (words >> word) {
    const std::size_t at = word.find('=');
    if (at == std::string::npos) continue;  // "single" follows from the program
    const std::string name = word.substr(0, at);
    int first = 0, second = 0;
    char times = 0;
    std::istringstream value(word.substr(at + 1));
    value >> first;
    if (name == "rows") {
      value >> times >> second;
      if (times != 'x' || (second != 8 && second != 16 && second != 32)) refuse();
      result.warp_rows = second;
    }
    if (!value || first < 1 || first > 4096) refuse();
    int* const field = name == "rows"         ? &result.row_warps
                       : name == "key_groups" ? &result.key_groups
                       : name == "keys"       ? &result.keys
                       : name == "vector"     ? &result.vector
                       : name == "ahead"      ? &result.ahead
                       : name == "split_kv"   ? &result.splits
                       : name == "stages"     ? &result.stages
                       : name == "queries"    ? &result.queries
                       : name == "least_rows" ? &result.least_rows
                       : name == "most_rows"  ? &result.most_rows
                       : name == "tma"        ? &result.tma
                       : name == "blocks"     ? &result.blocks
                       : name == "turns"      ? &result.turns
                       : name == "at_once"    ? &result.at_once
                                              : nullptr;
    if (field == nullptr) refuse();
    *field = first;
  }
  return result;
}

Dim tiles_of_rows(const AttentionProgram& program, int rows, const Ranges& ranges) {
  if (!program.bounds) return ir::ceil_div(program.rows, rows, ranges);
  const Dim all = program.rows * Dim(program.group), longest = program.longest * Dim(program.group);
  return ir::min(ir::floor_div(all, rows, ranges) + program.sequences,
                 program.sequences * ir::ceil_div(longest, rows, ranges), ranges);
}

Dim attention_tiles(const AttentionProgram& program, const AttentionSchedule& schedule,
                    const Ranges& ranges) {
  if (schedule.most_rows > 0 && schedule.most_rows <= schedule.rows()) return program.sequences;
  Dim tiles = tiles_of_rows(program, schedule.rows(), ranges);
  if (program.taken != PagedSequences::kLong) return tiles;
  const Dim all = program.rows * Dim(program.group);
  tiles = ir::min(
      tiles,
      ir::floor_div(all, schedule.rows(), ranges) + ir::floor_div(all, schedule.least_rows, ranges),
      ranges);
  // Zero if the kernel of short sequences takes all.
  const Dim beyond_few = all - Dim(kFewInTheMean) * program.sequences;
  return tiles * ir::min(Dim(1), ir::max(Dim(0), beyond_few, ranges), ranges);
}

std::uint32_t attention_shared_bytes(const AttentionProgram& program,
                                     const AttentionSchedule& schedule) {
  if (schedule.by_warpgroups()) {
    // In 16-bit elements. 8-bit tiles have rows of 128 bytes: keys, and value columns.
    const std::int64_t elements =
        program.eight_bit
            ? (std::int64_t{schedule.queries} * schedule.rows() +
               schedule.stages * (kEightBitKeys + program.value_head)) *
                  64
            : std::int64_t{schedule.queries} * schedule.rows() * tile_width(program.head) +
                  std::int64_t{schedule.stages} * schedule.keys *
                      (tile_width(program.head) + tile_width(program.value_head));
    // Staging of 8-bit rows (WidenedTile): 16 bytes and a scale for each thread.
    const auto widened = [&](std::int64_t head) {
      return (schedule.keys * (head / 16) + 127) / 128 * 128 * std::int64_t{16 + 4};
    };
    return static_cast<std::uint32_t>(
        1024 + elements * 2 + (2 * schedule.queries + 4 * schedule.stages) * std::int64_t{16} +
        (program.tables ? 2 * 64 : 0) +  // items passed to the consumers
        (program.key_scales ? widened(program.head) + widened(program.value_head) : 0));
  }
  const std::int64_t head = padded_head(program.head), value_head = padded_head(program.value_head);
  if (program.is_float32())  // Float32Rows::kSharedBytes
    return static_cast<std::uint32_t>(((schedule.rows() + schedule.keys) * (head + 4) +
                                       schedule.keys * value_head +
                                       schedule.rows() * (schedule.keys / 2 + 8)) *
                                      4);
  const std::int64_t steps = (head + 15) / 16, out_tiles = value_head / 8;
  const std::int64_t units = program.key_scales ? (steps | 1) + (out_tiles / 2 | 1)
                                                : (steps * 2 | 1) + (out_tiles | 1),
                     scales = program.key_scales ? 8 : 0;
  const std::int64_t tile = schedule.keys * (units * 16 + scales);
  // Partial results of key groups, and of the blocks of a cluster.
  const std::int64_t part = schedule.rows() * (value_head + 4) * 4;
  const std::int64_t merge = schedule.key_groups > 1 ? schedule.key_groups * part : 0;
  const std::int64_t sent = schedule.splits > 1 ? schedule.splits * part + 16 : 0;
  const std::int64_t front = program.front
                                 ? ((schedule.rows() + 1) * head + value_head) * std::int64_t{2} +
                                       (program.key_scales ? head + value_head + 16 : 0)
                                 : 0;
  return static_cast<std::uint32_t>(std::max(schedule.key_groups * schedule.ahead * tile, merge) +
                                    sent + front);
}

std::uint32_t reserved_shared_bytes(const AttentionProgram& program,
                                    const AttentionSchedule& schedule, const DeviceModel& device) {
  constexpr int kOfEachBlock = 1024,
                kUnit = 128;  // reserved by the system; allocation granularity
  const std::uint32_t needed = attention_shared_bytes(program, schedule);
  if (schedule.at_once == 0) return needed;
  const int share = device.block_shared_bytes / schedule.at_once - kOfEachBlock;
  return std::max(needed, static_cast<std::uint32_t>(share / kUnit * kUnit));
}

}  // namespace sinter::codegen
