// SPDX-License-Identifier: Apache-2.0
// TensorProto -> ir::Tensor, whatever the storage form.
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

/// The Sinter type of an ONNX TensorProto.DataType number, or nothing if there is none.
std::optional<DType> dtype_of(int onnx_type);
/// The ONNX name of a data type number ("FLOAT8E4M3FN"), also of those newer than the generated
/// classes; "type 99" for an unknown one.
std::string onnx_type_name(int onnx_type);
/// dtype_of that throws Error(kUnsupported): "`what` has type STRING, ...".
DType require_dtype(int onnx_type, const std::string& what);

/// Converts `proto`, whose bytes are borrowed where their form allows it: raw data from `owner`
/// (what keeps `proto` alive; without one they are copied), external data from its mapped file.
/// Throws Error(kInvalidModel) for sizes that overflow or contradict each other, kUnsupported for
/// types that Sinter lacks, both naming the tensor.
ir::Tensor read_tensor(const onnx::TensorProto& proto, std::shared_ptr<const void> owner,
                       ExternalData& external);

/// ONNX's types of 4-bit integers, of which Sinter has tensors of constants only, held as int8 or
/// uint8.
inline constexpr int kUInt4 = 21, kInt4 = 22;
bool is_four_bit(int onnx_type);
/// As read_tensor, for those: their numbers as int8 or uint8.
ir::Tensor read_four_bit_tensor(const onnx::TensorProto& proto, ExternalData& external);

/// ONNX's floats of 4 bits, and scales of 8 bits that are exponents: read_tensor gives the same
/// numbers as f8e4m3fn and f32.
inline constexpr int kFloat4E2M1 = 23, kFloat8E8M0 = 24;
bool is_scaled_float(int onnx_type);

/// The dense tensor that `proto` stands for: its values at its indices (linear, or one row of
/// indices for each value) and zeros elsewhere. Throws as read_tensor does, and kUnsupported for
/// one of more than kMaxDenseBytes: its size in the file says nothing about it.
ir::Tensor read_sparse_tensor(const onnx::SparseTensorProto& proto, ExternalData& external);
inline constexpr std::int64_t kMaxDenseBytes = std::int64_t{1} << 28;

}  // namespace sinter::frontend
