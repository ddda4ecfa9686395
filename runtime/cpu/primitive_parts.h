// oneDNN's primitives as parts of one step, which threads of the pool execute side by side: each
// primitive is made for and run by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <dnnl.hpp>
#include <span>
#include <vector>

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
  dnnl::primitive primitive_;
  std::size_t scratch_bytes_ = 0;
  dnnl_memory_t scratch_ = nullptr;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
  std::vector<Address> addresses_;
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

/// Parts that are worth having of work that takes one thread so long: several times as many as
/// threads, so that others take over what a thread that has lost its processor leaves, but none
/// that takes less than about ten times what starting it does. It knows nothing of the threads
/// there are: results must not depend on them.
std::int64_t parts_for(double microseconds);

/// About what one thread takes for a product's multiplications, and for bytes from memory.
double microseconds_of(double multiplications, double bytes);

}  // namespace sinter::runtime::cpu
