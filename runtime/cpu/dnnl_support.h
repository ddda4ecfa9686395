// oneDNN with Sinter's errors, and what products and convolutions share.
#pragma once

#include <dnnl.hpp>
#include <string>
#include <unordered_map>
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
decltype(auto) with_dnnl_errors(const std::string& what, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const dnnl::error& error) {
    throw Error(
        error.status == dnnl_out_of_memory ? ErrorCode::kOutOfMemory : ErrorCode::kUnsupported,
        what + ": oneDNN: " + error.message);
  }
}

/// Appends what computes `activation` on the result.
void append_activation(dnnl::post_ops& ops, plan::fb::Activation activation);

/// The weights of buffer `buffer`, which lie at `data` as `plain`, in layout `wanted`.
std::shared_ptr<const PackedWeights::Entry> pack(PackedWeights& weights, std::uint32_t buffer,
                                                 const void* data, const dnnl::memory::desc& plain,
                                                 const dnnl::memory::desc& wanted);

/// A primitive whose arguments' addresses are set at each run.
struct BoundPrimitive {
  dnnl::primitive primitive;
  std::unordered_map<int, dnnl::memory> arguments;
  struct Address {
    int argument;
    std::uint32_t buffer;
    std::uint64_t byte_offset;
  };
  std::vector<Address> addresses;

  void bind(int argument, const dnnl::memory::desc& layout, std::uint32_t buffer,
            std::uint64_t byte_offset = 0);
  void execute(std::span<std::byte* const> buffers);
};

}  // namespace sinter::runtime::cpu
