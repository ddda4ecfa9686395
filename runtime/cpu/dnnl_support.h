// oneDNN with Sinter's errors, and what products and convolutions share.
#pragma once

#include <cstdint>
#include <dnnl.hpp>
#include <span>
#include <utility>
#include <vector>

#include <sinter/error.h>

#include "runtime/cpu/matmul_dnnl.h"

namespace sinter::runtime::cpu {

struct PackedWeights::Entry {
  dnnl::memory memory;
};

const dnnl::engine& dnnl_engine();
/// A stream of the calling thread.
dnnl::stream& dnnl_stream();

/// Runs `body`; a oneDNN error becomes an Error that names `what`.
template <typename Body>
decltype(auto) with_dnnl_errors(const char* what, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const dnnl::error& error) {
    throw Error(
        error.status == dnnl_out_of_memory ? ErrorCode::kOutOfMemory : ErrorCode::kUnsupported,
        std::string(what) + ": oneDNN: " + error.message);
  }
}

/// Appends what computes `activation`, of parameters `a` and `b`, on the result. False, appending
/// nothing, for a HardSwish that oneDNN has no operation for: of others than 1/6 and 0.5.
bool append_activation(dnnl::post_ops& ops, plan::fb::Activation activation, float a = 0,
                       float b = 0);

/// Threads that are worth having for so many multiplications: a team that wakes for less than a few
/// microseconds of work costs more than it brings.
int threads_for(double multiplications);

/// The weights of buffer `buffer`, which lie at `data` as `plain`, in layout `wanted`.
std::shared_ptr<const PackedWeights::Entry> pack(PackedWeights& weights, std::uint32_t buffer,
                                                 const void* data, const dnnl::memory::desc& plain,
                                                 const dnnl::memory::desc& wanted);

/// A primitive with everything that its execution needs made beforehand: a run only sets addresses.
class BoundPrimitive {
 public:
  /// Made under, and to be run by, at most `threads` threads.
  BoundPrimitive(dnnl::primitive primitive, int threads)
      : primitive_(std::move(primitive)), threads_(threads) {}

  /// `argument` lies in plan buffer `buffer` from `byte_offset` on.
  void bind(int argument, const dnnl::memory::desc& layout, std::uint32_t buffer,
            std::uint64_t byte_offset = 0);
  /// `argument` is `memory` at all times.
  void bind(int argument, dnnl::memory memory);
  void execute(std::span<std::byte* const> buffers);

 private:
  struct Address {
    dnnl_memory_t memory;
    std::uint32_t buffer;
    std::uint64_t byte_offset;
    const std::byte* last;
  };
  dnnl::primitive primitive_;
  int threads_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
  std::vector<Address> addresses_;
};

}  // namespace sinter::runtime::cpu
