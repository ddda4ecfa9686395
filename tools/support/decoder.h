// A plan as a language model: tokens in, logits of the next one out, caches kept between.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sinter/sinter.h>

namespace sinter::tools {

/// Which binding is what.
struct DecoderOptions {
  std::string ids = "input_ids";      // integers [1, tokens], or [tokens]
  std::string position = "position";  // integers: of the first token, or if it has as many of each
  std::string logits = "logits";      // floats [.., vocabulary]: the last row counts
  /// INPUT=OUTPUT: caches besides those that are states of the plan, past_X with present_X, and
  /// past_key_values.X with present.X.
  std::vector<std::string> states;
  /// Tokens that the caches hold, where their shape leaves that open.
  std::int64_t context = 0;
};

/// Runs a plan over tokens one after the other. Keys lie along the last but one dimension of
/// caches.
class Decoder {
 public:
  /// Throws Error(kUsage) if the plan has no such bindings, saying which it has.
  Decoder(const Plan& plan, const DecoderOptions& options, const SessionOptions& session);

  /// Runs `ids` behind those that ran before, in one run or, where the plan's range is less, in
  /// several; the logits of the last one, valid until the next call. Throws Error(kUsage) if there
  /// are none or the caches do not hold them.
  std::span<const float> run(std::span<const std::int64_t> ids);
  /// Does ahead what a first run of `tokens` tokens does once.
  void warm_up(std::int64_t tokens);

  std::int64_t position() const { return position_; }
  /// The most tokens that can run in all.
  std::int64_t capacity() const { return capacity_; }
  /// Whether the plan keeps its caches itself; else they travel through its inputs and outputs.
  bool keeps_state() const { return loose_.empty(); }
  std::uint64_t cache_bytes() const { return cache_bytes_; }
  Session& session() { return session_; }

 private:
  struct Cache {
    std::string input, output;
    TensorView shape;  // without data
  };

  void find_caches(const Plan& plan, const DecoderOptions& options);
  void set_integers(const BindingInfo& binding, std::vector<std::int64_t> shape,
                    std::span<const std::int64_t> values);
  std::vector<std::int64_t> ids_shape(std::int64_t tokens) const;
  std::vector<std::int64_t> position_shape(std::int64_t tokens) const;
  void run_part(std::span<const std::int64_t> ids);

  BindingInfo ids_, position_binding_;
  std::string logits_;
  std::vector<Cache> caches_, loose_;
  Session session_;
  std::int64_t most_tokens_ = 0, least_tokens_ = 0, capacity_ = 0, position_ = 0;
  std::uint64_t cache_bytes_ = 0;
  std::vector<float> values_;
};

}  // namespace sinter::tools
