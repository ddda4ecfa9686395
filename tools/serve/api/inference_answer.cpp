// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/api/inference_answer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tools/serve/api/json_text.h"
#include "tools/serve/api/json_types.h"
#include "tools/serve/api/tensor_types.h"

namespace sinter::tools {

using nlohmann::ordered_json;

InferenceAnswer::InferenceAnswer(const InferenceRequest& request, const std::string& model,
                                 const Plan& plan, std::vector<OwnedTensor> outputs)
    : outputs_(std::move(outputs)) {
  ordered_json head = {{"model_name", model}, {"model_version", kModelVersion}};
  if (!request.id.empty()) head["id"] = request.id;
  const auto open = [](const ordered_json& object) {
    std::string text = dump(object);
    text.pop_back();
    return text;
  };
  std::string text = open(head) + ",\"outputs\":[";
  for (const auto& [index, is_binary] : request.outputs) {
    const OwnedTensor& tensor = outputs_[index];
    const std::string& name = plan.outputs()[index].name;
    ordered_json one = {
        {"name", name}, {"datatype", protocol_name(tensor.dtype)}, {"shape", tensor.shape}};
    if (&request.outputs.front().first != &index) text += ',';
    if (is_binary) {
      one["parameters"] = {{"binary_data_size", tensor.data.size()}};
      text += dump(one);
      binary_.push_back(index);
      continue;
    }
    with_json_type(tensor.dtype, name, [](auto) {});
    json_elements_ += tensor.data.size() / size_of(tensor.dtype);
    parts_.push_back({text + open(one) + ",\"data\":[", index, true});
    text = "]}";
  }
  parts_.push_back({text + "]}", 0, false});
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    if (std::ranges::find(request.outputs, i, &std::pair<std::size_t, bool>::first) ==
        request.outputs.end())
      outputs_[i] = {};
}

bool InferenceAnswer::next_json(std::string& to, std::size_t bytes) {
  const std::size_t wanted = to.size() + bytes;
  for (; part_ < parts_.size(); ++part_, offset_ = 0, has_text_ = false) {
    const Part& part = parts_[part_];
    if (!std::exchange(has_text_, true)) to += part.text;
    if (!part.has_elements) continue;
    const std::vector<std::byte>& data = outputs_[part.tensor].data;
    with_json_type(outputs_[part.tensor].dtype, "", [&](auto tag) {
      using T = decltype(tag);
      for (; offset_ < data.size() && to.size() < wanted; offset_ += sizeof(T)) {
        T value;
        std::memcpy(&value, data.data() + offset_, sizeof value);
        if (offset_ > 0) to += ',';
        to += ordered_json(value).dump();
      }
    });
    if (offset_ < data.size()) return true;
  }
  return false;
}

std::size_t InferenceAnswer::count_json() {
  constexpr std::size_t kPiece = 64 << 10;
  std::size_t bytes = 0;
  std::string piece;
  for (bool goes_on = true; goes_on; bytes += piece.size()) {
    piece.clear();
    goes_on = next_json(piece, kPiece);
  }
  part_ = offset_ = 0;
  has_text_ = false;
  return bytes;
}

std::vector<std::string_view> InferenceAnswer::binary() const {
  std::vector<std::string_view> result;
  for (const std::size_t i : binary_)
    result.emplace_back(reinterpret_cast<const char*>(outputs_[i].data.data()),
                        outputs_[i].data.size());
  return result;
}

}  // namespace sinter::tools
