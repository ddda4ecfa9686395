// SPDX-License-Identifier: Apache-2.0
// cuDNN descriptors: created, set by attribute, finalized.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/cuda/cudnn/cudnn.h"

namespace sinter::runtime {

/// Owns one descriptor. Setters and getters throw as `fail` does.
class CudnnDescriptor {
 public:
  CudnnDescriptor(std::shared_ptr<const Cudnn> library, cudnnBackendDescriptorType_t type)
      : library_(std::move(library)) {
    library_->create_descriptor(type, &handle_);
  }
  ~CudnnDescriptor() {
    if (handle_) library_->destroy_descriptor.raw(handle_);
  }
  CudnnDescriptor(CudnnDescriptor&& other) noexcept
      : library_(std::move(other.library_)), handle_(std::exchange(other.handle_, nullptr)) {}
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept {
    std::swap(library_, other.library_);
    std::swap(handle_, other.handle_);
    return *this;
  }

  cudnnBackendDescriptor_t handle() const { return handle_; }

  CudnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       std::int64_t count, const void* values) {
    library_->set_attribute(handle_, name, type, count, values);
    return *this;
  }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, std::int64_t value) {
    return set(name, CUDNN_TYPE_INT64, 1, &value);
  }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values) {
    return set(name, CUDNN_TYPE_INT64, std::ssize(values), values.data());
  }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, double value) {
    return set(name, CUDNN_TYPE_DOUBLE, 1, &value);
  }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, bool value) {
    return set(name, CUDNN_TYPE_BOOLEAN, 1, &value);
  }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
    return set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
  }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnPointwiseMode_t value) {
    return set(name, CUDNN_TYPE_POINTWISE_MODE, 1, &value);
  }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.handle_);
  }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, std::span<const CudnnDescriptor> values) {
    std::vector<cudnnBackendDescriptor_t> handles;
    for (const CudnnDescriptor& value : values) handles.push_back(value.handle_);
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::ssize(handles), handles.data());
  }
  CudnnDescriptor& finalize() {
    library_->finalize(handle_);
    return *this;
  }

  /// Gets up to `most` values.
  template <typename Value>
  std::vector<Value> get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                         std::int64_t most) const {
    std::vector<Value> values(static_cast<std::size_t>(most));
    std::int64_t count = 0;
    library_->get_attribute(handle_, name, type, most, &count, values.data());
    values.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(count, 0, most)));
    return values;
  }
  std::int64_t get(cudnnBackendAttributeName_t name) const {
    const auto values = get<std::int64_t>(name, CUDNN_TYPE_INT64, 1);
    return values.empty() ? 0 : values[0];
  }
  /// Gets up to `most` descriptors of `type`, which the library fills.
  std::vector<CudnnDescriptor> get(cudnnBackendAttributeName_t name,
                                   cudnnBackendDescriptorType_t type, std::int64_t most) const {
    std::vector<CudnnDescriptor> values;
    std::vector<cudnnBackendDescriptor_t> handles;
    for (std::int64_t i = 0; i < most; ++i)
      handles.push_back(values.emplace_back(library_, type).handle_);
    std::int64_t count = 0;
    library_->get_attribute(handle_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &count,
                            handles.data());
    while (std::ssize(values) > count) values.pop_back();
    return values;
  }

 private:
  std::shared_ptr<const Cudnn> library_;
  cudnnBackendDescriptor_t handle_ = nullptr;
};

}  // namespace sinter::runtime
