// SPDX-License-Identifier: Apache-2.0
// An answer that is computed while it is sent: bytes, whatever carries them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tools/serve/openai/completion_call.h"

namespace sinter::tools {

class AnswerCall {
 public:
  virtual ~AnswerCall() = default;
  /// Whether it comes in pieces, as server-sent events; else it is one JSON object.
  bool streams() const { return call_.request().stream; }
  /// As CompletionCall has them.
  void on_ready(std::function<void()> wake) { call_.on_ready(std::move(wake)); }
  std::size_t waiting_bytes() const { return call_.waiting_bytes(); }
  bool has_ended() const { return call_.has_ended(); }
  bool is_done() const { return call_.is_done(); }

  /// Of a stream: the events that come next; nothing if there are none yet.
  virtual std::optional<std::string> next() = 0;
  /// Of another, which has ended: the JSON. Throws ApiError (500) if the engine failed.
  virtual std::string whole() = 0;

 protected:
  AnswerCall(std::shared_ptr<ServedModel> model, CompletionRequest request, std::string id)
      : call_(std::move(model), std::move(request), std::move(id)) {}

  CompletionCall call_;
};

/// A server-sent event; `name` may be empty.
std::string event_text(std::string_view name, std::string_view data);

/// A completion, or a message of a conversation.
class CompletionAnswer final : public AnswerCall {
 public:
  CompletionAnswer(std::shared_ptr<ServedModel> model, CompletionRequest request, std::string id)
      : AnswerCall(std::move(model), std::move(request), std::move(id)) {}
  std::optional<std::string> next() override;
  std::string whole() override;
};

}  // namespace sinter::tools
