// SPDX-License-Identifier: Apache-2.0
// Which cases Sinter means to pass: decided from the model, not from its name.
#pragma once

#include <optional>
#include <string>

namespace onnx {
class ModelProto;
}

namespace sinter::conformance {

/// Why `model` is out of scope, or nothing. Out of scope are training, losses, random generators,
/// strings, sequences, optionals, and values of 8-bit float, 4-bit and 2-bit types at
/// the graph's border.
std::optional<std::string> out_of_scope(const onnx::ModelProto& model);

}  // namespace sinter::conformance
