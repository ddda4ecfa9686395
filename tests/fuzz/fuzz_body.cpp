// SPDX-License-Identifier: Apache-2.0
// Bodies of completions, chats, responses and token requests from bytes, for a served model: an
// error that a client is told, or requests of an engine. The same bytes as a text with tool calls.
// SINTER_FUZZ_PLAN and SINTER_FUZZ_TOKENIZER are its files.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <sinter/error.h>

#include "runtime/sandbox/sandbox.h"
#include "tests/fuzz/growth.h"
#include "tests/fuzz/json_mutator.h"
#include "tools/serve/api/api_error.h"
#include "tools/serve/api/json_text.h"
#include "tools/serve/openai/response_request.h"
#include "tools/serve/openai/token_requests.h"
#include "tools/serve/tool_calls/tool_call_stream.h"

namespace {

using namespace sinter;

tools::ServedModel& model() {
  static tools::ServedModel made("tiny", [] {
    tools::ServedModelOptions options;
    options.plan = std::getenv("SINTER_FUZZ_PLAN");
    options.tokenizer = std::getenv("SINTER_FUZZ_TOKENIZER");
    options.cache_bytes = 1 << 20;
    options.session.threads = 1;
    return options;
  }());
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  sandbox::start();
  model();
  tests::watch_growth();
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  return tests::mutate_json(data, size, most, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  tests::grows_from_here();
  const auto try_body = [&](auto&& parse) {
    try {
      parse(tools::parse_object(text));
    } catch (const tools::ApiError& error) {
      if (error.status() >= 500 && error.status() != 503) std::abort();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) std::abort();
    }
  };
  try_body([&](const auto& body) { tools::parse_completion(body, text, model()); });
  try_body([&](const auto& body) { tools::parse_chat(body, text, model()); });
  try_body([&](const auto& body) { tools::parse_response(body, text, model()); });
  try_body([&](const auto& body) { tools::tokenize(body, text, model()); });
  try_body([&](const auto& body) { tools::detokenize(body, model()); });
  for (const tools::ToolForm& form : tools::tool_forms()) {
    tools::ToolCallSplitter splitter(form);
    splitter.add(text.substr(0, size / 2));
    splitter.add(text.substr(size / 2));
    splitter.finish();
  }
  return 0;
}
