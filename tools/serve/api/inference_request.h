// SPDX-License-Identifier: Apache-2.0
// Tensors as the Open Inference Protocol (KServe v2) writes them in HTTP, JSON or binary.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/serve/models/tensor_model.h"

namespace sinter::tools {

struct InferenceRequest {
  std::string id;
  std::map<std::string, OwnedTensor> inputs;
  /// Indices of the plan's outputs that are wanted, each once, and whether it is to be binary.
  std::vector<std::pair<std::size_t, bool>> outputs;
};
/// `json_bytes` of the body are JSON, what follows are binary tensors. Throws ApiError (400).
InferenceRequest parse_inference(const std::string& body, std::size_t json_bytes, const Plan& plan);
/// Names, types and shapes (-1: any) of what the model takes and gives.
nlohmann::ordered_json metadata_of(const std::string& model, const Plan& plan);

}  // namespace sinter::tools
