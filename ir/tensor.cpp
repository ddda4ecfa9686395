// SPDX-License-Identifier: Apache-2.0
#include "ir/tensor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>
#include <sinter/float8.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sinter::ir {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor bytes are little-endian");

/// Elements and bytes of a tensor; throws if a dimension is negative or a size overflows.
struct Extent {
  std::int64_t count = 1, bytes = 0;
};
Extent extent_of(DType dtype, const Ints& shape) {
  Extent extent;
  bool empty = false;
  for (const std::int64_t dim : shape) {
    if (dim < 0)
      throw Error(
          ErrorCode::kInvalidModel,
          fmt::format("a tensor of shape [{}] has a negative dimension", fmt::join(shape, ", ")));
    empty = empty || dim == 0;
  }
  if (empty) return {0, 0};
  bool overflow = false;
  for (const std::int64_t dim : shape)
    overflow = overflow || __builtin_mul_overflow(extent.count, dim, &extent.count);
  overflow =
      overflow || __builtin_mul_overflow(extent.count, static_cast<std::int64_t>(size_of(dtype)),
                                         &extent.bytes);
  if (overflow)
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("the size of a tensor {}[{}] overflows 64 bits", to_string(dtype),
                            fmt::join(shape, ", ")));
  return extent;
}

/// Rounds to a binary format with a sign, `exponent_bits` and `mantissa_bits`, to nearest even,
/// directly from double (via float it would round twice). Returns the bits.
std::uint16_t round_to_16_bits(double value, int exponent_bits, int mantissa_bits) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const std::uint32_t sign = static_cast<std::uint32_t>(bits >> 63) << 15;
  const std::uint32_t infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
  const int stored_exponent = static_cast<int>((bits >> 52) & 0x7ff);
  const std::uint64_t fraction = bits & ((1ULL << 52) - 1);
  if (stored_exponent == 0x7ff) {
    const std::uint32_t quiet = fraction != 0 ? 1u << (mantissa_bits - 1) : 0;
    return static_cast<std::uint16_t>(sign | infinity | quiet);
  }
  const int bias = (1 << (exponent_bits - 1)) - 1;
  // |value| = (2^52 + fraction) * 2^(exponent - 52). Subnormal doubles round to zero.
  const int exponent = stored_exponent - 1023;
  const int clamped = std::max(exponent, 1 - bias);  // subnormals share the smallest exponent
  const int shift = clamped - exponent + 52 - mantissa_bits;
  if (shift >= 54) return static_cast<std::uint16_t>(sign);
  const std::uint64_t mantissa = (1ULL << 52) | fraction;
  std::uint64_t units = mantissa >> shift;
  const std::uint64_t rest = mantissa & ((1ULL << shift) - 1), half = 1ULL << (shift - 1);
  if (rest > half || (rest == half && (units & 1) != 0)) ++units;
  // The leading one of `units` adds to the exponent field, as does a carry from the mantissa; a
  // subnormal has no leading one and thus exponent field zero.
  const std::uint64_t field = static_cast<std::uint64_t>(clamped + bias - 1) << mantissa_bits;
  return static_cast<std::uint16_t>(sign | std::min<std::uint64_t>(field + units, infinity));
}

double widen_half(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1f;
  const std::uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0) return (sign != 0 ? -0x1p-24 : 0x1p-24) * mantissa;
  const std::uint32_t wide_exponent = exponent == 0x1f ? 0xff : exponent + 112;
  return std::bit_cast<float>(sign | wide_exponent << 23 | mantissa << 13);
}

template <typename T>
T load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

template <typename T>
void store(std::byte* p, T value) {
  std::memcpy(p, &value, sizeof(T));
}

/// Truncates towards zero and saturates; NaN gives zero.
std::int64_t to_int(double value) {
  if (std::isnan(value)) return 0;
  if (value >= 0x1p63) return INT64_MAX;
  if (value < -0x1p63) return INT64_MIN;
  return static_cast<std::int64_t>(value);
}

/// An integer as a double that still rounds correctly to narrower floats: bits beyond the 53rd
/// become one sticky bit.
double to_sticky_double(std::int64_t value) {
  if (value > -(1LL << 53) && value < (1LL << 53)) return static_cast<double>(value);
  const bool negative = value < 0;
  std::uint64_t magnitude = negative ? 0 - static_cast<std::uint64_t>(value) : value;
  constexpr std::uint64_t kLow = (1 << 12) - 1;
  if ((magnitude & kLow) != 0) magnitude = (magnitude & ~kLow) | (kLow + 1) >> 1;
  const auto wide = static_cast<double>(magnitude);
  return negative ? -wide : wide;
}

}  // namespace

std::string to_string(const TensorType& type) {
  return std::string(to_string(type.dtype)) + to_string(type.shape);
}

std::shared_ptr<const Buffer> Buffer::copy_of(std::span<const std::byte> bytes) {
  return take(std::vector<std::byte>(bytes.begin(), bytes.end()));
}

