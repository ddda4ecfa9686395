// SPDX-License-Identifier: Apache-2.0
// DLPack import and export. tests/runtime checks the structures' layout against DLPack's.
#include <memory>
#include <optional>
#include <vector>

#include <sinter/dlpack.h>

#include "runtime/format_error.h"
#include "runtime/session_access.h"

namespace sinter {
namespace {

/// A lent tensor's structure and the owner of its memory.
template <typename Managed>
struct Loan {
  Managed managed;
  std::vector<std::int64_t> shape, strides;
  std::unique_ptr<const SessionLoan> memory;

  static void release(Managed* self) { delete static_cast<Loan*>(self->manager); }
};

dlpack::TypeCode code_of(DType dtype) {
  switch (dtype) {
    case DType::kBool: return dlpack::TypeCode::kBool;
    case DType::kBFloat16: return dlpack::TypeCode::kBFloat;
    case DType::kFloat8E4M3FN: return dlpack::TypeCode::kFloat8E4M3FN;
    case DType::kFloat8E5M2: return dlpack::TypeCode::kFloat8E5M2;
    case DType::kFloat8E4M3FNUZ: return dlpack::TypeCode::kFloat8E4M3FNUZ;
    case DType::kFloat8E5M2FNUZ: return dlpack::TypeCode::kFloat8E5M2FNUZ;
    default: break;
  }
  if (is_float(dtype)) return dlpack::TypeCode::kFloat;
  return is_signed_integer(dtype) ? dlpack::TypeCode::kInt : dlpack::TypeCode::kUInt;
}

template <typename Managed>
Managed* lend(Session& session, std::size_t output) {
  const std::shared_ptr<SessionAccess::Impl>& impl = SessionAccess::impl(session);
  const SessionAccess::Impl::Use use(impl.get());
  const TensorView& view = impl->output(output);
  auto loan = std::make_unique<Loan<Managed>>();
  loan->shape = view.shape;
  loan->strides.resize(view.shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = view.shape.size(); d-- > 0; stride *= view.shape[d])
    loan->strides[d] = stride;
  dlpack::Tensor& tensor = loan->managed.tensor;
  tensor.data = const_cast<void*>(view.data);
  if (view.memory == Memory::kDevice) tensor.device = {dlpack::DeviceType::kCuda, view.device};
  tensor.ndim = static_cast<std::int32_t>(view.shape.size());
  tensor.dtype = {code_of(view.dtype), static_cast<std::uint8_t>(8 * size_of(view.dtype)), 1};
  tensor.shape = loan->shape.data();
  tensor.strides = loan->strides.data();
  if constexpr (std::is_same_v<Managed, dlpack::VersionedTensor>)
    if (runtime::state_of(impl->meta(), *impl->meta().outputs[output]))
      loan->managed.flags =
          dlpack::kReadOnly;  // what is written there would be the next run's input
  loan->managed.manager = loan.get();
  loan->managed.deleter = &Loan<Managed>::release;
  loan->memory = std::make_unique<const SessionLoan>(impl, output);
  return &loan.release()->managed;
}

std::optional<DType> dtype_from(const dlpack::DataType& type) {
  if (type.lanes != 1) return std::nullopt;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (code_of(dtype) == type.code && 8 * size_of(dtype) == type.bits) return dtype;
  }
  return std::nullopt;
}

[[noreturn]] void refuse_dlpack(const std::string& why) {
  throw usage_error("the DLPack tensor " + why);
}

std::vector<std::int64_t> dense_shape(const dlpack::Tensor& tensor) {
  if (tensor.ndim < 0 || (tensor.ndim > 0 && !tensor.shape))
    refuse_dlpack(
        fmt::format("has {} dimensions and {} shape", tensor.ndim, tensor.shape ? "a" : "no"));
  std::vector<std::int64_t> shape(tensor.shape, tensor.shape + tensor.ndim);
  if (detail::element_count(shape) == 0 || !tensor.strides) return shape;
  std::int64_t dense = 1;
  for (std::size_t d = shape.size(); d-- > 0; dense *= shape[d])
    if (shape[d] != 1 && tensor.strides[d] != dense)
      refuse_dlpack(fmt::format(
          "of shape [{}] has the strides [{}]; only dense row-major ones are taken: make a "
          "contiguous copy first",
          fmt::join(shape, ", "), fmt::join(tensor.strides, tensor.strides + tensor.ndim, ", ")));
  return shape;
}

}  // namespace

dlpack::VersionedTensor* to_dlpack(Session& session, std::size_t output) {
  return lend<dlpack::VersionedTensor>(session, output);
}

dlpack::ManagedTensor* to_dlpack_unversioned(Session& session, std::size_t output) {
  return lend<dlpack::ManagedTensor>(session, output);
}

MutableTensorView mutable_from_dlpack(const dlpack::Tensor& tensor) {
  MutableTensorView view;
  const auto dtype = dtype_from(tensor.dtype);
  if (!dtype)
    refuse_dlpack(fmt::format(
        "has elements of type code {} with {} bits and {} lanes, which is no type of Sinter's",
        static_cast<int>(tensor.dtype.code), tensor.dtype.bits, tensor.dtype.lanes));
  view.dtype = *dtype;
  view.shape = dense_shape(tensor);
  switch (tensor.device.type) {
    case dlpack::DeviceType::kCpu:
    case dlpack::DeviceType::kCudaHost: break;
    case dlpack::DeviceType::kCuda:
    case dlpack::DeviceType::kCudaManaged:
      view.memory = Memory::kDevice;
      view.device = tensor.device.id;
      break;
    default:
      refuse_dlpack(
          fmt::format("is on a device of type {}; only the CPU (1, 3) and CUDA (2, 13) are taken",
                      static_cast<int>(tensor.device.type)));
  }
  if (tensor.data) view.data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  return view;
}

TensorView from_dlpack(const dlpack::Tensor& tensor) { return mutable_from_dlpack(tensor); }

}  // namespace sinter
