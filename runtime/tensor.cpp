// SPDX-License-Identifier: Apache-2.0
// Checks of tensor views.
#include <sinter/allocator.h>
#include <sinter/tensor.h>

#include "runtime/format_error.h"

namespace sinter {

Allocator::~Allocator() = default;

namespace detail {
namespace {

[[noreturn]] void refuse_shape(std::span<const std::int64_t> shape) {
  throw usage_error("the shape [{}] is not possible", fmt::join(shape, ", "));
}

}  // namespace

std::int64_t element_count(std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  for (const std::int64_t dim : shape)
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) refuse_shape(shape);
  return count;
}

std::size_t byte_count(std::span<const std::int64_t> shape, DType dtype) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(element_count(shape)), size_of(dtype),
                             &bytes))
    refuse_shape(shape);
  return bytes;
}

void check_read(DType dtype, Memory memory, DType wanted) {
  if (dtype != wanted)
    throw usage_error("the tensor is of type {} and cannot be read as {}", to_string(dtype),
                      to_string(wanted));
  if (memory != Memory::kHost)
    throw usage_error(
        "the tensor is in device memory, which the host cannot read: copy it, or ask for "
        "outputs in host memory (SessionOptions::output_memory)");
}

void check_count(std::span<const std::int64_t> shape, std::size_t count) {
  const std::int64_t wanted = element_count(shape);
  if (count != static_cast<std::size_t>(wanted))
    throw usage_error("the shape [{}] has {} elements, but {} are given", fmt::join(shape, ", "),
                      wanted, count);
}

}  // namespace detail
}  // namespace sinter
