// SPDX-License-Identifier: Apache-2.0
#include "frontend/model/initializers.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include <onnx.pb.h>

#include "ir/scale_format.h"
#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

[[noreturn]] void invalid(const onnx::TensorProto& proto, std::string_view why) {
  throw invalid_model_error("tensor '{}': {}", proto.name(), why);
}

/// Element count and bytes according to the fields of `proto`.
struct Extent {
  std::vector<std::int64_t> shape;
  std::size_t count = 1;
  std::size_t bytes = 0;
};

Extent extent_of(const onnx::TensorProto& proto, DType dtype) {
  Extent extent;
  extent.shape.assign(proto.dims().begin(), proto.dims().end());
  const std::string shape = fmt::format("[{}]", fmt::join(extent.shape, ", "));
  std::uint64_t count = 1;
  bool empty = false;
  for (const std::int64_t dim : extent.shape) {
    if (dim < 0) invalid(proto, fmt::format("shape {} has a negative dimension", shape));
    if (dim == 0) empty = true;
  }
  for (const std::int64_t dim : extent.shape)
    if (!empty && __builtin_mul_overflow(count, static_cast<std::uint64_t>(dim), &count))
      invalid(proto, fmt::format("the size of shape {} overflows", shape));
  if (empty) count = 0;
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(size_of(dtype)), &bytes) ||
      bytes > static_cast<std::uint64_t>(INT64_MAX))
    invalid(proto, fmt::format("the size of shape {} of {} overflows", shape, to_string(dtype)));
  extent.count = static_cast<std::size_t>(count);
  extent.bytes = static_cast<std::size_t>(bytes);
  return extent;
}

template <typename Stored, typename Field>
std::vector<std::byte> narrow(const Field& field) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(field.size()) * sizeof(Stored));
  std::byte* at = bytes.data();
  for (const auto value : field) {
    const auto stored = static_cast<Stored>(value);
    std::memcpy(at, &stored, sizeof(Stored));
    at += sizeof(Stored);
  }
  return bytes;
}

/// Number of elements in the typed field that the ONNX specification gives to `dtype`.
std::size_t typed_size(const onnx::TensorProto& proto, DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return static_cast<std::size_t>(proto.float_data_size());
    case DType::kFloat64: return static_cast<std::size_t>(proto.double_data_size());
    case DType::kInt64: return static_cast<std::size_t>(proto.int64_data_size());
    case DType::kUInt32:
    case DType::kUInt64: return static_cast<std::size_t>(proto.uint64_data_size());
    default: return static_cast<std::size_t>(proto.int32_data_size());
  }
}

/// Contents of that field. Narrow floats are stored in int32_data as bit patterns.
std::vector<std::byte> typed_bytes(const onnx::TensorProto& proto, DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return narrow<float>(proto.float_data());
    case DType::kFloat64: return narrow<double>(proto.double_data());
    case DType::kInt64: return narrow<std::int64_t>(proto.int64_data());
    case DType::kUInt32: return narrow<std::uint32_t>(proto.uint64_data());
    case DType::kUInt64: return narrow<std::uint64_t>(proto.uint64_data());
    case DType::kInt32: return narrow<std::int32_t>(proto.int32_data());
    case DType::kInt16:
    case DType::kUInt16:
    case DType::kFloat16:
    case DType::kBFloat16: return narrow<std::uint16_t>(proto.int32_data());
    case DType::kInt8:
    case DType::kUInt8:
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2FNUZ: return narrow<std::uint8_t>(proto.int32_data());
    case DType::kBool: {
      std::vector<std::byte> bytes = narrow<std::uint8_t>(proto.int32_data());
      return bytes;
    }
  }
  return {};
}

bool is_aligned(std::span<const std::byte> bytes, DType dtype) {
  return reinterpret_cast<std::uintptr_t>(bytes.data()) % size_of(dtype) == 0;
}

/// Converts booleans to 0 and 1, since kernels would treat other values differently.
std::shared_ptr<const ir::Buffer> normalise_booleans(std::span<const std::byte> bytes) {
  std::vector<std::byte> clean(bytes.begin(), bytes.end());
  for (std::byte& value : clean) value = value == std::byte{0} ? std::byte{0} : std::byte{1};
  return ir::Buffer::take(std::move(clean));
}

std::shared_ptr<const ir::Buffer> to_buffer(std::span<const std::byte> bytes, DType dtype,
                                            std::shared_ptr<const void> owner,
                                            std::function<void()> forget = {}) {
  if (dtype == DType::kBool) return normalise_booleans(bytes);
  // Copies small constants, so that they do not keep the whole model in memory.
  constexpr std::size_t kSmall = 4096;
  if (!owner || bytes.size() <= kSmall || !is_aligned(bytes, dtype))
    return ir::Buffer::copy_of(bytes);
  return ir::Buffer::borrow(bytes, std::move(owner), std::move(forget));
}

}  // namespace

