// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm/dnnl/lost_nan.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "runtime/cpu/gemm/dnnl/dnnl_support.h"

namespace sinter::runtime::cpu {

using plan::fb::Activation;

bool loses_nan(Activation activation, float a) {
  switch (activation) {
    case Activation::Relu:
    case Activation::Clip:
    case Activation::HardSigmoid: return true;
    case Activation::LeakyRelu: return a == 0;
    default: return false;  // multiplies by x, or uses instructions that keep NaN
  }
}

#if defined(__x86_64__)

InvalidFlag::InvalidFlag() : before_(_mm_getcsr()) {
  if ((before_ & _MM_EXCEPT_INVALID) != 0) _mm_setcsr(before_ & ~_MM_EXCEPT_INVALID);
}

InvalidFlag::~InvalidFlag() {
  if ((before_ & _MM_EXCEPT_INVALID) != 0) _mm_setcsr(_mm_getcsr() | _MM_EXCEPT_INVALID);
}

bool InvalidFlag::is_raised() const { return (_mm_getcsr() & _MM_EXCEPT_INVALID) != 0; }

#else

InvalidFlag::InvalidFlag() = default;
InvalidFlag::~InvalidFlag() = default;
bool InvalidFlag::is_raised() const { return true; }

#endif

namespace {

/// Copies NaN elements of f32 or bf16 by their bits: NaN is anything above infinity's bits.
template <typename Bits>
void copy_nan(const dnnl::memory::desc& layout, const Bits* from, Bits* to) {
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  constexpr Bits kInfinity =
      sizeof(Bits) == 4 ? static_cast<Bits>(0x7f800000U) : static_cast<Bits>(0x7f80U);
  const dnnl::memory::dims sizes = layout.get_dims(), strides = layout.get_strides();
  dnnl::memory::dims at(sizes.size(), 0);
  dnnl::memory::dim place = 0;
  for (bool more = true; more;) {
    if (static_cast<Bits>(from[place] & ~kSign) > kInfinity) to[place] = from[place];
    more = false;
    for (std::size_t d = sizes.size(); d-- > 0 && !more;) {
      place += strides[d];
      more = ++at[d] < sizes[d];
      if (more) continue;
      place -= strides[d] * sizes[d];
      at[d] = 0;
    }
  }
}

}  // namespace

void BarePrimitive::restore_nan(std::span<const dnnl_exec_arg_t> arguments,
                                const dnnl::memory::desc& layout, void* result) {
  std::call_once(once_, [&] { made_ = make_(); });
  const dnnl::memory own(layout, dnnl_engine()), scratch(made_.scratchpad, dnnl_engine());
  std::vector<dnnl_exec_arg_t> all;
  for (const dnnl_exec_arg_t& argument : arguments)
    if (argument.arg != DNNL_ARG_DST && argument.arg != DNNL_ARG_SCRATCHPAD)
      all.push_back(argument);
  all.push_back({DNNL_ARG_DST, own.get()});
  all.push_back({DNNL_ARG_SCRATCHPAD, scratch.get()});
  dnnl::error::wrap_c_api(dnnl_primitive_execute(made_.primitive.get(), dnnl_stream().get(),
                                                 static_cast<int>(all.size()), all.data()),
                          "could not execute a primitive");
  dnnl_stream().wait();
  const void* from = own.get_data_handle();
  if (layout.get_data_type() == dnnl::memory::data_type::f32)
    copy_nan(layout, static_cast<const std::uint32_t*>(from), static_cast<std::uint32_t*>(result));
  else
    copy_nan(layout, static_cast<const std::uint16_t*>(from), static_cast<std::uint16_t*>(result));
}

}  // namespace sinter::runtime::cpu
