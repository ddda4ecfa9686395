// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/models/source_encoder.h"

#include <algorithm>
#include <vector>

#include "runtime/format_error.h"
#include "tools/generate/bindings.h"

namespace sinter::tools {
namespace {

constexpr const char* kIds = "input_ids";

}  // namespace

bool SourceEncoder::takes(const Plan& encoder) {
  return find_binding(encoder.inputs(), kIds) != nullptr;
}

SourceEncoder::SourceEncoder(const Plan& encoder, const Plan& decoder, std::int64_t positions,
                             TokenId start, const SessionOptions& session)
    : encoder_(encoder, session), decoder_(decoder), most_tokens_(positions), start_(start) {
  const auto& inputs = encoder.inputs();
  const BindingInfo& ids = require_binding(inputs, kIds, "input", "--encoder");
  if (!ids.shape.empty()) most_tokens_ = std::min(most_tokens_, ids.shape.back().max);
}

void SourceEncoder::read(GenerationRequest& request) {
  const auto tokens = std::ssize(request.prompt);
  if (tokens > most_tokens_)
    throw usage_error("the prompt has {} tokens, and the encoder reads {}", tokens, most_tokens_);
  const std::vector<std::int64_t> ids(request.prompt.begin(), request.prompt.end());
  {
    const std::scoped_lock lock(mutex_);
    encoder_.set_tokens(ids);
    request.encoded = encoder_.run(decoder_);
  }
  request.prompt = {start_};
}

}  // namespace sinter::tools
