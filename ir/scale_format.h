// SPDX-License-Identifier: Apache-2.0
// How an operand stores numbers as codes with scales: the only definition. Products carry a format
// for each operand that has one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attributes.h"
#include "ir/constants/recipe.h"
#include "ir/tensor.h"

namespace sinter::ir {

struct Node;

/// Element codes, as a row of a matrix stores them.
struct CodeType {
  std::string_view name;  // name in text
  int bits = 8;
  DType stored = DType::kInt8;      // 4-bit codes: two per byte, even columns in the low nibble
  bool is_float = false;            // a float or a table: kernels cannot use the codes as integers
  double largest = 127;             // largest magnitude
  const double* numbers = nullptr;  // value by code; null: the values of `stored`, or -8..7
  double unit = 1;                  // all of `numbers` are int8 times this

  /// The code of the number; distinguishes zeros by sign.
  std::optional<int> code_of(double number) const;
};

/// The code type of this name; null if there is none. The pointer identifies the type.
const CodeType* find_code_type(std::string_view name);
/// The signed integers of 4 or 8 bits, or all codes of the 8 bits of `stored`. Nibbles are codes +
/// 8, in -8..7.
const CodeType& integer_codes(int bits);
const CodeType& codes_stored_as(DType stored);
/// 4-bit floats (e2m1): 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
const CodeType& float4_codes();
/// A code type's numbers in its units, as int8.
std::vector<std::int8_t> numbers_in_units(const CodeType& codes);

/// The code type of `values` in a recipe's attributes: "bits", and "codes" where bits and the type
/// of `values` are ambiguous. Null: no such type.
const CodeType* codes_in(const Attrs& attrs, const Tensor& values);
void set_codes(Attrs& attrs, const CodeType& codes);

/// An operand [.., rows, k] whose element (r, i) is (code - zero) * scale * factor + offset.
/// Scales, zero points and offsets are [ceil(rows / `rows`), ceil(k / `depth`)]: those of the
/// element's block. Factors are [rows, 1], if any: they extend the range of scales of 8 bits.
///
/// In text: "i8 * f32 row", "(i4 - i8) * f16 group 32", "f8e4m3fn * f32 block 128x128", MXFP4's
/// "f4e2m1 * e8m0 group 32", NVFP4's "f4e2m1 * f8e4m3fn group 16 * f32 row", Q4_1's
/// "(i4 - i8) * f16 group 32 + f16".
struct ScaleFormat {
  const CodeType* codes = nullptr;
  DType scale = DType::kFloat32;  // kUInt8: e8m0, the exponent of a power of two plus 127
  std::optional<DType> zero;      // type of zero points: integers in the range of codes, or f32
  std::int64_t depth = 0;         // consecutive k's that share a scale; 0: all
  std::int64_t rows = 1;          // rows that share it; 0: all
  bool has_factors = false;       // f32
  std::optional<DType> offset;    // a float

  /// Bytes of a row of k codes.
  std::int64_t pitch(std::int64_t k) const { return codes->bits == 4 ? k / 2 + k % 2 : k; }
  /// Number of scales along k.
  std::int64_t groups(std::int64_t k) const;
  /// Number of scales along the rows.
  std::int64_t row_groups(std::int64_t count) const;
  bool has_rows_of_scales() const { return rows == 1; }

  std::string to_string() const;
  /// The inverse of to_string(); throws Error(kInvalidModel).
  static ScaleFormat parse(std::string_view text);
  friend bool operator==(const ScaleFormat& a, const ScaleFormat& b) = default;
};

/// Number of groups of k elements; 0: all are one group.
std::int64_t group_count(std::int64_t k, std::int64_t group);

/// A matrix [n, k] in a format.
struct ScaledTensor {
  ScaleFormat format;
  std::int64_t k = 0;
  Tensor values, scales;
  std::optional<Tensor> zero_points;
  std::optional<Tensor> factors = {};
  std::optional<Tensor> offsets = {};

  std::int64_t n() const { return values.shape()[0]; }
  int bits() const { return format.codes->bits; }
};

/// Builds a ScaledTensor with the types of these parts; `group` is ScaleFormat::depth, `bits` 4 or
/// 8.
ScaledTensor scaled_rows_of(int bits, std::int64_t group, std::int64_t k, Tensor values,
                            Tensor scales, std::optional<Tensor> zero_points);
ScaledTensor scaled_rows_of(const CodeType& codes, std::int64_t group, std::int64_t k,
                            Tensor values, Tensor scales, std::optional<Tensor> zero_points,
                            std::optional<Tensor> factors = {});

/// The numbers that scales stand for, times their factors.
std::vector<double> scale_numbers(const ScaledTensor& weights);
/// Inputs: scales, and factors if any.
extern const Transform kScaleNumbers;
/// One number for each of "rows" rows.
extern const Transform kRowFactors;
Tensor factors_of_rows(const Tensor& number, std::int64_t rows);
/// The parts that there are, in the order of a MatMul's inputs after x.
std::vector<Tensor> parts_of(const ScaledTensor& weights);
/// The same weights without their offsets.
ScaledTensor without_offsets(ScaledTensor weights);
/// The same weights with f32 scales and no factors.
ScaledTensor with_plain_scales(ScaledTensor weights);

/// Packs rows of `columns` numbers in -8..7 into nibbles; an odd row is padded with zero.
Tensor pack_four_bits(std::span<const std::int8_t> values, std::int64_t rows, std::int64_t columns);
/// The codes, unpacked to [n, k].
Tensor unpacked_values(const ScaledTensor& weights);
/// Inputs: values, scales with one for each row or group, zero points or, if there is an attribute
/// "factors", factors, and offsets if there is an attribute "offsets"; attributes "bits" and
/// "group", k and the type of dequantized().
extern const Transform kDequantized;
/// The dequantized numbers as [n, k] of `dtype`, rounded once.
Tensor dequantized(const ScaledTensor& weights, DType dtype);

/// Formats of a MatMul's operands, its attributes "x" and "w"; none for plain numbers. A right
/// operand with a format is [n, k], not [k, n]. Inputs are x, w, the scales of x, then those of w,
/// then the zero points or the factors of w, then its offsets.
struct ProductFormats {
  std::optional<ScaleFormat> x, w;

  explicit ProductFormats(const Attrs& attrs);
  std::size_t input_count() const;
  /// Index of w's scales among the inputs.
  std::size_t weight_scales() const { return x ? 3 : 2; }
};
/// Attributes of a MatMul with weights in `format`.
Attrs product_attrs(const ScaleFormat& format);

/// True for a MatMul of plain operands.
bool is_plain_matmul(const Node& node);
/// True for a MatMul whose weights have a format but whose x has none.
bool has_scaled_weights(const Node& node);
/// True for a MatMul both of whose operands have formats.
bool has_scaled_operands(const Node& node);

/// The weights of a MatMul with these attributes, whose x has `k` columns; `operands` are its
/// inputs after x.
ScaledTensor weights_of(const Attrs& attrs, std::span<const Tensor> operands, std::int64_t k);

}  // namespace sinter::ir
