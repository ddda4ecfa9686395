// SPDX-License-Identifier: Apache-2.0
// Operators that depend on the order of a row's elements: scans, and sorting.
#include <fmt/format.h>

#include "ir/ops/ops.h"
#include "ir/reference/kernels.h"

namespace sinter::ir::ops {
namespace {

bool flag_attr(const Attrs& attrs, std::string_view name) {
  const std::int64_t value = attrs.get_int(name);
  if (value != 0 && value != 1) invalid(fmt::format("{} is {}, not 0 or 1", name, value));
  return value == 1;
}

// ---- Scan: see ScanDef.

std::vector<TensorType> infer_scan(const Attrs& attrs, Types inputs) {
  require_numbers(inputs);
  axis_attr(attrs, "axis", inputs[0].shape);
  flag_attr(attrs, "reverse");
  const Combine combine = *combine_attr(attrs, false);
  // The identity of the others depends on the type.
  if (flag_attr(attrs, "exclusive") && combine != Combine::kSum && combine != Combine::kProd)
    invalid(fmt::format("exclusive is for sum and prod, but combine is {}", to_string(combine)));
  return {inputs[0]};
}

// ---- ArgSort: the indices of a row's elements in ascending (or descending) order, the first
// "count" of them. Stable; zeros of either sign are equal; NaN is larger than all numbers, and all
// NaNs are equal.

std::vector<TensorType> infer_arg_sort(const Attrs& attrs, Types inputs) {
  require_numbers(inputs);
  const int axis = axis_attr(attrs, "axis", inputs[0].shape);
  flag_attr(attrs, "descending");
  const Shape& count = attrs.get_dims("count");
  if (count.size() != 1) invalid(fmt::format("count must be one size, found {}", count.size()));
  TensorType result{DType::kInt64, inputs[0].shape};
  Dim& sorted = result.shape[static_cast<std::size_t>(axis)];
  const Dim rest = sorted - count[0];
  if (rest.is_constant() && rest.value() < 0)
    invalid(fmt::format("count is {}, but dimension {} of {} has fewer elements",
                        count[0].to_string(), axis, to_string(inputs[0])));
  sorted = count[0];
  return {result};
}

}  // namespace

std::vector<OpDef> ordered_ops() {
  OpDef scan{.name = "Scan",
             .kind = OpKind::kIndexed,
             .attrs = {{"axis", AttrKind::kInt, std::nullopt},
                       {"combine", AttrKind::kString, std::nullopt},
                       {"exclusive", AttrKind::kInt, Attr(std::int64_t{0})},
                       {"reverse", AttrKind::kInt, Attr(std::int64_t{0})}},
             .infer = infer_scan,
             .evaluate =
                 [](const Attrs& attrs, Tensors inputs, Types outputs) {
                   return reference::evaluate_scan(*combine_attr(attrs, false), attrs, inputs,
                                                   outputs);
                 },
             .detail = ScanDef{[](const Attrs& attrs) { return *combine_attr(attrs, false); }}};

  OpDef sort{.name = "ArgSort",
             .kind = OpKind::kLibrary,
             .kernel = "sort",
             .attrs = {{"axis", AttrKind::kInt, std::nullopt},
                       {"count", AttrKind::kDims, std::nullopt},
                       {"descending", AttrKind::kInt, Attr(std::int64_t{0})}},
             .infer = infer_arg_sort,
             .evaluate = reference::evaluate_arg_sort};
  return {scan, sort};
}

}  // namespace sinter::ir::ops
