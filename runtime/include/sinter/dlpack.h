// SPDX-License-Identifier: Apache-2.0
// Tensors to and from other libraries through DLPack, without a copy. The structures have the
// layout of DLPack 1.x; pointers to them are what a "dltensor" or "dltensor_versioned" capsule
// holds.
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
/// The floats of 8 bits have been there since DLPack 1.1.
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
/// DLManagedTensor: before DLPack 1.0.
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

/// An output of the session's last run as a tensor that the receiver releases with `deleter`, on
/// any thread. The memory stays the session's and is lent: until the tensor is released, what would
/// write or move it (run, run_async, warm_up, reset_state, the profile functions) throws
/// Error(kUsage), and what the session holds outlives the session (not so an output in memory that
/// set_output gave, which is the caller's). A result that must outlive the next run goes to memory
/// of the caller's (Session::set_output). On a GPU the values are complete in the order of the
/// run's stream, and the tensor must not be released before the receiver's work on it has ended:
/// the next run may write there at once. Throws as Session::output does.
SINTER_API dlpack::VersionedTensor* to_dlpack(Session& session, std::size_t output);
/// The same for receivers that know DLPack before 1.0 alone.
SINTER_API dlpack::ManagedTensor* to_dlpack_unversioned(Session& session, std::size_t output);

/// What a DLPack tensor says, for set_input and use_input. The view is valid as long as the tensor,
/// which stays the caller's to release. Throws Error(kUsage) naming what is not a dense row-major
/// tensor of a known element type in host or CUDA memory.
SINTER_API TensorView from_dlpack(const dlpack::Tensor& tensor);
/// The same to write to, for set_output. The caller has seen that the tensor is not read-only.
SINTER_API MutableTensorView mutable_from_dlpack(const dlpack::Tensor& tensor);

}  // namespace sinter