std::optional<DType> dtype_of(int onnx_type) {
  switch (onnx_type) {
    case 1: return DType::kFloat32;
    case 2: return DType::kUInt8;
    case 3: return DType::kInt8;
    case 4: return DType::kUInt16;
    case 5: return DType::kInt16;
    case 6: return DType::kInt32;
    case 7: return DType::kInt64;
    case 9: return DType::kBool;
    case 10: return DType::kFloat16;
    case 11: return DType::kFloat64;
    case 12: return DType::kUInt32;
    case 13: return DType::kUInt64;
    case 16: return DType::kBFloat16;
    case 17: return DType::kFloat8E4M3FN;
    case 18: return DType::kFloat8E4M3FNUZ;
    case 19: return DType::kFloat8E5M2;
    case 20: return DType::kFloat8E5M2FNUZ;
    default: return std::nullopt;
  }
}

std::string onnx_type_name(int onnx_type) {
  static constexpr std::string_view kNames[] = {
      "UNDEFINED",      "FLOAT",      "UINT8",          "INT8",       "UINT16",    "INT16",
      "INT32",          "INT64",      "STRING",         "BOOL",       "FLOAT16",   "DOUBLE",
      "UINT32",         "UINT64",     "COMPLEX64",      "COMPLEX128", "BFLOAT16",  "FLOAT8E4M3FN",
      "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "UINT4",      "INT4",      "FLOAT4E2M1",
      "FLOAT8E8M0",     "UINT2",      "INT2",           "FLOAT6E2M3", "FLOAT6E3M2"};
  if (onnx_type >= 0 && onnx_type < static_cast<int>(std::size(kNames)))
    return std::string(kNames[onnx_type]);
  return fmt::format("type {}", onnx_type);
}

DType require_dtype(int onnx_type, const std::string& what) {
  if (const auto dtype = dtype_of(onnx_type)) return *dtype;
  if (onnx_type == 0) throw invalid_model_error("{} has no element type", what);
  throw unsupported_error(
      "{} has element type {}, which is not supported (supported are bool, 8 "
      "to 64 bit integers, the four float8, float16, bfloat16, float32 and float64)",
      what, onnx_type_name(onnx_type));
}

bool is_four_bit(int onnx_type) { return onnx_type == kUInt4 || onnx_type == kInt4; }
bool is_scaled_float(int onnx_type) { return onnx_type == kFloat4E2M1 || onnx_type == kFloat8E8M0; }

namespace {

/// Reads the codes of a tensor of a type that Sinter lacks, `each` to a byte; calls `give(i,
/// code)`.
template <class Give>
void read_codes(const onnx::TensorProto& proto, ExternalData& external, const Extent& extent,
                std::size_t each, const Give& give) {
  if (proto.has_segment()) invalid(proto, "it is split into segments, which no exporter writes");
  const std::size_t stored = (extent.count + each - 1) / each;
  std::vector<std::byte> held;
  std::span<const std::byte> packed;
  std::shared_ptr<const MappedFile> file;
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    ExternalData::Slice slice = external.find(proto, stored);
    packed = slice.bytes;
    file = std::move(slice.owner);
  } else if (proto.has_raw_data()) {
    packed = std::as_bytes(std::span(proto.raw_data()));
  } else {
    held = narrow<std::uint8_t>(proto.int32_data());
    packed = held;
  }
  if (packed.size() != stored)
    invalid(proto,
            fmt::format("it has {} bytes of data, but {}[{}] needs {}", packed.size(),
                        onnx_type_name(proto.data_type()), fmt::join(extent.shape, ", "), stored));
  for (std::size_t i = 0; i < extent.count; ++i) {
    const int byte = std::to_integer<int>(packed[i / each]);
    give(i, each == 1 ? byte : i % 2 == 0 ? byte & 15 : byte >> 4);
  }
  if (file) file->forget(packed);
}

/// The numbers in a wider type that represents all of them exactly.
ir::Tensor read_scaled_floats(const onnx::TensorProto& proto, ExternalData& external) {
  const bool is_float4 = proto.data_type() == kFloat4E2M1;
  const DType type = is_float4 ? DType::kFloat8E4M3FN : DType::kFloat32;
  const Extent extent = extent_of(proto, type);
  std::vector<std::byte> values(extent.bytes);
  read_codes(proto, external, extent, is_float4 ? 2 : 1, [&](std::size_t i, int code) {
    const double exponent =
        code == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, code - 127);
    ir::store_double(type, values.data() + i * size_of(type),
                     is_float4 ? ir::float4_codes().numbers[code] : exponent);
  });
  return ir::Tensor(type, extent.shape, ir::Buffer::take(std::move(values)));
}

}  // namespace

