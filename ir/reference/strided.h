// SPDX-License-Identifier: Apache-2.0
// Strided traversal of concrete shapes.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace sinter::ir::reference {

inline std::int64_t count_of(const Ints& shape) {
  std::int64_t count = 1;
  for (const std::int64_t dim : shape) count *= dim;
  return count;
}

/// Row-major strides.
inline Ints dense_strides(const Ints& shape) {
  Ints strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0; stride *= shape[d]) strides[d] = stride;
  return strides;
}

/// Strides by which a dense tensor of shape `from` broadcasts to shape `to` (numpy).
inline Ints broadcast_strides(const Ints& from, const Ints& to) {
  Ints strides(to.size(), 0);
  const Ints dense = dense_strides(from);
  const std::size_t added = to.size() - from.size();
  for (std::size_t d = 0; d < from.size(); ++d) strides[d + added] = from[d] == 1 ? 0 : dense[d];
  return strides;
}

/// Traverses the elements of `shape` in row-major order, maintaining offset + sum strides[d] *
/// index[d].
class StridedWalk {
 public:
  StridedWalk(Ints shape, Ints strides, std::int64_t offset = 0)
      : shape_(std::move(shape)),
        strides_(std::move(strides)),
        index_(shape_.size(), 0),
        offset_(offset) {}

  std::int64_t offset() const { return offset_; }
  void next() {
    for (std::size_t d = shape_.size(); d-- > 0;) {
      offset_ += strides_[d];
      if (++index_[d] < shape_[d]) return;
      offset_ -= strides_[d] * shape_[d];
      index_[d] = 0;
    }
  }

 private:
  Ints shape_, strides_, index_;
  std::int64_t offset_;
};

}  // namespace sinter::ir::reference