std::shared_ptr<const Buffer> Buffer::take(std::vector<std::byte> bytes) {
  auto buffer = std::make_shared<Buffer>();
  buffer->storage_ = std::move(bytes);
  buffer->bytes_ = buffer->storage_;
  buffer->size_ = buffer->bytes_.size();
  buffer->is_kept_ = true;
  return buffer;
}

std::shared_ptr<const Buffer> Buffer::borrow(std::span<const std::byte> bytes,
                                             std::shared_ptr<const void> owner,
                                             std::function<void()> forget) {
  auto buffer = std::make_shared<Buffer>();
  buffer->owner_ = std::move(owner);
  buffer->forget_ = std::move(forget);
  buffer->bytes_ = bytes;
  buffer->size_ = bytes.size();
  buffer->is_kept_ = true;
  return buffer;
}

std::shared_ptr<const Buffer> Buffer::derived(std::size_t size,
                                              std::function<std::vector<std::byte>()> make) {
  auto buffer = std::make_shared<Buffer>();
  buffer->make_ = std::move(make);
  buffer->size_ = size;
  return buffer;
}

std::shared_ptr<const Buffer> Buffer::traced(std::shared_ptr<const Buffer> plain,
                                             std::shared_ptr<const Recipe> recipe) {
  auto buffer = std::make_shared<Buffer>();
  buffer->size_ = plain->size();
  buffer->plain_ = std::move(plain);
  buffer->recipe_ = std::move(recipe);
  return buffer;
}

HeldBytes Buffer::hold() const {
  if (plain_) {
    note_read(*this);
    return plain_->hold();
  }
  if (!make_) {
    if (!forget_) return {bytes_, nullptr};
    return {bytes_, std::shared_ptr<const void>(owner_.get(), [owner = owner_, forget = forget_](
                                                                  const void*) { forget(); })};
  }
  const std::lock_guard lock(mutex_);
  auto made = made_.lock();
  if (!made) {
    made = std::make_shared<const std::vector<std::byte>>(make_());
    if (made->size() != size_)
      throw Error(ErrorCode::kInternal,
                  fmt::format("a constant of {} bytes was made of {}", size_, made->size()));
    made_ = made;
  }
  return {*made, made};
}

std::span<const std::byte> Buffer::keep() const {
  if (plain_) {
    note_read(*this);
    const std::span<const std::byte> bytes = plain_->bytes();
    const std::lock_guard lock(mutex_);
    if (!is_kept_.load(std::memory_order_relaxed)) {
      bytes_ = bytes;
      is_kept_.store(true, std::memory_order_release);
    }
    return bytes;
  }
  const HeldBytes held = hold();
  const std::lock_guard lock(mutex_);
  if (!kept_) {
    kept_ = made_.lock();
    bytes_ = *kept_;
    is_kept_.store(true, std::memory_order_release);
  }
  return bytes_;
}

std::uint64_t Buffer::hash() const {
  std::uint64_t known = hash_.load(std::memory_order_relaxed);
  if (known == 0) {
    if (plain_) return plain_->hash();
    const HeldBytes held = hold();
    known = XXH3_64bits(held.bytes.data(), held.bytes.size());
    hash_.store(known, std::memory_order_relaxed);
  }
  return known;
}

Tensor::Tensor(DType dtype, Ints shape, std::shared_ptr<const Buffer> data)
    : dtype_(dtype), shape_(std::move(shape)), data_(std::move(data)) {
  const Extent extent = extent_of(dtype_, shape_);
  count_ = extent.count;
  const std::size_t found = byte_count();
  if (found != static_cast<std::size_t>(extent.bytes))
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("a tensor {}[{}] needs {} bytes, but has {}", to_string(dtype_),
                            fmt::join(shape_, ", "), extent.bytes, found));
}

namespace {

template <typename T, typename Store>
Tensor from_values(DType dtype, Ints shape, std::span<const T> values, Store store_value) {
  const std::size_t size = size_of(dtype);
  std::vector<std::byte> bytes(values.size() * size);
  for (std::size_t i = 0; i < values.size(); ++i)
    store_value(dtype, bytes.data() + i * size, values[i]);
  return Tensor(dtype, std::move(shape), Buffer::take(std::move(bytes)));
}

}  // namespace

Tensor Tensor::from_doubles(DType dtype, Ints shape, std::span<const double> values) {
  return from_values(dtype, std::move(shape), values, store_double);
}

Tensor Tensor::from_ints(DType dtype, Ints shape, std::span<const std::int64_t> values) {
  return from_values(dtype, std::move(shape), values, store_int);
}

Tensor Tensor::scalar(DType dtype, double value) {
  return from_doubles(dtype, {}, std::span(&value, 1));
}

double Tensor::at(std::int64_t i) const {
  return load_as_double(dtype_, bytes().data() + static_cast<std::size_t>(i) * size_of(dtype_));
}

std::int64_t Tensor::at_int(std::int64_t i) const {
  return load_as_int(dtype_, bytes().data() + static_cast<std::size_t>(i) * size_of(dtype_));
}

