// SPDX-License-Identifier: Apache-2.0
// oneDNN with Sinter's errors, and what products and convolutions share.
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

namespace sinter::runtime::cpu {

struct PackedWeights::Entry {
  dnnl::memory memory;
};

/// Throws Error(kUnsupported) if oneDNN's own threads cannot be kept out.
const dnnl::engine& dnnl_engine();
/// Attributes of a primitive that brings no scratch memory of its own.
dnnl::primitive_attr dnnl_attributes();
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

/// True for oneDNN's loops without vectors, hundreds of times as slow as its kernels: they take any
/// layout, so that what no kernel takes still has an implementation.
template <typename Description>
bool is_reference(const Description& description) {
  return std::string_view(description.impl_info_str()).starts_with("ref");
}

/// Appends what computes `activation`, of parameters `a` and `b`, on the result. `in_cpp`: as
/// oneDNN's C++ has it right, see must_be_spelled_out().
void append_activation(dnnl::post_ops& ops, plan::fb::Activation activation, float a = 0,
                       float b = 0, bool in_cpp = false);
/// True for activations that oneDNN's C++ fallback computes wrongly: its sigmoid of NaN is 0, its
/// ReLU of -infinity is NaN.
bool must_be_spelled_out(plan::fb::Activation activation);

/// Of float32, what most operands are.
inline std::uint64_t bytes_of(std::int64_t elements, DType type = DType::kFloat32) {
  return static_cast<std::uint64_t>(elements) * size_of(type);
}
/// f32, bf16, i32, i8 or u8.
dnnl::memory::data_type dnnl_type(DType type);

/// Whether oneDNN multiplies these integer types exactly on this processor. Without VNNI its
/// kernels saturate sums of two products.
bool multiplies_exactly(DType x, DType weights);

/// Whether the processor has instructions for products of bfloat16, AVX512_BF16 or AMX.
bool multiplies_bfloat16();

/// Multiplications of weights of `type` in the time of one of float32, at least: AMX has more.
constexpr double narrow_rate(DType type) {
  return type == DType::kFloat32 ? 1 : type == DType::kBFloat16 ? 2 : 3;
}

/// Waking a thread for less work (a few microseconds) costs more than it saves.
inline constexpr double kMultiplicationsOfThread = 256 * 1024;
/// Number of threads, at most `most`, that `multiplications` can keep busy.
int threads_for(double multiplications, int most);

/// `size` bytes that `fill` makes of the weights of buffer `buffer`, one copy for a plan and a
/// layout: fill(section, to), where the plan's weights begin at `section`. It is kept, and refers
/// to nothing that may go.
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

/// The weights of buffer `buffer`, which lie at `data` as `plain`, in layout `wanted`.
std::shared_ptr<const PackedWeights::Entry> pack(PackedWeights& weights, std::uint32_t buffer,
                                                 const void* data, const dnnl::memory::desc& plain,
                                                 const dnnl::memory::desc& wanted);

}  // namespace sinter::runtime::cpu
