// SPDX-License-Identifier: Apache-2.0
#include "tools/generate/encoder.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "runtime/format_error.h"
#include "tools/compiler/run/inputs.h"
#include "tools/generate/bindings.h"

namespace sinter::tools {
namespace {

constexpr const char* kIds = "input_ids";
constexpr const char* kMask = "attention_mask";

bool has(const std::vector<BindingInfo>& bindings, const std::string& name) {
  return std::ranges::find(bindings, name, &BindingInfo::name) != bindings.end();
}

}  // namespace

Encoder::Encoder(const Plan& plan, const SessionOptions& session)
    : plan_(plan), session_(plan, session) {}

void Encoder::require_pair(const Plan& encoder, const Plan& decoder) {
  std::vector<std::string> outputs;
  for (const BindingInfo& output : encoder.outputs()) {
    if (has(decoder.inputs(), output.name)) return;
    outputs.push_back("'" + output.name + "'");
  }
  for (const BindingInfo& input : decoder.inputs()) refuse_later_step(input);
  throw usage_error(
      "none of the encoder's outputs ({}) is an input of the decoder's plan: they belong to "
      "different models",
      fmt::join(outputs, ", "));
}

void Encoder::set_input(const std::string& name, const TensorView& view) {
  session_.set_input(name, view);
}

void Encoder::set_tokens(std::span<const std::int64_t> ids) {
  if (ids.empty()) throw usage_error("there is no text for the encoder");
  const std::vector<std::int64_t> shape = {1, std::ssize(ids)};
  mask_.assign(ids.size(), 1);
  for (const BindingInfo& input : plan_.inputs()) {
    const bool is_ids = input.name == kIds;
    if (!is_ids && input.name != kMask)
      throw usage_error("the encoder takes '{}', which is neither '{}' nor '{}'", input.name, kIds,
                        kMask);
    const auto values = is_ids ? ids : std::span<const std::int64_t>(mask_);
    session_.set_input(input.name, view_of(ir::Tensor::from_ints(input.dtype, shape, values)));
  }
}

std::shared_ptr<const EncoderOutput> Encoder::run(const Plan& decoder) {
  session_.run();
  auto given = std::make_shared<EncoderOutput>();
  for (const BindingInfo& input : decoder.inputs()) {
    if (!has(plan_.outputs(), input.name)) continue;
    const TensorView& view = session_.output(input.name);
    const auto* const bytes = static_cast<const std::byte*>(view.data);
    given->tensors.push_back(
        {input.name, view.dtype, view.shape, {bytes, bytes + view.byte_count()}});
  }
  return given;
}

}  // namespace sinter::tools
