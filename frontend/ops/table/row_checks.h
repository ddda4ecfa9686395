// SPDX-License-Identifier: Apache-2.0
// Checks a node's attributes and inputs against those of its operator's version.
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

/// Checks nodes against the table; caches what it derives for an operator.
class RowChecks {
 public:
  /// Throws Error(kInvalidModel) for an attribute that `row` lacks in `version`, with the versions
  /// that have it and its replacement, and for surplus inputs (kUnsupported outside of ai.onnx).
  /// Returns attributes that are ignored (see ignored_attributes): of operators that ONNX Runtime
  /// has schemas of its own for.
  std::map<std::string, std::string, std::less<>> check(const onnx::NodeProto& node,
                                                        const OpRow& row, std::int64_t version);

  /// Throws Error if an input is an 8-bit float that the operator of `row` does not accept:
  /// kInvalidModel if ONNX forbids it, kUnsupported for operators of other domains.
  void check_float8(const OpRow& row, std::int64_t version, const ir::GraphBuilder& builder,
                    std::span<const ValueId> inputs);
  /// Throws Error(kInvalidModel) if inputs that must share an element type differ. A float constant
  /// beside computed values of another float type, as precision converters leave it, is converted
  /// if all its numbers are representable; `warn` is called.
  void unify_types(const OpRow& row, std::int64_t version, ir::GraphBuilder& builder,
                   std::span<ValueId> inputs, const std::function<void(const std::string&)>& warn);

 private:
  struct Known {
    std::vector<KnownAttribute> attributes;
    std::optional<std::vector<OpInput>> inputs;  // nullopt: not known
  };
  const Known& known(const OpRow& row, std::int64_t version);

  std::map<std::pair<const OpRow*, std::int64_t>, Known> known_;
};

}  // namespace sinter::frontend
