// SPDX-License-Identifier: Apache-2.0
// Exchanges tensors with other libraries through DLPack without a copy. The structures have the
// layout of DLPack 1.x; a "dltensor" or "dltensor_versioned" capsule contains a pointer to one.
#pragma once

#include <cstddef>
#include <cstdint>

#include <sinter/export.h>
#include <sinter/tensor.h>

namespace sinter {

class Session;

namespace dlpack {

inline constexpr std::uint32_t kMajorVersion = 1, kMinorVersion = 0;

enum class DeviceType : std::int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };
/// DLPack 1.1 added the 8-bit floats.
enum class TypeCode : std::uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kBFloat = 4,
  kBool = 6,
  kFloat8E4M3FN = 10,
  kFloat8E4M3FNUZ = 11,
  kFloat8E5M2 = 12,
  kFloat8E5M2FNUZ = 13,
};

struct Device {
  DeviceType type = DeviceType::kCpu;
  std::int32_t id = 0;
};
struct DataType {
  TypeCode code = TypeCode::kFloat;
  std::uint8_t bits = 32;
  std::uint16_t lanes = 1;
};
/// DLTensor.
struct Tensor {
  void* data = nullptr;
  Device device;
  std::int32_t ndim = 0;
  DataType dtype;
  std::int64_t* shape = nullptr;
  std::int64_t* strides = nullptr;  // in elements; null: dense, row-major
  std::uint64_t byte_offset = 0;    // from data to the first element
};
/// DLManagedTensor: the form of DLPack before 1.0.
struct ManagedTensor {
  Tensor tensor;
  void* manager = nullptr;
  void (*deleter)(ManagedTensor* self) = nullptr;
};
/// DLManagedTensorVersioned.
struct VersionedTensor {
  std::uint32_t major = kMajorVersion, minor = kMinorVersion;
  void* manager = nullptr;
  void (*deleter)(VersionedTensor* self) = nullptr;
  std::uint64_t flags = 0;
  Tensor tensor;
};
inline constexpr std::uint64_t kReadOnly = 1;  // a flag: the consumer must not write

}  // namespace dlpack

/// Lends an output of the last run as a tensor that the receiver releases with `deleter`, on any
/// thread. Until then the session refuses, with Error(kUsage), whatever writes or moves the memory:
/// run, run_async, warm_up, reset_state and the profile functions. The memory outlives the session,
/// unless it is the caller's own (Session::set_output). Use Session::set_output for a result that
/// must outlive the next run.
///
/// On a GPU, the run's stream orders the values. Release the tensor only after the receiver's own
/// work on it has ended: the next run may overwrite the memory at once. Throws as Session::output
/// does.
SINTER_API dlpack::VersionedTensor* to_dlpack(Session& session, std::size_t output);
/// The same for receivers that support only DLPack before 1.0.
SINTER_API dlpack::ManagedTensor* to_dlpack_unversioned(Session& session, std::size_t output);

/// Converts a DLPack tensor to a view for set_input and use_input. The view is valid as long as the
/// tensor; the caller still releases the tensor. Throws Error(kUsage) unless the tensor is dense,
/// row-major, of a known element type and in host or CUDA memory.
SINTER_API TensorView from_dlpack(const dlpack::Tensor& tensor);
/// The same for a writable view, for set_output. The caller checks that the tensor is not
/// read-only.
SINTER_API MutableTensorView mutable_from_dlpack(const dlpack::Tensor& tensor);

}  // namespace sinter
