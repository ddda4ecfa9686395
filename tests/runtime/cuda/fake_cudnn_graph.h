// SPDX-License-Identifier: Apache-2.0
// The fake cuDNN's descriptors as what they describe, and the arithmetic of that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "tests/runtime/cuda/fake_cudnn_engine.h"

namespace sinter::testing::fake_graph {

using Sizes = std::vector<std::int64_t>;

/// Bytes of one value of an attribute.
std::size_t size_of(cudnnBackendAttributeType_t type);

struct Attribute {
  cudnnBackendAttributeType_t type{};
  std::vector<std::byte> bytes;
};

struct Descriptor {
  cudnnBackendDescriptorType_t type{};
  bool is_final = false;
  std::map<int, Attribute> attributes;
  const FakeEngine* engine = nullptr;  // of an engine, a configuration, a plan

  bool has(int name) const { return attributes.contains(name); }
  template <typename Value>
  std::vector<Value> list(int name) const {
    const auto at = attributes.find(name);
    if (at == attributes.end()) return {};
    std::vector<Value> values(at->second.bytes.size() / sizeof(Value));
    std::memcpy(values.data(), at->second.bytes.data(), at->second.bytes.size());
    return values;
  }
  template <typename Value>
  Value one(int name, Value otherwise = {}) const {
    const auto at = attributes.find(name);
    if (at == attributes.end()) return otherwise;
    Value value;
    std::memcpy(&value, at->second.bytes.data(), sizeof(value));
    return value;
  }
  const Descriptor* child(int name) const { return one<const Descriptor*>(name); }
};

struct Tensor {
  Sizes sizes, strides;
  std::int64_t id = 0;
  bool is_virtual = false, is_by_value = false;
  cudnnDataType_t type{};
};

struct Operation {
  int mode = -1;  // pointwise; -1: the convolution
  Tensor x, second, y;
  bool has_second = false;
  Sizes strides, dilations, begin, end;
  double lower = 0, upper = 1e300, slope = 0;
};

Tensor tensor_of(const Descriptor* descriptor);
Operation operation_of(const Descriptor* descriptor);
std::vector<Operation> operations_of(const Descriptor* graph);

/// Computes the operations in their order on the host memory that `pointers` give by tensor id.
/// Does nothing unless all tensors are float32.
void evaluate(const std::vector<Operation>& operations,
              const std::map<std::int64_t, void*>& pointers);

}  // namespace sinter::testing::fake_graph
