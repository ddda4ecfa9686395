// SPDX-License-Identifier: Apache-2.0
// Arrow arrays made by hand, for tests: of memory that they own, with every release counted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sinter/arrow_abi.h>

namespace sinter::testing {

/// A schema and an array, and what they point to. Members may be spoiled.
struct ArrowTree {
  std::string format, name;
  std::vector<std::vector<std::byte>> memory;  // of the buffers
  std::vector<const void*> buffers;
  std::vector<std::unique_ptr<ArrowTree>> children;
  std::vector<ArrowSchema*> child_schemas;
  std::vector<ArrowArray*> child_arrays;
  ArrowSchema schema{};
  ArrowArray array{};

  /// After a change of children or buffers.
  void link() {
    child_schemas.clear();
    child_arrays.clear();
    for (const auto& child : children) {
      child_schemas.push_back(&child->schema);
      child_arrays.push_back(&child->array);
    }
    schema.format = format.c_str();
    schema.name = name.c_str();
    schema.n_children = array.n_children = static_cast<std::int64_t>(children.size());
    schema.children = child_schemas.data();
    array.children = child_arrays.data();
    schema.release = [](ArrowSchema* self) { self->release = nullptr; };
    array.release = [](ArrowArray* self) { self->release = nullptr; };
    array.n_buffers = static_cast<std::int64_t>(buffers.size());
    array.buffers = buffers.data();
  }

  const void* add_buffer(const void* data, std::size_t bytes) {
    auto& buffer = memory.emplace_back(bytes);
    if (bytes > 0) std::memcpy(buffer.data(), data, bytes);
    return buffer.data();
  }
};
using Tree = std::unique_ptr<ArrowTree>;

/// Bits, the first in the lowest place; exactly as many bytes as they need.
inline std::vector<std::uint8_t> bits_of(const std::vector<bool>& bools) {
  std::vector<std::uint8_t> bits((bools.size() + 7) / 8);
  for (std::size_t i = 0; i < bools.size(); ++i)
    if (bools[i]) bits[i / 8] = static_cast<std::uint8_t>(bits[i / 8] | 1U << (i % 8));
  return bits;
}

/// A column of numbers; `valid`: empty if none is null; `offset`: elements in front that are none
/// of the column's.
template <typename T>
Tree numbers(const std::string& name, const std::string& format, const std::vector<T>& values,
             const std::vector<bool>& valid = {}, std::size_t offset = 0) {
  auto tree = std::make_unique<ArrowTree>();
  tree->format = format;
  tree->name = name;
  tree->buffers.push_back(nullptr);
  if (!valid.empty()) {
    const auto bits = bits_of(valid);
    tree->buffers[0] = tree->add_buffer(bits.data(), bits.size());
  }
  tree->buffers.push_back(tree->add_buffer(values.data(), values.size() * sizeof(T)));
  tree->array.length = static_cast<std::int64_t>(values.size() - offset);
  tree->array.offset = static_cast<std::int64_t>(offset);
  tree->array.null_count = std::count(
      valid.begin() + static_cast<std::ptrdiff_t>(valid.empty() ? 0 : offset), valid.end(), false);
  tree->link();
  return tree;
}
inline Tree floats(const std::string& name, const std::vector<float>& values,
                   const std::vector<bool>& valid = {}, std::size_t offset = 0) {
  return numbers(name, "f", values, valid, offset);
}
inline Tree bools(const std::string& name, const std::vector<bool>& values,
                  std::size_t offset = 0) {
  Tree tree = numbers(name, "b", bits_of(values));
  tree->array.length = static_cast<std::int64_t>(values.size() - offset);
  tree->array.offset = static_cast<std::int64_t>(offset);
  return tree;
}

/// Lists of `size` of the items, which are as many as these take.
inline Tree lists(const std::string& name, std::int64_t size, Tree items,
                  const std::vector<bool>& valid = {}) {
  auto tree = std::make_unique<ArrowTree>();
  tree->format = "+w:" + std::to_string(size);
  tree->name = name;
  tree->buffers.push_back(nullptr);
  if (!valid.empty()) {
    const auto bits = bits_of(valid);
    tree->buffers[0] = tree->add_buffer(bits.data(), bits.size());
  }
  tree->array.length = size == 0 ? 0 : items->array.length / size;
  tree->array.null_count = std::count(valid.begin(), valid.end(), false);
  tree->children.push_back(std::move(items));
  tree->link();
  return tree;
}

template <typename... Columns>
Tree batch_of(Columns... columns) {
  auto tree = std::make_unique<ArrowTree>();
  tree->format = "+s";
  tree->buffers.push_back(nullptr);
  (tree->children.push_back(std::move(columns)), ...);
  tree->array.length = tree->children.empty() ? 0 : tree->children.front()->array.length;
  tree->link();
  return tree;
}

}  // namespace sinter::testing
