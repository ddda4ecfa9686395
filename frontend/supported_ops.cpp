// SPDX-License-Identifier: Apache-2.0
// What import knows: its operators and opsets.
#include <map>

#include "frontend/import.h"
#include "frontend/model/structure.h"
#include "frontend/ops/table/input_names.h"
#include "frontend/ops/table/op_table.h"

namespace sinter::frontend {

std::vector<SupportedOp> supported_ops() {
  std::map<std::pair<std::string_view, std::string_view>, std::string_view> families;
  for (const OpFamily& family : op_families())
    for (const OpRow& row : *family.rows)
      families.emplace(std::pair(row.domain, row.name), family.title);
  std::vector<SupportedOp> ops;
  for (const OpRow& row : all_op_rows()) {
    SupportedOp op{row.domain.empty() ? "ai.onnx" : std::string(row.domain),
                   std::string(row.name),
                   row.since_version,
                   holds_until(row),
                   std::string(families.at({row.domain, row.name})),
                   std::string(to_string(row.types)) + (row.takes_float8 ? ", float8" : ""),
                   {},
                   {},
                   {}};
    for (const OpAttribute& each : attributes_of(row))
      op.attributes.push_back({std::string(each.name), each.first, each.last});
    for (const InputNames& each : all_input_names())
      if (each.domain == row.domain && each.name == row.name)
        op.inputs.emplace_back(each.since, each.names);
    for (int i = 0; i < kDTypeCount; ++i)
      if (takes_type(row, static_cast<DType>(i))) op.dtypes.push_back(static_cast<DType>(i));
    ops.push_back(std::move(op));
  }
  return ops;
}

std::pair<std::int64_t, std::int64_t> supported_opsets() { return {kMinOpset, kMaxOpset}; }

}  // namespace sinter::frontend