std::vector<double> Tensor::to_doubles() const {
  std::vector<double> values(static_cast<std::size_t>(count_));
  for (std::int64_t i = 0; i < count_; ++i) values[static_cast<std::size_t>(i)] = at(i);
  return values;
}

Ints Tensor::to_ints() const {
  Ints values(static_cast<std::size_t>(count_));
  for (std::int64_t i = 0; i < count_; ++i) values[static_cast<std::size_t>(i)] = at_int(i);
  return values;
}

Tensor Tensor::reshaped(Ints shape) const { return Tensor(dtype_, std::move(shape), data_); }

Tensor Tensor::plain() const {
  return data_ && data_->plain() ? Tensor(dtype_, shape_, data_->plain()) : *this;
}

TensorType Tensor::type() const { return {dtype_, Shape(shape_.begin(), shape_.end())}; }

std::uint64_t Tensor::hash() const {
  Ints header{static_cast<std::int64_t>(dtype_)};
  header.insert(header.end(), shape_.begin(), shape_.end());
  const std::uint64_t contents = data_ ? data_->hash() : XXH3_64bits(nullptr, 0);
  return XXH3_64bits_withSeed(header.data(), header.size() * sizeof(std::int64_t), contents);
}

bool operator==(const Tensor& a, const Tensor& b) {
  if (a.dtype_ != b.dtype_ || a.shape_ != b.shape_) return false;
  if (a.data_ == b.data_) return true;
  const Tensor plain_a = a.plain(), plain_b = b.plain();
  const HeldBytes x = plain_a.hold(), y = plain_b.hold();
  if (x.bytes.size() != y.bytes.size() ||
      (!x.bytes.empty() && std::memcmp(x.bytes.data(), y.bytes.data(), x.bytes.size()) != 0))
    return false;
  if (!x.bytes.empty()) note_equal(a.data_, b.data_);
  return true;
}

double load_as_double(DType dtype, const std::byte* p) {
  switch (dtype) {
    case DType::kFloat16: return widen_half(load<std::uint16_t>(p));
    case DType::kBFloat16:
      return std::bit_cast<float>(static_cast<std::uint32_t>(load<std::uint16_t>(p)) << 16);
    case DType::kFloat32: return load<float>(p);
    case DType::kFloat64: return load<double>(p);
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2FNUZ: return decode_float8(dtype, load<std::uint8_t>(p));
    case DType::kUInt64: return static_cast<double>(load<std::uint64_t>(p));
    default: return static_cast<double>(load_as_int(dtype, p));
  }
}

std::int64_t load_as_int(DType dtype, const std::byte* p) {
  switch (dtype) {
    case DType::kBool: return load<std::uint8_t>(p) != 0 ? 1 : 0;
    case DType::kInt8: return load<std::int8_t>(p);
    case DType::kInt16: return load<std::int16_t>(p);
    case DType::kInt32: return load<std::int32_t>(p);
    case DType::kInt64: return load<std::int64_t>(p);
    case DType::kUInt8: return load<std::uint8_t>(p);
    case DType::kUInt16: return load<std::uint16_t>(p);
    case DType::kUInt32: return load<std::uint32_t>(p);
    case DType::kUInt64: return static_cast<std::int64_t>(load<std::uint64_t>(p));
    default: return to_int(load_as_double(dtype, p));
  }
}

void store_double(DType dtype, std::byte* p, double value) {
  switch (dtype) {
    case DType::kBool: return store<std::uint8_t>(p, value != 0 ? 1 : 0);
    case DType::kFloat16: return store(p, round_to_16_bits(value, 5, 10));
    case DType::kBFloat16: return store(p, round_to_16_bits(value, 8, 7));
    case DType::kFloat32: return store(p, static_cast<float>(value));
    case DType::kFloat64: return store(p, value);
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2FNUZ: return store(p, encode_float8(dtype, value));
    case DType::kUInt64:
      if (value >= 0x1p63 && value < 0x1p64) return store(p, static_cast<std::uint64_t>(value));
      return store_int(dtype, p, to_int(value));
    default: return store_int(dtype, p, to_int(value));
  }
}

void store_int(DType dtype, std::byte* p, std::int64_t value) {
  switch (dtype) {
    case DType::kBool: return store<std::uint8_t>(p, value != 0 ? 1 : 0);
    case DType::kInt8:
    case DType::kUInt8: return store(p, static_cast<std::uint8_t>(value));
    case DType::kInt16:
    case DType::kUInt16: return store(p, static_cast<std::uint16_t>(value));
    case DType::kInt32:
    case DType::kUInt32: return store(p, static_cast<std::uint32_t>(value));
    case DType::kInt64:
    case DType::kUInt64: return store(p, value);
    case DType::kFloat64: return store(p, static_cast<double>(value));
    default: return store_double(dtype, p, to_sticky_double(value));
  }
}

}  // namespace sinter::ir