ir::Tensor read_four_bit_tensor(const onnx::TensorProto& proto, ExternalData& external) {
  const bool is_signed = proto.data_type() == kInt4;
  const Extent extent = extent_of(proto, DType::kUInt8);
  std::vector<std::byte> values(extent.count);
  read_codes(proto, external, extent, 2, [&](std::size_t i, int half) {
    values[i] = static_cast<std::byte>(is_signed && half > 7 ? half - 16 : half);
  });
  return ir::Tensor(is_signed ? DType::kInt8 : DType::kUInt8, extent.shape,
                    ir::Buffer::take(std::move(values)));
}

ir::Tensor read_tensor(const onnx::TensorProto& proto, std::shared_ptr<const void> owner,
                       ExternalData& external) {
  if (is_scaled_float(proto.data_type())) return read_scaled_floats(proto, external);
  const DType dtype = require_dtype(proto.data_type(), fmt::format("tensor '{}'", proto.name()));
  if (proto.has_segment()) invalid(proto, "it is split into segments, which no exporter writes");
  const Extent extent = extent_of(proto, dtype);
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    const ExternalData::Slice slice = external.find(proto, extent.bytes);
    // The buffer's owner keeps the bytes alive.
    return ir::Tensor(
        dtype, extent.shape,
        to_buffer(slice.bytes, dtype, slice.owner,
                  [file = slice.owner.get(), part = slice.bytes] { file->forget(part); }));
  }
  // protobuf.js writes an empty raw_data beside the typed field.
  if (proto.has_raw_data() && (!proto.raw_data().empty() || typed_size(proto, dtype) == 0)) {
    const std::string& raw = proto.raw_data();
    if (raw.size() != extent.bytes)
      invalid(proto, fmt::format("it has {} bytes of data, but {}[{}] needs {}", raw.size(),
                                 to_string(dtype), fmt::join(extent.shape, ", "), extent.bytes));
    return ir::Tensor(dtype, extent.shape,
                      to_buffer(std::as_bytes(std::span(raw)), dtype, std::move(owner)));
  }
  if (typed_size(proto, dtype) != extent.count)
    invalid(proto,
            fmt::format("it has {} elements of data, but {}[{}] needs {}", typed_size(proto, dtype),
                        to_string(dtype), fmt::join(extent.shape, ", "), extent.count));
  std::vector<std::byte> bytes = typed_bytes(proto, dtype);
  if (dtype == DType::kBool) return ir::Tensor(dtype, extent.shape, normalise_booleans(bytes));
  return ir::Tensor(dtype, extent.shape, ir::Buffer::take(std::move(bytes)));
}

ir::Tensor read_sparse_tensor(const onnx::SparseTensorProto& proto, ExternalData& external) {
  const ir::Tensor values = read_tensor(proto.values(), nullptr, external);
  const ir::Tensor indices = read_tensor(proto.indices(), nullptr, external);
  const auto wrong = [&](const std::string& why) { invalid(proto.values(), why); };
  const std::vector<std::int64_t> shape(proto.dims().begin(), proto.dims().end());
  const auto element = static_cast<std::int64_t>(size_of(values.dtype()));
  std::int64_t count = 1;
  for (const std::int64_t dim : shape) {
    if (dim < 0) wrong(fmt::format("shape [{}] has a negative dimension", fmt::join(shape, ", ")));
    if (dim > 0 && count > kMaxDenseBytes / element / dim)
      throw unsupported_error(
          "sparse tensor '{}' of shape [{}] would have more than {} bytes as a "
          "dense one; store it dense",
          proto.values().name(), fmt::join(shape, ", "), kMaxDenseBytes);
    count *= dim;
  }
  const std::int64_t stored = values.element_count();
  const auto rank = std::ssize(shape);
  const bool is_linear = indices.shape() == std::vector<std::int64_t>{stored};
  if (values.shape().size() != 1 || indices.dtype() != DType::kInt64 ||
      (!is_linear && indices.shape() != std::vector<std::int64_t>{stored, rank}))
    wrong(fmt::format(
        "a sparse tensor needs n values and i64[n] or i64[n, {}] indices, found {} and {}", rank,
        ir::to_string(values.type()), ir::to_string(indices.type())));
  std::vector<std::byte> dense(static_cast<std::size_t>(count * element));
  for (std::int64_t i = 0; i < stored; ++i) {
    std::int64_t at = is_linear ? indices.at_int(i) : 0;
    for (std::int64_t d = 0; !is_linear && d < rank; ++d) {
      const std::int64_t index = indices.at_int(i * rank + d);
      const std::int64_t extent = shape[static_cast<std::size_t>(d)];
      if (index < 0 || index >= extent)
        wrong(fmt::format("index {} is outside dimension {} of size {}", index, d, extent));
      at = at * extent + index;
    }
    if (at < 0 || at >= count)
      wrong(fmt::format("index {} is outside [{}]", at, fmt::join(shape, ", ")));
    std::memcpy(dense.data() + at * element, values.bytes().data() + i * element,
                static_cast<std::size_t>(element));
  }
  return ir::Tensor(values.dtype(), shape, ir::Buffer::take(std::move(dense)));
}

}  // namespace sinter::frontend
