// SPDX-License-Identifier: Apache-2.0
// oneDNN's primitives as parts of one step, which threads of the pool execute side by side: each
// primitive is made for and run by one thread.
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

/// A primitive with everything that its execution needs made beforehand: a run only sets addresses.
class BoundPrimitive {
 public:
  /// `scratchpad`: of the primitive, whose attributes say that the user brings it.
  BoundPrimitive(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad);

  /// `argument` lies in plan buffer `buffer` from `byte_offset` on.
  void bind(int argument, const dnnl::memory::desc& layout, std::uint32_t buffer,
            std::uint64_t byte_offset = 0);
  /// `argument` is `memory` at all times.
  void bind(int argument, dnnl::memory memory);
  /// A block of a plan buffer, or of `memory`: `rows` of `width` bytes, `pitch` bytes apart.
  struct Block {
    std::uint32_t buffer = 0;
    std::byte* memory = nullptr;
    std::uint64_t byte_offset = 0;
    std::size_t rows = 0, width = 0, pitch = 0;
  };
  /// `argument`, of dense `layout`, is copied from `block` (into it, if it is a result), for
  /// primitives that take no such pitch.
  void bind_copy(int argument, const dnnl::memory::desc& layout, const Block& block,
                 bool is_result);

  /// The activation that it ends with loses NaN: where that may have happened, `bare` finds them.
  void keep_nan(std::shared_ptr<BarePrimitive> bare) { bare_ = std::move(bare); }

  std::size_t scratch_bytes() const { return scratch_bytes_; }
  /// `scratch`: memory of the calling thread's own, 64-byte aligned.
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
    std::size_t scratch;  // where it lies in the scratch memory
    bool is_result;
  };
  std::size_t take_scratch(std::size_t bytes);
  void compute();
  void restore_nan();

  dnnl::primitive primitive_;
  std::shared_ptr<BarePrimitive> bare_;  // null: it keeps NaN
  std::size_t scratch_bytes_ = 0;
  dnnl_memory_t scratch_ = nullptr;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
  std::vector<Address> addresses_;
  std::vector<Copy> copies_;
};

/// Primitives that do not read what another of them writes.
class PrimitiveParts {
 public:
  explicit PrimitiveParts(int threads) : threads_(threads) {}

  /// Neighbours share operands.
  void add(BoundPrimitive part);
  std::size_t size() const { return parts_.size(); }
  /// Bytes that each thread needs.
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// `buffers` has the address of each of plan.buffers. Throws dnnl::error.
  void execute(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces);

 private:
  int threads_;
  std::size_t workspace_bytes_ = 0;
  std::vector<BoundPrimitive> parts_;
};

/// Number of parts into which to divide this work. Several parts a thread, so that other threads
/// take over from one that has lost its processor. A part takes at least about ten times what
/// starting it does, and has as many multiplications as a thread is worth. The number does not
/// depend on the number of threads, since results must not.
std::int64_t parts_for(double multiplications, double bytes);

}  // namespace sinter::runtime::cpu
