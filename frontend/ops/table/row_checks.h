// SPDX-License-Identifier: Apache-2.0
// A node's attributes and inputs against those that its operator has in its version.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "frontend/model/attributes.h"
#include "frontend/ops/table/input_names.h"
#include "frontend/ops/table/op_table.h"

namespace sinter::frontend {

/// Checks nodes; what it knows of an operator it makes once.
class RowChecks {
 public:
  /// Throws Error(kInvalidModel) for an attribute that `row` lacks in `version`, with the versions
  /// that have it and what stands in its place, and for inputs that the operator does not have
  /// (kUnsupported outside of ai.onnx).
  void check(const onnx::NodeProto& node, const OpRow& row, std::int64_t version);

  /// Throws Error if an input is a float of 8 bits, which the operator of `row` does not take:
  /// kInvalidModel where ONNX says so, kUnsupported for operators of other domains.
  void check_float8(const OpRow& row, std::int64_t version, const ir::GraphBuilder& builder,
                    std::span<const ValueId> inputs);
  /// Throws Error(kInvalidModel) where inputs that the operator wants of one element type have
  /// several. A constant of floats beside computed values of another float type, as converters of
  /// precision leave behind, takes theirs if all its numbers can, and `warn` is told.
  void unify_types(const OpRow& row, std::int64_t version, ir::GraphBuilder& builder,
                   std::span<ValueId> inputs, const std::function<void(const std::string&)>& warn);

 private:
  struct Known {
    std::vector<KnownAttribute> attributes;
    std::optional<std::vector<OpInput>> inputs;  // nothing: they are not known
  };
  const Known& known(const OpRow& row, std::int64_t version);

  std::map<std::pair<const OpRow*, std::int64_t>, Known> known_;
};

}  // namespace sinter::frontend
