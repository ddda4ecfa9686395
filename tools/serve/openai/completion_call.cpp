// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/openai/completion_call.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace sinter::tools {

using nlohmann::ordered_json;

namespace {

std::size_t bytes_of(const GenerationOutput& output) {
  std::size_t bytes = sizeof output + output.text.size() + output.tokens.size() * sizeof(TokenId);
  for (const TokenLogprobs& one : output.logprobs)
    bytes += sizeof one + one.likeliest.size() * sizeof one.likeliest[0];
  return bytes;
}

}  // namespace

void CompletionCall::Mailbox::put(std::size_t prompt, const GenerationOutput& output) {
  const std::lock_guard lock(mutex);
  const bool was_behind = bytes > kMostWaitingBytes;
  outputs.emplace_back(prompt, output);
  bytes += bytes_of(output);
  if (output.finish != FinishReason::kNone) ++ended;
  const bool is_news = is_stream ? outputs.size() == 1 || (!was_behind && bytes > kMostWaitingBytes)
                                 : ended == choices;
  if (wake && is_news) wake();
}

CompletionCall::CompletionCall(std::shared_ptr<ServedModel> model, CompletionRequest request,
                               std::string id)
    : model_(std::move(model)),
      request_(std::move(request)),
      id_(std::move(id)),
      created_(std::time(nullptr)) {
  prompt_tokens_ = request_.prompt_tokens;
  mailbox_->is_stream = request_.stream;
  for (const GenerationRequest& one : request_.prompts)
    mailbox_->choices += static_cast<std::size_t>(one.sampling.samples);
  for (std::size_t i = 0; i < request_.prompts.size(); ++i) {
    const GenerationRequest& one = request_.prompts[i];
    for (int sample = 0; sample < one.sampling.samples; ++sample)
      choices_.emplace_back(*model_, request_.calls);
    try {
      running_.push_back(model_->engine()->submit(
          one,
          [mailbox = mailbox_, i](const GenerationOutput& output) { mailbox->put(i, output); }));
    } catch (...) {
      for (const RequestId running : running_) model_->engine()->cancel(running);
      throw;
    }
  }
}

CompletionCall::~CompletionCall() {
  on_ready(nullptr);
  if (!is_done())
    for (const RequestId running : running_) model_->engine()->cancel(running);
}

void CompletionCall::on_ready(std::function<void()> wake) {
  const std::lock_guard lock(mailbox_->mutex);
  mailbox_->wake = std::move(wake);
  const bool is_ready =
      request_.stream ? !mailbox_->outputs.empty() : mailbox_->ended == mailbox_->choices;
  if (mailbox_->wake && is_ready) mailbox_->wake();
}

bool CompletionCall::has_ended() const {
  const std::lock_guard lock(mailbox_->mutex);
  return mailbox_->ended == mailbox_->choices;
}

std::size_t CompletionCall::waiting_bytes() const {
  const std::lock_guard lock(mailbox_->mutex);
  return mailbox_->bytes;
}

std::optional<ordered_json> CompletionCall::take() {
  std::pair<std::size_t, GenerationOutput> came;
  {
    const std::lock_guard lock(mailbox_->mutex);
    if (mailbox_->outputs.empty()) return std::nullopt;
    came = std::move(mailbox_->outputs.front());
    mailbox_->outputs.pop_front();
    mailbox_->bytes -= bytes_of(came.second);
  }
  const GenerationOutput& output = came.second;
  const std::size_t index =
      came.first * static_cast<std::size_t>(request_.prompts.front().sampling.samples) +
      static_cast<std::size_t>(output.sample);
  generated_tokens_ += output.tokens.size();
  ordered_json result = head(true);
  result["choices"] = ordered_json::array({piece_of(index, output)});
  return result;
}

