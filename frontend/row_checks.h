// A node's attributes and inputs against those that its operator has in its version.
#pragma once

#include <cstdint>

#include "frontend/ops/op_table.h"

namespace sinter::frontend {

/// Throws Error(kInvalidModel) for an attribute that `row` lacks in `version`, with the versions
/// that have it and what stands in its place, and for inputs that the operator does not have.
void check_against_row(const onnx::NodeProto& node, const OpRow& row, std::int64_t version);

}  // namespace sinter::frontend
