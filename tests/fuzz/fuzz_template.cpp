// SPDX-License-Identifier: Apache-2.0
// Chat templates of a stranger, from bytes: a text or an Error, within the limits of the sandbox.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include <sinter/error.h>

#include "runtime/sandbox/sandbox.h"
#include "tests/fuzz/growth.h"
#include "tools/generate/chat_template.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  sinter::sandbox::start();
  sinter::tests::watch_growth();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sinter;
  using nlohmann::ordered_json;
  static const ordered_json messages = ordered_json::parse(
      R"([{"role": "system", "content": "s"}, {"role": "user", "content": "hi \u00e9"},
          {"role": "assistant", "content": "", "tool_calls":
            [{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"a": [1]}}}]},
          {"role": "tool", "content": "3", "tool_call_id": "1"}])");
  static const ordered_json tools = ordered_json::parse(
      R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])");
  tests::grows_from_here();
  try {
    const auto made =
        tools::ChatTemplate::parse({reinterpret_cast<const char*>(data), size}, "<s>", "</s>");
    made.apply(messages, tools);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInternal) return 0;
    std::fprintf(stderr, "%s\n", error.what());
    std::abort();
  }
  return 0;
}
