// SPDX-License-Identifier: Apache-2.0
// A plan in memory: metadata and binary sections, before writing and after loading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plan_generated.h"

namespace sinter::plan {

inline constexpr std::uint32_t kFormatVersion = 11;       // the version written: formats.cpp
inline constexpr std::uint32_t kOldestFormatVersion = 9;  // the oldest version readable
/// Buffer numbers in AttentionStep.scores beyond Plan.buffers: the scores that the program reads
/// and writes, and their row's sink.
inline constexpr std::uint32_t kScoreBuffer = 0xfffffffe, kSinkBuffer = 0xfffffffd;
constexpr bool is_of_scores(std::uint32_t buffer) {
  return buffer == kScoreBuffer || buffer == kSinkBuffer;
}
/// Ranks of one plan, all of one host.
inline constexpr std::uint32_t kMostRanks = 64;
inline constexpr std::size_t kSectionAlignment = 4096;
inline constexpr std::size_t kWeightAlignment = 256;
// Required alignment of bytes that are not copied: a cache line, which is also the alignment of
// weights.
inline constexpr std::size_t kBorrowedAlignment = 64;

/// Sections of a plan file, in file order.
enum class Section { kMetadata = 0, kWeights = 1, kModules = 2, kSources = 3 };
inline constexpr int kSectionCount = 4;

/// A loaded plan: verified metadata, and views of the mapped sections.
struct PlanData {
  fb::PlanT meta;
  std::span<const std::byte> weights, modules, sources;
  std::shared_ptr<const void> owner;              // keeps the spans valid: a mapping or a buffer
  std::string path;                               // path of the file; empty: from memory
  std::uint32_t format_version = kFormatVersion;  // version of the file; `meta` is upgraded to
                                                  // kFormatVersion

  std::span<const std::byte> weight(const fb::BufferT& buffer, std::uint64_t bytes) const;
};

/// Bytes that `owner` keeps alive.
struct PieceBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// A writer's input: metadata, and each section as a list of pieces at the offsets that the
/// metadata gives.
struct PlanParts {
  struct Piece {
    Piece(std::uint64_t at, std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
        : Piece(at, bytes.size(), [bytes, owner = std::move(owner)] {
            return PieceBytes{bytes, owner};
          }) {}
    /// A lazy piece: `bytes` is called when the piece is written, so large pieces need no memory
    /// before.
    Piece(std::uint64_t at, std::uint64_t byte_count, std::function<PieceBytes()> bytes)
        : offset(at), size(byte_count), read(std::move(bytes)) {}

    std::uint64_t offset, size;
    std::function<PieceBytes()> read;
  };
  fb::PlanT meta;
  std::vector<Piece> weights, modules, sources;
};

/// Writes the plan to `path` atomically. The bytes depend only on the parts. Throws Error(kUsage)
/// if the path cannot be written.
void write_plan(const PlanParts& parts, const std::string& path);
/// Returns the same bytes in memory.
std::vector<std::byte> serialize_plan(const PlanParts& parts);

/// Checks all bytes of a file before any other use; throws if they are invalid.
using FileCheck = std::function<void(std::span<const std::byte> file)>;

/// Maps and checks a plan file. Throws Error(kInvalidPlan) with the problem and its remedy,
/// Error(kUsage) if the file cannot be opened.
std::shared_ptr<const PlanData> read_plan(const std::string& path, const FileCheck& check = {});
/// The same without a mapping: the file may change or be truncated afterwards.
std::shared_ptr<const PlanData> read_plan_copy(const std::string& path,
                                               const FileCheck& check = {});
/// The same for bytes in memory, which are copied.
std::shared_ptr<const PlanData> parse_plan(std::span<const std::byte> bytes,
                                           const FileCheck& check = {});
/// The same for bytes that `owner` keeps valid. Throws Error(kUsage) unless they are aligned to
/// kBorrowedAlignment.
std::shared_ptr<const PlanData> borrow_plan(std::span<const std::byte> bytes,
                                            std::shared_ptr<const void> owner,
                                            const FileCheck& check = {});

/// Evaluates all expressions of `plan`; `symbols` are in the order of plan.symbols. Throws
/// Error(kInvalidPlan) for overflow or division by zero.
std::vector<std::int64_t> evaluate_expressions(const fb::PlanT& plan,
                                               std::span<const std::int64_t> symbols);

/// Consecutive steps of a plan.
struct StepRange {
  std::size_t first = 0, count = SIZE_MAX;
  bool contains(std::size_t step) const { return step >= first && step - first < count; }
};

/// Offset of each arena buffer for one bound shape.
struct MemoryLayout {
  std::vector<std::uint64_t> offsets;  // one for each of plan.buffers; set for arena buffers only
  std::uint64_t arena_bytes = 0;       // with reuse of memory between lifetimes
  std::uint64_t unshared_bytes = 0;    // without reuse
};
/// Places arena buffers: largest first, at the lowest offset free over their lifetime, aligned to
/// 256 bytes. Deterministic. Considers only buffers that `steps` use. Throws Error(kInvalidPlan) if
/// a size is negative or overflows.
MemoryLayout plan_memory(const fb::PlanT& plan, std::span<const std::int64_t> expressions,
                         StepRange steps = {});

}  // namespace sinter::plan
