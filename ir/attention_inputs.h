// SPDX-License-Identifier: Apache-2.0
// Roles of Attention's inputs: those after q, k and v are optional.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ir/attributes.h"
#include "ir/dim/dim.h"
#include "ir/scaled_rows.h"

namespace sinter::ir {

/// Weights that count as zero (attribute "guard"): none, NaN ones, or those of rows whose scores
/// are all -inf. With the last, a NaN score stays NaN.
inline constexpr std::int64_t kGuardNone = 0, kGuardNan = 1, kGuardHidden = 2;

/// Whether queries of this type, with keys and values, are fp8 without scales. Values are then
/// transposed, [.., dv, columns]: the columns are keys, zero-padded to value_columns(), as tensor
/// cores need both operands K-major. The result is float32, as for fp8 matmuls; the caller applies
/// the scales.
constexpr bool is_eight_bit_attention(DType queries) { return queries == DType::kFloat8E4M3FN; }
inline constexpr std::int64_t kValueUnit = 16;  // keys in one copy
inline Dim value_columns(const Dim& keys, const Ranges& ranges = {}) {
  return ceil_div(keys, kValueUnit, ranges) * Dim(kValueUnit);
}
/// Weights relative to a row's largest are in 0 to 1. They are multiplied by this before rounding,
/// to use the range of e4m3.
inline constexpr double kWeightUnit = 256;

struct AttentionInputs {
  std::optional<std::size_t> mask, limits, bounds, tables, key_scales, value_scales;
  std::size_t operands = 0;  // the last inputs, which the scores' body reads
};

inline std::size_t operands_of_scores(const Attrs& attrs) {
  return static_cast<std::size_t>(attrs.get_int("score_operands"));
}

/// The inputs of an Attention with these attributes and `count` inputs. q, k and v come first. With
/// "packed", the sequences' bounds follow; with "paged", limits, the sequences' starts and their
/// block tables; otherwise an optional mask and, with "limited", limits. `keys` is the type of k
/// and v; for 8 bits their row scales follow, as two inputs. Operands of the scores come last.
inline AttentionInputs attention_inputs(const Attrs& attrs, std::size_t count, DType keys) {
  const bool limited = attrs.get_int("limited") != 0;
  AttentionInputs result;
  result.operands = operands_of_scores(attrs);
  count -= result.operands;
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
