// SPDX-License-Identifier: Apache-2.0
// A completion that runs: what the engine's thread gives to who answers, who waits for nothing.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/serve/openai/completion_request.h"
#include "tools/serve/openai/logprobs.h"
#include "tools/serve/tool_calls/tool_call_stream.h"

namespace sinter::tools {

class CompletionCall {
 public:
  /// Submits all prompts. Throws as Engine::submit does; then none runs.
  CompletionCall(std::shared_ptr<ServedModel> model, CompletionRequest request, std::string id);
  /// Cancels what has not ended.
  ~CompletionCall();
  CompletionCall(const CompletionCall&) = delete;
  CompletionCall& operator=(const CompletionCall&) = delete;

  const CompletionRequest& request() const { return request_; }

  /// How much of a stream may wait for a client that reads slowly.
  static constexpr std::size_t kMostWaitingBytes = 1 << 20;

  /// `wake` is called when take() has something anew, or waiting_bytes() is more than the above;
  /// of a request that is no stream, when all choices have ended. By the engine's thread, which
  /// steps wait for, or within this; not after the destructor.
  void on_ready(std::function<void()> wake);
  /// The next piece of a stream, as JSON; nothing if there is none yet.
  std::optional<nlohmann::ordered_json> take();
  /// All choices have ended, though take() may not have given all of it.
  bool has_ended() const;
  /// Bytes, about, that wait for take().
  std::size_t waiting_bytes() const;
  /// All choices have ended, and take() has given all of it.
  bool is_done() const { return ended_ == choices_.size(); }
  /// The whole answer, of all that take() has given.
  nlohmann::ordered_json answer() const;
  /// The last piece of a stream that asks for it.
  nlohmann::ordered_json usage_piece() const;
  /// Empty, or how the engine failed.
  const std::string& error() const { return error_; }

 private:
  struct Choice {
    Choice(const ServedModel& model, const ToolForm* calls) : logprob_writer(model) {
      if (calls != nullptr) splitter.emplace(*calls);
    }

    std::string text, finish;
    bool has_begun = false;
    std::vector<TokenId> tokens;
    nlohmann::ordered_json logprobs;
    LogprobWriter logprob_writer;
    std::optional<ToolCallSplitter> splitter;  // where calls are objects
    nlohmann::ordered_json tool_calls = nlohmann::ordered_json::array();
  };
  // Outlives the call as long as the engine may call back.
  struct Mailbox {
    std::mutex mutex;
    std::deque<std::pair<std::size_t, GenerationOutput>> outputs;  // with the prompt's number
    std::size_t bytes = 0;                                         // of them
    std::size_t choices = 0, ended = 0;
    bool is_stream = false;
    std::function<void()> wake;

    void put(std::size_t prompt, const GenerationOutput& output);
  };

  nlohmann::ordered_json head(bool is_piece) const;
  nlohmann::ordered_json piece_of(std::size_t index, const GenerationOutput& output);
  /// Of a message: what is said in it, and what calls came with it.
  nlohmann::ordered_json delta_of(std::size_t index, const GenerationOutput& output);
  nlohmann::ordered_json usage() const;

  std::shared_ptr<ServedModel> model_;
  CompletionRequest request_;
  std::string id_;
  std::time_t created_;
  std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
  std::vector<RequestId> running_;
  std::vector<Choice> choices_;  // of the first prompt, then of the second
  std::size_t ended_ = 0, prompt_tokens_ = 0, generated_tokens_ = 0;
  std::string error_;
};

}  // namespace sinter::tools
