// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/responses.h"

#include <optional>
#include <string>
#include <utility>

namespace sinter::tools {
namespace {

class AnswerStream final : public http::Source {
 public:
  explicit AnswerStream(std::shared_ptr<AnswerCall> call) : call_(std::move(call)) {}

  State next(std::string& to) override {
    const auto events = call_->next();
    if (!events) return State::kWait;
    to += *events;
    return call_->is_done() ? State::kEnd : State::kMore;
  }
  void on_ready(std::function<void()> wake) override { call_->on_ready(std::move(wake)); }
  bool is_behind() const override {
    return call_->waiting_bytes() > CompletionCall::kMostWaitingBytes;
  }
  std::string silence() override { return ": \n\n"; }  // a comment

 private:
  std::shared_ptr<AnswerCall> call_;
};

class AnswerInFull final : public http::Later {
 public:
  explicit AnswerInFull(std::shared_ptr<AnswerCall> call) : call_(std::move(call)) {}

  std::optional<http::Response> poll() override {
    if (!call_->has_ended()) return std::nullopt;
    return http::Response{.type = kJsonType, .body = call_->whole()};
  }
  void on_ready(std::function<void()> wake) override { call_->on_ready(std::move(wake)); }

 private:
  std::shared_ptr<AnswerCall> call_;
};

constexpr std::size_t kPiece = 64 << 10;

/// JSON, then binary data.
class InferenceStream final : public http::Source {
 public:
  explicit InferenceStream(std::shared_ptr<InferenceAnswer> answer)
      : answer_(std::move(answer)), binary_(answer_->binary()) {}

  State next(std::string& to) override {
    if (has_json_) {
      has_json_ = answer_->next_json(to, kPiece);
      return has_json_ || !binary_.empty() ? State::kMore : State::kEnd;
    }
    const std::string_view bytes = binary_[tensor_].substr(offset_, kPiece);
    to += bytes;
    offset_ += bytes.size();
    if (offset_ < binary_[tensor_].size()) return State::kMore;
    offset_ = 0;
    return ++tensor_ < binary_.size() ? State::kMore : State::kEnd;
  }

 private:
  std::shared_ptr<InferenceAnswer> answer_;
  std::vector<std::string_view> binary_;
  bool has_json_ = true;
  std::size_t tensor_ = 0, offset_ = 0;
};

}  // namespace

http::Response call_response(std::shared_ptr<AnswerCall> call) {
  http::Response response;
  if (call->streams()) {
    response.type = "text/event-stream";
    response.headers.emplace_back("Cache-Control", "no-cache");
    response.source = std::make_shared<AnswerStream>(std::move(call));
  } else {
    response.later = std::make_shared<AnswerInFull>(std::move(call));
  }
  return response;
}

http::Response inference_response(const std::shared_ptr<InferenceAnswer>& answer) {
  constexpr std::size_t kSmall = 64 << 10;  // elements; their JSON is made at once
  http::Response response;
  response.type = answer->has_binary() ? "application/octet-stream" : kJsonType;
  const bool is_small = answer->json_elements() <= kSmall;
  std::size_t json_bytes = 0;
  if (is_small) {
    while (answer->next_json(response.body, kPiece)) continue;
    json_bytes = response.body.size();
    for (const std::string_view bytes : answer->binary())
      response.pieces.push_back({bytes, answer});
  } else {
    if (answer->has_binary()) json_bytes = answer->count_json();
    response.source = std::make_shared<InferenceStream>(answer);
  }
  if (answer->has_binary())
    response.headers.emplace_back("Inference-Header-Content-Length", std::to_string(json_bytes));
  return response;
}

}  // namespace sinter::tools
