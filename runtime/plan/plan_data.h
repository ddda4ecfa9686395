// SPDX-License-Identifier: Apache-2.0
// A plan in memory: the metadata and its blobs, before writing and after loading.
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

inline constexpr std::uint32_t kFormatVersion = 10;       // what is written: formats.cpp
inline constexpr std::uint32_t kOldestFormatVersion = 8;  // what is read
/// In place of Plan.buffers: the scores that AttentionStep.scores reads and writes, and the sink of
/// their row.
inline constexpr std::uint32_t kScoreBuffer = 0xfffffffe, kSinkBuffer = 0xfffffffd;
constexpr bool is_of_scores(std::uint32_t buffer) {
  return buffer == kScoreBuffer || buffer == kSinkBuffer;
}
inline constexpr std::size_t kSectionAlignment = 4096;
inline constexpr std::size_t kWeightAlignment = 256;
// What bytes that are not copied begin at: a cache line, which weights lie at too.
inline constexpr std::size_t kBorrowedAlignment = 64;

/// Sections of a plan file, in file order.
enum class Section { kMetadata = 0, kWeights = 1, kModules = 2, kSources = 3 };
inline constexpr int kSectionCount = 4;

/// A loaded plan: verified metadata, and views of the mapped blobs.
struct PlanData {
  fb::PlanT meta;
  std::span<const std::byte> weights, modules, sources;
  std::shared_ptr<const void> owner;              // keeps the spans valid: a mapping or a buffer
  std::string path;                               // where it was read from; empty: from memory
  std::uint32_t format_version = kFormatVersion;  // of the file; `meta` is of today's

  std::span<const std::byte> weight(const fb::BufferT& buffer, std::uint64_t bytes) const;
};

/// Bytes that are there while `owner` lives.
struct PieceBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// What a writer needs: metadata, and the blobs as lists of pieces that are written one after the
/// other at the offsets that the metadata gives.
struct PlanParts {
  struct Piece {
    Piece(std::uint64_t at, std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
        : Piece(at, bytes.size(), [bytes, owner = std::move(owner)] {
            return PieceBytes{bytes, owner};
          }) {}
    /// `bytes` gives them when they are written; what is large need not be in memory before.
    Piece(std::uint64_t at, std::uint64_t byte_count, std::function<PieceBytes()> bytes)
        : offset(at), size(byte_count), read(std::move(bytes)) {}

    std::uint64_t offset, size;
    std::function<PieceBytes()> read;
  };
  fb::PlanT meta;
  std::vector<Piece> weights, modules, sources;
};

/// Writes the plan to `path`, which it is at once or not at all. The bytes depend on the
/// parts alone. Throws Error(kUsage) if the path cannot be written.
void write_plan(const PlanParts& parts, const std::string& path);
/// The same bytes in memory.
std::vector<std::byte> serialize_plan(const PlanParts& parts);

/// Is given all bytes of a file before anything else looks at them, and throws what is wrong.
using FileCheck = std::function<void(std::span<const std::byte> file)>;

/// Maps and checks a plan file; throws Error(kInvalidPlan) saying what is wrong and how to mend it,
/// Error(kUsage) if the file cannot be opened.
std::shared_ptr<const PlanData> read_plan(const std::string& path, const FileCheck& check = {});
/// The same without a mapping: the file may be changed or truncated afterwards.
std::shared_ptr<const PlanData> read_plan_copy(const std::string& path,
                                               const FileCheck& check = {});
/// The same for bytes in memory, which are copied.
std::shared_ptr<const PlanData> parse_plan(std::span<const std::byte> bytes,
                                           const FileCheck& check = {});
/// The same for bytes that stay where they are while `owner` lives. Throws Error(kUsage) unless
/// they are aligned to kBorrowedAlignment.
std::shared_ptr<const PlanData> borrow_plan(std::span<const std::byte> bytes,
                                            std::shared_ptr<const void> owner,
                                            const FileCheck& check = {});

/// Values of all expressions of `plan` for symbol values in the order of plan.symbols. Throws
/// Error(kInvalidPlan) for overflow or division by zero.
std::vector<std::int64_t> evaluate_expressions(const fb::PlanT& plan,
                                               std::span<const std::int64_t> symbols);

/// Neighbouring steps of a plan.
struct StepRange {
  std::size_t first = 0, count = SIZE_MAX;
  bool contains(std::size_t step) const { return step >= first && step - first < count; }
};

/// Where each arena buffer lies for one bound shape.
struct MemoryLayout {
  std::vector<std::uint64_t> offsets;  // one for each of plan.buffers; arena buffers only
  std::uint64_t arena_bytes = 0;       // with lifetimes overlapped
  std::uint64_t unshared_bytes = 0;    // what it would be without reuse
};
/// Places arena buffers, largest first at the lowest offset free over their lifetime, 256-byte
/// aligned. Deterministic. Only those that `steps` use. Throws Error(kInvalidPlan) if a size is
/// negative or overflows.
MemoryLayout plan_memory(const fb::PlanT& plan, std::span<const std::int64_t> expressions,
                         StepRange steps = {});

}  // namespace sinter::plan
