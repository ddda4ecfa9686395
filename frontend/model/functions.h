// SPDX-License-Identifier: Apache-2.0
// Model-local functions.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "frontend/model/attributes.h"

namespace onnx {
class FunctionProto;
class ModelProto;
class NodeProto;
}  // namespace onnx

namespace sinter::frontend {

/// A model's local functions, by domain, name and overload.
class FunctionLibrary {
 public:
  /// `model` must outlive this. Throws Error(kInvalidModel) if a function is defined twice.
  explicit FunctionLibrary(const onnx::ModelProto& model);

  /// The function that `node` calls, or null.
  const onnx::FunctionProto* find(const onnx::NodeProto& node) const;

 private:
  std::map<std::tuple<std::string, std::string, std::string>, const onnx::FunctionProto*>
      functions_;
};

/// Attributes that a call of `function` may set.
std::vector<KnownAttribute> declared_attributes(const onnx::FunctionProto& function);

/// A copy of `function` with references to its attributes replaced by the values of `call`, or by
/// defaults. References to attributes with neither are removed. Throws Error(kInvalidModel) for a
/// required attribute that `call` lacks.
std::shared_ptr<const onnx::FunctionProto> bind_attributes(const onnx::FunctionProto& function,
                                                           const onnx::NodeProto& call);

}  // namespace sinter::frontend
