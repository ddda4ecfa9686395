// SPDX-License-Identifier: Apache-2.0
// Tensor types and constant data.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <sinter/dtype.h>

#include "ir/dim/dim.h"

namespace sinter::ir {

struct TensorType {
  DType dtype = DType::kFloat32;
  Shape shape;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// "f32[batch, seq, 384]".
std::string to_string(const TensorType& type);

class Recipe;

/// Bytes that are valid while this lives, with the buffer that owns them.
struct HeldBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// Immutable bytes: owned, borrowed from a mapped file that `owner` keeps open, or computed from
/// other buffers on demand. All weights of a large model do not fit memory several times: code that
/// visits many of them uses hold().
class Buffer {
 public:
  static std::shared_ptr<const Buffer> copy_of(std::span<const std::byte> bytes);
  static std::shared_ptr<const Buffer> take(std::vector<std::byte> bytes);
  /// `forget` releases the memory of the bytes, which are loaded again when read.
  static std::shared_ptr<const Buffer> borrow(std::span<const std::byte> bytes,
                                              std::shared_ptr<const void> owner,
                                              std::function<void()> forget = {});
  /// `size` bytes computed by `make`, the same each time.
  static std::shared_ptr<const Buffer> derived(std::size_t size,
                                               std::function<std::vector<std::byte>()> make);

  /// The bytes of `plain`, made by `recipe`. Reading them here, not through plain(), may influence
  /// a decision: the recipe's log records it (recipe.h).
  static std::shared_ptr<const Buffer> traced(std::shared_ptr<const Buffer> plain,
                                              std::shared_ptr<const Recipe> recipe);

  std::size_t size() const { return size_; }
  /// The bytes, valid as long as the buffer.
  std::span<const std::byte> bytes() const {
    return is_kept_.load(std::memory_order_acquire) ? bytes_ : keep();
  }
  /// The bytes; memory that can be recomputed or reloaded is released when no holder is left.
  HeldBytes hold() const;
  /// XXH3 of the bytes, computed once. Reveals only equality: not logged.
  std::uint64_t hash() const;
  /// How the bytes derive from the model's constants; null if unknown, or if they do not.
  const std::shared_ptr<const Recipe>& recipe() const { return recipe_; }
  /// The buffer behind a traced one; otherwise null.
  const std::shared_ptr<const Buffer>& plain() const { return plain_; }

 private:
  std::span<const std::byte> keep() const;

  std::vector<std::byte> storage_;
  std::shared_ptr<const void> owner_;
  std::size_t size_ = 0;
  std::shared_ptr<const Buffer> plain_;
  std::shared_ptr<const Recipe> recipe_;
  std::function<void()> forget_;
  std::function<std::vector<std::byte>()> make_;
  mutable std::mutex mutex_;  // guards computed bytes until they are kept
  mutable std::weak_ptr<const std::vector<std::byte>> made_;
  mutable std::shared_ptr<const std::vector<std::byte>> kept_;
  mutable std::atomic<bool> is_kept_ = false;
  mutable std::span<const std::byte> bytes_;
  mutable std::atomic<std::uint64_t> hash_ = 0;  // 0: not computed yet
};

/// Log, by the recipes of traced buffers, that one was read, or that two buffers are equal, of
/// which at least one is traced (constants/recipe.h).
void note_read(const Buffer& traced);
void note_equal(const std::shared_ptr<const Buffer>& a, const std::shared_ptr<const Buffer>& b);

/// A dense row-major tensor with known shape and contents. Copies share the buffer.
class Tensor {
 public:
  Tensor() = default;
  /// Throws Error(kInvalidModel) if a dimension is negative, or if the size overflows or differs
  /// from the buffer's.
  Tensor(DType dtype, Ints shape, std::shared_ptr<const Buffer> data);

  /// From values, converted to `dtype` (rounding to nearest even, without saturation). Doubles are
  /// truncated to integers.
  static Tensor from_doubles(DType dtype, Ints shape, std::span<const double> values);
  static Tensor from_ints(DType dtype, Ints shape, std::span<const std::int64_t> values);
  template <typename T>
  static Tensor of(DType dtype, Ints shape, const std::vector<T>& values) {
    return Tensor(dtype, std::move(shape), Buffer::copy_of(std::as_bytes(std::span(values))));
  }
  static Tensor scalar(DType dtype, double value);

  DType dtype() const { return dtype_; }
  const Ints& shape() const { return shape_; }
  std::int64_t element_count() const { return count_; }
  std::span<const std::byte> bytes() const {
    return data_ ? data_->bytes() : std::span<const std::byte>();
  }
  std::size_t byte_count() const { return data_ ? data_->size() : 0; }
  /// The bytes, while the result and a copy of the tensor live: see Buffer::hold().
  HeldBytes hold() const { return data_ ? data_->hold() : HeldBytes(); }
  const std::shared_ptr<const Buffer>& buffer() const { return data_; }
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes().data()), static_cast<std::size_t>(count_)};
  }
  /// Element i in row-major order, widened. at_int() is exact for every integer type except large
  /// u64.
  double at(std::int64_t i) const;
  std::int64_t at_int(std::int64_t i) const;
  /// All elements, widened.
  std::vector<double> to_doubles() const;
  Ints to_ints() const;
  /// The same tensor without tracing: reading it is not logged (Buffer::traced).
  Tensor plain() const;
  /// The same bytes in another shape with equal element count.
  Tensor reshaped(Ints shape) const;
  TensorType type() const;
  /// Hash of type, shape and contents (XXH3, 64 bits), the same on every machine.
  std::uint64_t hash() const;
  /// Bitwise equality of type, shape and contents. Equality found for a traced tensor is
  /// logged.
  friend bool operator==(const Tensor& a, const Tensor& b);

 private:
  DType dtype_ = DType::kFloat32;
  Ints shape_;
  std::int64_t count_ = 0;
  std::shared_ptr<const Buffer> data_;
};

/// Reads / writes one element of `dtype` at `p`, converting from / to the widest type of its class.
double load_as_double(DType dtype, const std::byte* p);
std::int64_t load_as_int(DType dtype, const std::byte* p);
void store_double(DType dtype, std::byte* p, double value);
void store_int(DType dtype, std::byte* p, std::int64_t value);

}  // namespace sinter::ir
