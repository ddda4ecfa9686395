// SPDX-License-Identifier: Apache-2.0
// oneDNN with Sinter's errors, and helpers shared by GEMMs and convolutions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <dnnl.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <sinter/dtype.h>
#include <sinter/error.h>

#include "runtime/cpu/gemm/dnnl/packed_weights.h"
#include "runtime/plan/plan_data.h"
#include "runtime/threads/thread_pool.h"

namespace sinter::runtime::cpu {

struct PackedWeights::Entry {
  dnnl::memory memory;
};

/// Throws Error(kUnsupported) if oneDNN would start its own threads.
const dnnl::engine& dnnl_engine();
/// Attributes of a primitive with a scratchpad provided by the user.
dnnl::primitive_attr dnnl_attributes();
/// The calling thread's stream.
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

/// True for oneDNN's reference implementations. They accept any layout, but are hundreds of times
/// slower than its vectorized kernels.
template <typename Description>
bool is_reference(const Description& description) {
  return std::string_view(description.impl_info_str()).starts_with("ref");
}

/// Appends post-ops for `activation` with parameters `a` and `b`. `in_cpp`: uses only those that
/// oneDNN's C++ fallback computes correctly; see must_be_spelled_out().
void append_activation(dnnl::post_ops& ops, plan::fb::Activation activation, float a = 0,
                       float b = 0, bool in_cpp = false);
/// True for activations that oneDNN's C++ fallback computes wrongly: sigmoid(NaN) is 0,
/// ReLU(-infinity) is NaN.
bool must_be_spelled_out(plan::fb::Activation activation);

/// Float32 is the type of most operands.
inline std::uint64_t bytes_of(std::int64_t elements, DType type = DType::kFloat32) {
  return static_cast<std::uint64_t>(elements) * size_of(type);
}
/// Supports f32, bf16, i32, i8 and u8.
dnnl::memory::data_type dnnl_type(DType type);

/// Whether oneDNN multiplies these integer types exactly on this CPU. Without VNNI, its kernels
/// saturate sums of two products.
bool multiplies_exactly(DType x, DType weights);

/// Whether the CPU has bfloat16 multiplication: AVX512_BF16 or AMX.
bool multiplies_bfloat16();

/// Multiplications with weights of `type` in the time of one in float32; a lower bound, since AMX
/// is faster.
constexpr double narrow_rate(DType type) {
  return type == DType::kFloat32 ? 1 : type == DType::kBFloat16 ? 2 : 3;
}

/// Those of float32 that a core does in a nanosecond, about.
inline constexpr double kMultiplicationsPerNanosecond = 64;
/// Minimum work for a thread.
inline constexpr double kMultiplicationsOfThread =
    threads::kNanosecondsOfThread * kMultiplicationsPerNanosecond;
/// Number of threads, at most `most`, that `multiplications` can keep busy.
int threads_for(double multiplications, int most);

/// `size` bytes that fill(section, to) makes from the weights of buffer `buffer`; `section` is the
/// start of the plan's weights. There is one copy for each plan and layout. `fill` is stored, so it
/// must not capture references.
template <typename Fill>
std::shared_ptr<const PackedWeights::Entry> copied(PackedWeights& weights, std::uint32_t buffer,
                                                   const std::string& layout, std::size_t size,
                                                   const Fill& fill) {
  return weights.find_or_make(buffer, layout, [&] {
    auto entry = std::make_shared<PackedWeights::Entry>();
    std::byte* to = weights.allocate(size);
    weights.fill_by([fill, to](const std::byte* section) { fill(section, to); });
    entry->memory = dnnl::memory({{static_cast<std::int64_t>(std::max<std::size_t>(size, 1))},
                                  dnnl::memory::data_type::u8,
                                  dnnl::memory::format_tag::a},
                                 dnnl_engine(), to);
    return entry;
  });
}

/// The weights of buffer `buffer`, at `data` in layout `plain`, reordered to layout `wanted`.
std::shared_ptr<const PackedWeights::Entry> pack(PackedWeights& weights, std::uint32_t buffer,
                                                 const void* data, const dnnl::memory::desc& plain,
                                                 const dnnl::memory::desc& wanted);

}  // namespace sinter::runtime::cpu
