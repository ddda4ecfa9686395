// SPDX-License-Identifier: Apache-2.0
// Converts TensorProto to ir::Tensor, for every storage form.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "frontend/model/external_data.h"
#include "ir/tensor.h"

namespace onnx {
class SparseTensorProto;
}

namespace sinter::frontend {

/// The Sinter type of an ONNX TensorProto.DataType; nullopt if unsupported.
std::optional<DType> dtype_of(int onnx_type);
/// The ONNX name of a data type ("FLOAT8E4M3FN"), also for types newer than the generated classes;
/// "type 99" for an unknown one.
std::string onnx_type_name(int onnx_type);
/// Like dtype_of, but throws Error(kUnsupported): "`what` has type STRING, ...".
DType require_dtype(int onnx_type, const std::string& what);

/// Converts `proto`; borrows its bytes where the format allows it. Raw data is borrowed from
/// `owner`, which keeps `proto` alive (null: it is copied), external data from its mapped file.
/// Throws Error(kInvalidModel) for sizes that overflow or are inconsistent, kUnsupported for types
/// that Sinter lacks; both name the tensor.
ir::Tensor read_tensor(const onnx::TensorProto& proto, std::shared_ptr<const void> owner,
                       ExternalData& external);

/// ONNX's 4-bit integers. Sinter supports them only as constants, stored as int8 or uint8.
inline constexpr int kUInt4 = 21, kInt4 = 22;
/// ONNX's strings; see model/texts.h.
inline constexpr int kString = 8;
bool is_four_bit(int onnx_type);
/// Like read_tensor, for 4-bit integers: returns int8 or uint8.
ir::Tensor read_four_bit_tensor(const onnx::TensorProto& proto, ExternalData& external);

/// ONNX's 4-bit floats and 8-bit exponent-only scales: read_tensor converts them to f8e4m3fn and
/// f32.
inline constexpr int kFloat4E2M1 = 23, kFloat8E8M0 = 24;
bool is_scaled_float(int onnx_type);

/// The dense form of `proto`: its values at its indices (linear, or one row of indices per value),
/// zeros elsewhere. Throws as read_tensor does, and kUnsupported above kMaxDenseBytes, since the
/// size in the file does not limit the dense size.
ir::Tensor read_sparse_tensor(const onnx::SparseTensorProto& proto, ExternalData& external);
inline constexpr std::int64_t kMaxDenseBytes = std::int64_t{1} << 28;

}  // namespace sinter::frontend
