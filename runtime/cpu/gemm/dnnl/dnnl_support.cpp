// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm/dnnl/dnnl_support.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <vector>

#include <fmt/ranges.h>

#include "runtime/format_error.h"
#include "runtime/threads/openmp.h"

namespace sinter::runtime::cpu {

using plan::fb::Activation;

namespace {

/// A key, equal for equal layouts. Only blocked layouts can be described completely; any other
/// layout gets a unique key.
std::string layout_of(const dnnl::memory::desc& layout) {
  if (layout.get_format_kind() != dnnl::memory::format_kind::blocked) {
    static std::atomic<int> others = 0;
    return fmt::format("other {}; ", others++);
  }
  return fmt::format("{} {} {} {} {} {} {}; ", static_cast<int>(layout.get_data_type()),
                     fmt::join(layout.get_dims(), ","), fmt::join(layout.get_padded_dims(), ","),
                     fmt::join(layout.get_strides(), ","), layout.get_submemory_offset(),
                     fmt::join(layout.get_inner_blks(), ","),
                     fmt::join(layout.get_inner_idxs(), ","));
}

}  // namespace

// The engine and streams are never destroyed: threads may compute during static destruction.
const dnnl::engine& dnnl_engine() {
  static const dnnl::engine& engine = *[] {
    const unsigned own_threads = dnnl_version()->cpu_runtime;
    if (own_threads != DNNL_RUNTIME_SEQ && own_threads != DNNL_RUNTIME_OMP)
      throw unsupported_error(
          "oneDNN was built for another runtime of threads than OpenMP (or none), which "
          "would start threads of its own: build it with ONEDNN_CPU_RUNTIME=SEQ or OMP");
    if (own_threads == DNNL_RUNTIME_OMP && !threads::has_openmp())
      throw unsupported_error(
          "oneDNN was built for OpenMP, but omp_set_num_threads is not found, without which it "
          "would start threads of its own: link its OpenMP runtime as a shared library");
    return new dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  // Repeated at each call: OpenMP may be loaded after the thread started, and creating a primitive
  // fixes its number of threads.
  threads::keep_openmp_out();
  return engine;
}

dnnl::primitive_attr dnnl_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

dnnl::stream& dnnl_stream() {
  thread_local dnnl::stream stream(dnnl_engine());
  threads::keep_openmp_out();
  return stream;
}

dnnl::memory::data_type dnnl_type(DType type) {
  using data_type = dnnl::memory::data_type;
  switch (type) {
    case DType::kInt8: return data_type::s8;
    case DType::kUInt8: return data_type::u8;
    case DType::kInt32: return data_type::s32;
    case DType::kFloat32: return data_type::f32;
    case DType::kBFloat16: return data_type::bf16;
    default: throw internal_error("oneDNN has no {} here", to_string(type));
  }
}

namespace {

/// Multiplies values of maximum magnitude, whose sums of two products overflow 16 bits.
bool probe(DType x) {
  constexpr std::int64_t kSize = 64;
  const auto square = [&](DType type) {
    return dnnl::memory::desc({kSize, kSize}, dnnl_type(type), dnnl::memory::format_tag::ab);
  };
  std::vector<std::uint8_t> a(kSize * kSize, x == DType::kInt8 ? 0x80 : 0xff),
      b(kSize * kSize, 0x7f);
  std::vector<std::int32_t> d(kSize * kSize);
  const dnnl::matmul::primitive_desc how(dnnl_engine(), square(x), square(DType::kInt8),
                                         square(DType::kInt32));
  const auto memory = [&](DType type, void* data) {
    return dnnl::memory(square(type), dnnl_engine(), data);
  };
  dnnl::matmul(how).execute(dnnl_stream(), {{DNNL_ARG_SRC, memory(x, a.data())},
                                            {DNNL_ARG_WEIGHTS, memory(DType::kInt8, b.data())},
                                            {DNNL_ARG_DST, memory(DType::kInt32, d.data())}});
  dnnl_stream().wait();
  const std::int32_t expected = kSize * 127 * (x == DType::kInt8 ? -128 : 255);
  return std::ranges::all_of(d, [&](std::int32_t sum) { return sum == expected; });
}

}  // namespace

bool multiplies_exactly(DType x, DType weights) {
  static const bool is_exact = [] {
    try {
      return probe(DType::kUInt8) && probe(DType::kInt8);
    } catch (const dnnl::error&) {
      return false;  // no kernel for these types
    }
  }();
  return is_exact && weights == DType::kInt8 && (x == DType::kInt8 || x == DType::kUInt8);
}

bool multiplies_bfloat16() {
  // The bits of an ISA include those of the ISAs that it extends.
  constexpr unsigned kBFloat16 = dnnl_cpu_isa_avx512_core_bf16;
  return (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & kBFloat16) == kBFloat16;
}

void append_activation(dnnl::post_ops& ops, Activation activation, float a, float b, bool in_cpp) {
  using dnnl::algorithm;
  const auto append = [&](algorithm kind, float alpha = 0, float beta = 0) {
    ops.append_eltwise(kind, alpha, beta);
  };
  if (in_cpp && activation == Activation::Sigmoid) {
    append(algorithm::eltwise_linear, -1);
    append(algorithm::eltwise_exp);
    append(algorithm::eltwise_linear, 1, 1);
    return append(algorithm::eltwise_pow, 1, -1);
  }
  switch (activation) {
    case Activation::None: return;
    case Activation::Relu:
      return in_cpp ? append(algorithm::eltwise_clip, 0, std::numeric_limits<float>::infinity())
                    : append(algorithm::eltwise_relu);
    case Activation::GeluErf: return append(algorithm::eltwise_gelu_erf);
    case Activation::GeluTanh: return append(algorithm::eltwise_gelu_tanh);
    case Activation::Sigmoid: return append(algorithm::eltwise_logistic);
    case Activation::Tanh: return append(algorithm::eltwise_tanh);
    case Activation::Silu: return append(algorithm::eltwise_swish, 1);
    case Activation::LeakyRelu: return append(algorithm::eltwise_relu, a);
    case Activation::Clip: return append(algorithm::eltwise_clip, a, b);
    case Activation::HardSigmoid: return append(algorithm::eltwise_hardsigmoid, a, b);
    case Activation::HardSwish: return append(algorithm::eltwise_hardswish, a, b);
  }
}

bool must_be_spelled_out(Activation activation) {
  return activation == Activation::Sigmoid || activation == Activation::Relu;
}

int threads_for(double multiplications, int most) {
  return threads::team_for(multiplications / kMultiplicationsPerNanosecond, most);
}

namespace {

/// The same sizes with dense row-major strides.
dnnl::memory::desc dense(const dnnl::memory::desc& matrix) {
  const dnnl::memory::dims sizes = matrix.get_dims();
  dnnl::memory::dims strides(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<dnnl::memory::dim>(sizes[i], 1);
  return {sizes, matrix.get_data_type(), strides};
}

}  // namespace

std::shared_ptr<const PackedWeights::Entry> pack(PackedWeights& weights, std::uint32_t buffer,
                                                 const void* data, const dnnl::memory::desc& plain,
                                                 const dnnl::memory::desc& wanted) {
  const std::string layout =
      layout_of(plain) + layout_of(wanted) +
      fmt::format("at {}", weights.place_of(data));  // a buffer may hold several matrices
  return weights.find_or_make(buffer, layout, [&] {
    auto entry = std::make_shared<PackedWeights::Entry>();
    entry->memory = dnnl::memory(wanted, dnnl_engine(), weights.allocate(wanted.get_size()));
    weights.fill_by([plain, memory = entry->memory,
                     place = weights.place_of(data)](const std::byte* section) mutable {
      dnnl::memory source(plain, dnnl_engine(), const_cast<std::byte*>(section + place));
      const auto move = [](dnnl::memory& from, dnnl::memory& to) {
        dnnl::reorder(from, to).execute(dnnl_stream(), from, to);
        dnnl_stream().wait();
      };
      // For signed x, oneDNN's reorder also computes column sums (compensation), which it does only
      // for dense matrices.
      const dnnl::memory::desc whole = dense(plain);
      if (plain.get_data_type() != dnnl_type(DType::kInt8) || plain == whole)
        return move(source, memory);
      dnnl::memory copy(whole, dnnl_engine());
      move(source, copy);
      move(copy, memory);
    });
    return entry;
  });
}

}  // namespace sinter::runtime::cpu
