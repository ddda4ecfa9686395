// SPDX-License-Identifier: Apache-2.0
#include "runtime/count_tokens.h"

#include <sinter/float8.h>
#include <sinter/packed_rows.h>

#include "runtime/format_error.h"

namespace sinter::runtime {
namespace {

/// Counts as type T, where only T's 0 and 1 are valid.
template <typename T>
std::int64_t count_of(const TensorView& mask, const std::string& name, bool first, T one) {
  const T* const elements = static_cast<const T*>(mask.data);
  const std::int64_t length = mask.shape[1];
  std::int64_t tokens = 0, count = mask.shape[0] * length;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool is_one = elements[i] == one;
    if (!is_one && elements[i] != T{0})
      throw usage_error(
          "element [{}, {}] of input '{}' is neither 0 nor 1: a plan that was compiled with "
          "--packed takes a mask that is 1 where there is a token and 0 elsewhere",
          i / length, i % length, name);
    tokens += is_one ? 1 : 0;
  }
  for (std::int64_t i = 0; first && i < count; i += length)
    if (elements[i] != one)
      throw usage_error(
          "sequence {0} of input '{1}' has no token at its first position, which an output "
          "depends on: give it one, or compile without --packed",
          i / length, name);
  return packed_rows(tokens, count);
}

constexpr std::uint16_t kOneOfFloat16 = 0x3C00, kOneOfBFloat16 = 0x3F80;

}  // namespace

std::int64_t count_tokens(const TensorView& mask, const std::string& name, bool first) {
  const auto count = [&](auto one) { return count_of(mask, name, first, one); };
  switch (mask.dtype) {
    case DType::kBool:
    case DType::kInt8:
    case DType::kUInt8: return count(std::uint8_t{1});
    case DType::kInt16:
    case DType::kUInt16: return count(std::uint16_t{1});
    case DType::kInt32:
    case DType::kUInt32: return count(std::uint32_t{1});
    case DType::kInt64:
    case DType::kUInt64: return count(std::uint64_t{1});
    case DType::kFloat16: return count(kOneOfFloat16);
    case DType::kBFloat16: return count(kOneOfBFloat16);
    case DType::kFloat32: return count(1.0F);
    case DType::kFloat64: return count(1.0);
    default: break;
  }
  if (is_float8(mask.dtype)) return count(encode_float8(mask.dtype, 1));
  throw internal_error("a mask of an unknown type");
}

}  // namespace sinter::runtime
