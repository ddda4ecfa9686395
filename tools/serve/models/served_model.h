// SPDX-License-Identifier: Apache-2.0
// A plan that is served: a decoder of texts by an engine, others by sessions.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sinter/engine.h>
#include <sinter/plan.h>
#include <sinter/session.h>

#include "tools/generate/chat_template.h"
#include "tools/generate/generation_config.h"
#include "tools/serve/models/embedder.h"
#include "tools/serve/models/embedding_files.h"
#include "tools/serve/models/source_encoder.h"
#include "tools/serve/models/speech_model.h"
#include "tools/serve/models/tensor_model.h"
#include "tools/serve/models/vision_model.h"
#include "tools/serve/tool_calls/tool_form.h"
#include "tools/tokenizer/tokenizer.h"

namespace sinter::engine {
struct ExecutorLimits;
}

namespace sinter::tools {

/// What a model is served from.
struct ServedPlans {
  Plan plan;
  std::optional<Plan> encoder = {}, draft = {};
  std::string tokenizer = {};               // path, where the options name none
  std::string folder = {};                  // of a Hugging Face model: how its vectors are pooled
  std::shared_ptr<const void> in_use = {};  // files that must stay until the model is loaded
};

struct ServedModelOptions {
  std::string plan;  // path, also in messages
  /// Makes the plans whenever the model is loaded; null: plan, encoder and draft are their files.
  std::function<ServedPlans()> open;
  std::string tokenizer;  // path of tokenizer.json; empty: prompts and answers are token ids
  /// Path of a chat template (ChatTemplate::load); empty: ChatTemplate::beside the tokenizer.
  std::string chat_template;
  std::string tool_form;          // of calls of tools, by name; empty: that of the chat template
  bool generation_config = true;  // whether generation_config.json beside the tokenizer counts
  /// Path of the other plan of a model of an encoder and a decoder; empty: it is none.
  std::string encoder;
  std::string start;  // first token of its texts, id or name; empty: generation_config.json's
  MakeSpeechModel make_speech = nullptr;  // null: no model of speech can be served
  MakeVisionModel make_vision = nullptr;  // null: no images can be read
  /// Of a decoder at once; 0: as many as the plan takes.
  int sequences = 0;
  std::uint64_t cache_bytes = 0;  // of the caches of a plan of --serve; 0: as EngineOptions say
  std::uint64_t state_bytes = 0;  // EngineOptions::state_bytes
  TensorModelOptions tensors;     // of any other plan; its `waiting` is the one below
  std::string pooling;         // of an encoder of texts, of pooling_options(); empty: as its folder
                               // says, else the mean
  std::int64_t context = 0;    // most tokens of a text; 0: as many as the plan has
  std::int64_t waiting = 256;  // requests that wait; more are refused (429)
  std::string draft;           // path of a plan of --serve that guesses tokens; empty: none
  int draft_tokens = 0;  // of a step, by it or by prompt lookup; 0: with a draft model 4, else none
  int step_tokens = 0;   // most of a step; 0: as many as the plan takes
  bool prefix_cache = true;  // of plans of --serve
  SessionOptions session;
  LoadOptions load;  // of the plan, and of the draft model's
};

/// Whether a model answers, or all of a server's do.
struct ModelState {
  bool is_ready = true;
  std::string reason;  // why not
};

class ServedModel {
 public:
  /// Throws as Plan::load, Tokenizer::load and engine::make_executor do.
  ServedModel(std::string name, ServedModelOptions options);
  /// Of an executor of the caller's: prompts and answers are token ids.
  ServedModel(std::string name, std::unique_ptr<engine::Executor> executor);

  const std::string& name() const { return name_; }
  const std::string& plan() const { return options_.plan; }
  std::time_t created() const { return created_; }
  /// What the plan is for: "cpu", "cuda".
  const std::string& target() const { return target_; }
  /// Any thread. A model whose engine has stopped for good is not ready.
  SINTER_API ModelState state() const;
  /// Of a decoder of texts; else null.
  Engine* engine() const { return engine_.get(); }
  /// Of any other plan; else null.
  TensorModel* tensors() const { return tensors_.get(); }
  /// Of a plan that is an encoder of texts (Embedder::takes); else null.
  Embedder* embedder() const { return embedder_.get(); }
  /// How an encoder's texts are made.
  const EmbeddingFiles& texts() const { return texts_; }
  /// Of an encoder and a decoder of texts: what reads the prompts; else null.
  SourceEncoder* source() const { return source_.get(); }
  /// Of a decoder that sees: what reads the images of prompts; else null.
  VisionModel* vision() const { return vision_.get(); }
  /// Of a model of speech; else null.
  SpeechModel* speech() const { return speech_.get(); }
  /// Null without one.
  const Tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }
  /// Of the tokens of one text, as the engine makes it; null without a tokenizer.
  std::unique_ptr<TokenText> new_text() const {
    return token_text_ ? token_text_() : std::unique_ptr<TokenText>();
  }
  /// Null without one.
  const ChatTemplate* chat_template() const { return chat_ ? &*chat_ : nullptr; }
  /// How calls of tools are spelled; null where nothing says it.
  const ToolForm* tool_form() const { return tool_form_; }
  /// What the model's authors say of draws.
  const GenerationConfig& generation_config() const { return config_; }
  /// Tokens that end a text: those of generation_config.json, else those that the tokenizer says
  /// are special, without those that are a part of calls.
  const std::vector<TokenId>& stop_tokens() const { return stop_tokens_; }
  const ServedModelOptions& options() const { return options_; }
  /// Of an engine over blocks; 0 of others.
  int block_size() const { return block_size_; }
  int blocks() const { return blocks_; }
  std::uint64_t cache_bytes() const { return cache_bytes_; }
  /// Tokens of a text at most, its prompt included.
  std::int64_t positions() const { return positions_; }
  /// Whether an encoder is told which tokens count: else a tokenizer's padding is a part of texts.
  bool masks() const { return masks_; }
  /// Tokens of a text at most, for what makes them.
  std::size_t most_tokens() const {
    return static_cast<std::size_t>(embedder_ ? embedder_->most_tokens()
                                    : source_ ? source_->most_tokens()
                                              : positions_);
  }

 private:
  void load_speech(const Plan& encoder, const Plan& decoder);
  void load_vision(const Plan& tower, const std::string& folder,
                   const engine::ExecutorLimits& limits);
  void load_source(const Plan& encoder, const Plan& decoder, const engine::ExecutorLimits& limits);
  /// Finds what ends a text. Special tokens that are a part of calls, with their names.
  std::map<TokenId, std::string> find_tokens(TokenId vocabulary);

  std::string name_;
  ServedModelOptions options_;
  std::time_t created_;
  std::string target_;
  std::optional<Tokenizer> tokenizer_;
  std::optional<ChatTemplate> chat_;
  GenerationConfig config_;
  const ToolForm* tool_form_ = nullptr;
  std::function<std::unique_ptr<TokenText>()> token_text_;
  int block_size_ = 0, blocks_ = 0;
  std::uint64_t cache_bytes_ = 0;
  std::vector<TokenId> stop_tokens_;
  std::int64_t positions_ = 0;
  bool masks_ = false;
  EmbeddingFiles texts_;
  std::unique_ptr<SpeechModel> speech_;
  std::unique_ptr<SourceEncoder> source_;
  std::unique_ptr<VisionModel> vision_;
  std::unique_ptr<TensorModel> tensors_;
  std::unique_ptr<Embedder> embedder_;
  std::unique_ptr<Engine> engine_;  // last: it ends before what it reads
};

}  // namespace sinter::tools
