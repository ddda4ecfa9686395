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

/// The functions that a model defines, by domain, name and overload.
class FunctionLibrary {
 public:
  /// `model` must outlive the library. Throws Error(kInvalidModel) if a function is defined twice.
  explicit FunctionLibrary(const onnx::ModelProto& model);

  /// The function that `node` calls, or null.
  const onnx::FunctionProto* find(const onnx::NodeProto& node) const;

 private:
  std::map<std::tuple<std::string, std::string, std::string>, const onnx::FunctionProto*>
      functions_;
};

/// The attributes that a call of `function` may give.
std::vector<KnownAttribute> declared_attributes(const onnx::FunctionProto& function);

/// A copy of `function` in which every reference to one of its attributes is replaced by the value
/// that `call` gives it, or by its default. A reference to an attribute that has neither goes away.
/// Throws Error(kInvalidModel) for an attribute that `call` must give and does not.
std::shared_ptr<const onnx::FunctionProto> bind_attributes(const onnx::FunctionProto& function,
                                                           const onnx::NodeProto& call);

}  // namespace sinter::frontend