ordered_json CompletionCall::delta_of(std::size_t index, const GenerationOutput& output) {
  Choice& choice = choices_[index];
  ordered_json delta;
  if (!choice.has_begun) delta["role"] = "assistant";
  if (!choice.splitter) {
    delta["content"] = output.text;
    choice.text += output.text;
    return delta;
  }
  auto [text, calls] = choice.splitter->add(output.text);
  if (output.finish != FinishReason::kNone) {
    auto rest = choice.splitter->finish();
    text += rest.text;
    std::ranges::move(rest.calls, std::back_inserter(calls));
  }
  if (!text.empty() || calls.empty()) delta["content"] = text;
  choice.text += text;
  for (auto& [name, arguments] : calls) {
    const std::size_t number = choice.tool_calls.size();
    if (number > 0 && !request_.parallel_calls) break;
    ordered_json call = {{"id", fmt::format("call_{}_{}_{}", id_, index, number)},
                         {"type", "function"},
                         {"function", {{"name", name}, {"arguments", arguments}}}};
    choice.tool_calls.push_back(call);
    call["index"] = number;
    delta["tool_calls"].push_back(std::move(call));
  }
  return delta;
}

ordered_json CompletionCall::piece_of(std::size_t index, const GenerationOutput& output) {
  Choice& choice = choices_[index];
  const bool is_chat = request_.form == ApiForm::kChat;
  ordered_json piece;
  if (is_chat) {
    piece = {{"index", index}, {"delta", delta_of(index, output)}, {"logprobs", nullptr}};
  } else {
    piece = {{"text", output.text}, {"index", index}, {"logprobs", nullptr}};
  }
  choice.has_begun = true;
  if (!output.logprobs.empty()) {
    ordered_json logprobs =
        is_chat ? choice.logprob_writer.of_message(output) : choice.logprob_writer.of_text(output);
    if (choice.logprobs.is_null()) {
      choice.logprobs = logprobs;
    } else {
      for (const auto& [name, values] : logprobs.items())
        for (const auto& value : values) choice.logprobs[name].push_back(value);
    }
    piece["logprobs"] = std::move(logprobs);
  }
  if (request_.token_ids) piece["token_ids"] = output.tokens;
  if (!is_chat) choice.text += output.text;
  choice.tokens.insert(choice.tokens.end(), output.tokens.begin(), output.tokens.end());
  if (output.finish == FinishReason::kNone) {
    piece["finish_reason"] = nullptr;
  } else {
    const bool calls = !choice.tool_calls.empty() && output.finish == FinishReason::kStop;
    choice.finish = calls ? "tool_calls" : to_string(output.finish);
    piece["finish_reason"] = choice.finish;
    ++ended_;
    if (output.finish == FinishReason::kError) error_ = output.error;
  }
  return piece;
}

ordered_json CompletionCall::answer() const {
  ordered_json result = head(false);
  ordered_json& choices = result["choices"] = ordered_json::array();
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const Choice& choice = choices_[i];
    ordered_json one;
    if (request_.form == ApiForm::kChat) {
      ordered_json message = {{"role", "assistant"}, {"content", choice.text}};
      if (!choice.tool_calls.empty()) {
        if (choice.text.empty()) message["content"] = nullptr;
        message["tool_calls"] = choice.tool_calls;
      }
      one = {{"index", i}, {"message", std::move(message)}, {"logprobs", choice.logprobs}};
    } else {
      one = {{"text", choice.text}, {"index", i}, {"logprobs", choice.logprobs}};
    }
    if (request_.token_ids) one["token_ids"] = choice.tokens;
    one["finish_reason"] = choice.finish;
    choices.push_back(std::move(one));
  }
  result["usage"] = usage();
  return result;
}

ordered_json CompletionCall::usage_piece() const {
  ordered_json result = head(true);
  result["choices"] = ordered_json::array();
  result["usage"] = usage();
  return result;
}

ordered_json CompletionCall::head(bool is_piece) const {
  const char* object = request_.form == ApiForm::kText ? "text_completion"
                       : is_piece                      ? "chat.completion.chunk"
                                                       : "chat.completion";
  return {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_->name()}};
}

ordered_json CompletionCall::usage() const {
  return {{"prompt_tokens", prompt_tokens_},
          {"completion_tokens", generated_tokens_},
          {"total_tokens", prompt_tokens_ + generated_tokens_}};
}

}  // namespace sinter::tools
