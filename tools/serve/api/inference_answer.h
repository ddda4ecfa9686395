// SPDX-License-Identifier: Apache-2.0
// Tensors that go out over HTTP, written bit by bit: beside them little memory is taken.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/serve/api/inference_request.h"

namespace sinter::tools {

/// JSON, and behind it the tensors that are wanted as binary data.
class InferenceAnswer {
 public:
  /// Keeps those of `outputs` (all of the plan's) that are wanted. Throws ApiError (400) for a
  /// type that JSON cannot say.
  InferenceAnswer(const InferenceRequest& request, const std::string& model, const Plan& plan,
                  std::vector<OwnedTensor> outputs);

  bool has_binary() const { return !binary_.empty(); }
  /// Elements that are written as JSON.
  std::size_t json_elements() const { return json_elements_; }
  /// Adds `bytes` of the JSON at least, or its rest; false: that was its end.
  bool next_json(std::string& to, std::size_t bytes);
  /// The length of the whole JSON, which is written once for it and thrown away. Before
  /// next_json().
  std::size_t count_json();
  /// In the order of the request, as long as this lives.
  std::vector<std::string_view> binary() const;

 private:
  struct Part {
    std::string text;  // in front of the tensor's elements
    std::size_t tensor = 0;
    bool has_elements = false;
  };

  std::vector<OwnedTensor> outputs_;
  std::vector<Part> parts_;
  std::vector<std::size_t> binary_;
  std::size_t json_elements_ = 0;
  std::size_t part_ = 0, offset_ = 0;  // where next_json() goes on
  bool has_text_ = false;              // the text of that part is written
};

}  // namespace sinter::tools
