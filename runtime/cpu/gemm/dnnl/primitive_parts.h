// SPDX-License-Identifier: Apache-2.0
// oneDNN primitives as parts of one step, which the pool's threads execute in parallel. Each
// primitive is single-threaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <dnnl.hpp>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/cpu/gemm/dnnl/lost_nan.h"

namespace sinter::runtime::cpu {

/// A primitive with its memory objects created ahead: a run only sets addresses.
class BoundPrimitive {
 public:
  /// `scratchpad`: layout of the primitive's scratchpad, which must be in user mode.
  BoundPrimitive(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad);

  /// Binds `argument` to plan buffer `buffer`, from `byte_offset` on.
  void bind(int argument, const dnnl::memory::desc& layout, std::uint32_t buffer,
            std::uint64_t byte_offset = 0);
  /// Binds `argument` to `memory` permanently.
  void bind(int argument, dnnl::memory memory);
  /// A block of a plan buffer, or of `memory`: `rows` of `width` bytes, `pitch` bytes apart.
  struct Block {
    std::uint32_t buffer = 0;
    std::byte* memory = nullptr;
    std::uint64_t byte_offset = 0;
    std::size_t rows = 0, width = 0, pitch = 0;
  };
  /// For primitives that do not support such a pitch: copies `block` to a dense operand of layout
  /// `layout` before execution, or a result back to `block` after it.
  void bind_copy(int argument, const dnnl::memory::desc& layout, const Block& block,
                 bool is_result);

  /// For an activation that loses NaN: `bare` restores them if some may be lost.
  void keep_nan(std::shared_ptr<BarePrimitive> bare) { bare_ = std::move(bare); }

  std::size_t scratch_bytes() const { return scratch_bytes_; }
  /// `scratch`: the calling thread's memory, 64-byte aligned.
  void execute(std::span<std::byte* const> buffers, std::byte* scratch);

 private:
  struct Address {
    dnnl_memory_t memory;
    std::uint32_t buffer;
    std::uint64_t byte_offset;
    const std::byte* last;
  };
  struct Copy {
    dnnl_memory_t memory;
    Block block;
    std::size_t scratch;  // offset in the scratch memory
    bool is_result;
  };
  std::size_t take_scratch(std::size_t bytes);
  void compute();
  void restore_nan();

  dnnl::primitive primitive_;
  std::shared_ptr<BarePrimitive> bare_;  // null: the primitive keeps NaN
  std::size_t scratch_bytes_ = 0;
  dnnl_memory_t scratch_ = nullptr;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
  std::vector<Address> addresses_;
  std::vector<Copy> copies_;
};

/// Independent primitives: none reads the output of another.
class PrimitiveParts {
 public:
  explicit PrimitiveParts(int threads) : threads_(threads) {}

  /// Adjacent parts should share operands.
  void add(BoundPrimitive part);
  std::size_t size() const { return parts_.size(); }
  /// Bytes for each thread.
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// `buffers` holds the address of each of plan.buffers. Throws dnnl::error.
  void execute(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces);

 private:
  int threads_;
  std::size_t workspace_bytes_ = 0;
  std::vector<BoundPrimitive> parts_;
};

/// Number of parts for this work. Several parts for each thread, so that others take over from one
/// that is preempted. A part takes at least ten times its startup cost and keeps one thread busy.
/// Does not depend on the number of threads, so that results do not either.
std::int64_t parts_for(double multiplications, double bytes);

}  // namespace sinter::runtime::cpu
