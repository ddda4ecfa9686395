// Which inputs of Attention are which: those behind q, k and v may be missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ir/attributes.h"
#include "ir/dim/dim.h"
#include "ir/scaled_rows.h"

namespace sinter::ir {

/// Which weights count as zero (attribute "guard"): none, those that are NaN, or those of rows of
/// which every score is -inf. Of the last, a NaN among the scores stays one.
inline constexpr std::int64_t kGuardNone = 0, kGuardNan = 1, kGuardHidden = 2;

/// Whether queries of this type, keys and values are floats of 8 bits as they are, without scales.
/// Values are given transposed then, [.., dv, columns], where the columns are the keys and zeros up
/// to value_columns(), since tensor cores add up along rows. The result is float32, as that of
/// products of such floats is, and who made the operands scales it.
constexpr bool is_eight_bit_attention(DType queries) { return queries == DType::kFloat8E4M3FN; }
inline constexpr std::int64_t kValueUnit = 16;  // keys that are copied at once
inline Dim value_columns(const Dim& keys, const Ranges& ranges = {}) {
  return ceil_div(keys, kValueUnit, ranges) * Dim(kValueUnit);
}
/// Weights relative to the largest of a row are in 0 to 1. They are rounded times this, which uses
/// the range that e4m3 has.
inline constexpr double kWeightUnit = 256;

struct AttentionInputs {
  std::optional<std::size_t> mask, limits, bounds, tables, key_scales, value_scales;
};

/// Of an Attention of these attributes with `count` inputs: q, k, v, then with attribute "packed"
/// the bounds of sequences; with "paged" the limits, the sequences' starts and their block tables;
/// else a mask if there is one, and with attribute "limited" the limits.
/// `keys`: the type of k and v. Of 8 bits, their rows' scales are the last two inputs.
inline AttentionInputs attention_inputs(const Attrs& attrs, std::size_t count, DType keys) {
  const bool limited = attrs.get_int("limited") != 0;
  AttentionInputs result;
  if (is_scaled_row_type(keys) && count > 4) {
    result.key_scales = count - 2;
    result.value_scales = count - 1;
    count -= 2;
  }
  if (!attrs.get_dims("packed").empty()) {
    result.bounds = 3;
    return result;
  }
  if (attrs.get_int("paged") != 0) {
    result.limits = 3;
    result.bounds = 4;
    result.tables = 5;
    return result;
  }
  if (limited && count > 3) result.limits = count - 1;
  if (count > (limited ? 4U : 3U)) result.mask = 3;
  return result;
}

}  // namespace sinter::ir
