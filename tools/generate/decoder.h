// SPDX-License-Identifier: Apache-2.0
// A plan of one sequence as a language model: tokens in, logits of the next one out, caches kept
// between.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sinter/compiler.h>

namespace sinter::tools {

/// Which binding is what. Where several names stand, the first that the plan has.
struct DecoderOptions {
  std::string ids = "input_ids";  // integers [1, tokens], or [tokens]
  /// Integers: where the first token stands, or where each does. Not needed by caches that grow.
  std::vector<std::string> position = {"position", "position_ids", "cache_position"};
  /// Integers or bools [1, all tokens so far], all ones. Not needed.
  std::vector<std::string> mask = {"attention_mask"};
  std::string logits = "logits";  // floats [.., vocabulary]: the last row
  /// INPUT=OUTPUT: caches besides those that are states of the plan, past_X with present_X, and
  /// past_key_values.X with present.X. Where the plan has `use_cache_branch`, those of an encoder
  /// (past_key_values.0.encoder.key) are made by the first run.
  std::vector<std::string> states;
  /// Tokens that the caches hold, where their shape leaves that open.
  std::int64_t context = 0;
  /// Inputs that give() brings before the first run, such as what an encoder made.
  std::vector<std::string> given;
};

/// Bytes of the weights that a run with these inputs reads: each once, of tables the rows.
std::uint64_t weight_bytes_read(const Plan& plan, const Shapes& shapes);

/// Runs a plan over tokens one after the other. Its caches have a fixed size, with keys along the
/// last but one dimension; or they grow: what comes out is longer, by the new tokens, along the
/// dimension in which its shape differs from that of what goes in.
class Decoder {
 public:
  /// Throws Error(kUsage) if the plan has no such bindings, saying which it has.
  Decoder(const Plan& plan, const DecoderOptions& options, const SessionOptions& session);

  /// The value of an input of DecoderOptions::given for the runs that follow: read where it lies,
  /// if it is where the plan computes, and then it must stay there; else copied. Throws
  /// Error(kUsage).
  void give(const std::string& name, const TensorView& view);
  /// Ones, of the input's type: a mask.
  void give_ones(const std::string& name, const std::vector<std::int64_t>& shape);
  const std::vector<std::string>& given() const { return given_; }
  /// How often something was given: what ran before then counts no more.
  std::uint64_t times_given() const { return times_given_; }

  /// Runs `ids` behind those that ran before, in one run or, where the plan's range is less, in
  /// several; the logits of the last one, valid until the next call. Throws Error(kUsage) if there
  /// are none or the caches do not hold them.
  std::span<const float> run(std::span<const std::int64_t> ids);

  /// Whether the three below may be called: the caches have a fixed size, the plan is told where
  /// tokens go and takes one at a time.
  bool seeks() const;
  /// The next run's tokens go behind the first `position` tokens of those that ran, or of those of
  /// the decoder that the caches were copied from.
  void seek(std::int64_t position);
  /// Makes the caches those of `other`, which has run and is of the same plan.
  void copy_caches(Decoder& other);
  /// The next run's tokens are the first; caches hold nothing.
  void restart();
  /// Logits of the last `rows` tokens of the last run, as run() gives those of one. The tokens must
  /// have run at once: at most most_rows() are.
  std::span<const float> last_logits(std::int64_t rows);
  /// 1 if the plan gives logits of a run's last token alone; all smaller numbers run at once, too.
  std::int64_t most_rows() const { return most_rows_; }
  /// Tokens that there are; 0: the plan does not say.
  std::int64_t vocabulary() const { return vocabulary_; }

  /// Does ahead what a first run of `tokens` tokens at `position` does once.
  void warm_up(std::int64_t tokens, std::int64_t position);

  std::int64_t position() const { return position_; }
  /// The most tokens that can run in all.
  std::int64_t capacity() const { return capacity_; }
  /// Whether the plan keeps its caches itself; else they travel through its inputs and outputs.
  bool keeps_state() const { return kept_ == caches_.size(); }
  bool grows() const;
  /// As they are now.
  std::uint64_t cache_bytes() const;
  /// Those that a run at `position` has to read: of the tokens before it.
  std::uint64_t valid_cache_bytes(std::int64_t position) const;
  /// weight_bytes_read of a run of one token.
  std::uint64_t weight_bytes() const;
  Session& session() { return session_; }

 private:
  struct Cache {
    std::string input, output;
    DType dtype;
    std::vector<std::int64_t> shape;     // as it is first
    std::optional<std::size_t> growing;  // the dimension along which it grows
    bool is_encoders = false;  // made by the first run, of what an encoder gave; later give none
    TensorView view(std::int64_t tokens) const;  // after so many, without data
  };

  static Cache cache_of(const BindingInfo& input, const BindingInfo& output);
  /// Gives zeros, of which there are `zeros` so far.
  void clear(const Cache& cache, std::vector<std::byte>& zeros);
  void add_cache(const BindingInfo& input, const BindingInfo& output, std::int64_t context);
  bool is_batch(const DimInfo& dim) const;  // one sequence
  void add_encoder_cache(const BindingInfo& input, const BindingInfo& output);
  /// The size that the input has in the next run, as far as it is fixed or that of what was given.
  std::int64_t given_size(const BindingInfo& input, std::size_t dim) const;
  /// Gives zeros as what the next run, the first, makes and does not look at.
  void clear_encoder_caches();
  void require_branch() const;
  void choose_branch(bool has_caches);
  /// Whether the mask alone says where tokens stand, as it is longer with each of them. Then caches
  /// that keep their size need not hold all tokens: either the mask's range ends where they do, or
  /// they are windows of the last ones.
  bool counts_by_mask() const;
  void find_caches(const Plan& plan, const DecoderOptions& options);
  std::map<std::string, std::vector<std::int64_t>> token_shapes(std::int64_t tokens,
                                                                std::int64_t position) const;
  /// Those, and the caches'.
  std::map<std::string, std::vector<std::int64_t>> all_shapes(std::int64_t tokens,
                                                              std::int64_t position) const;
  void set_integers(const BindingInfo& binding, std::vector<std::int64_t> shape, std::int64_t first,
                    std::int64_t step);
  void run_parts(std::span<const std::int64_t> ids);
  /// Tokens of the next run, where so many are left: as many as an entry point takes.
  std::int64_t part_of(std::int64_t tokens) const;
  void begin(const TensorView& ids);
  void finish();
  void require_logits(const Plan& plan, const std::string& name);
  void count_rows(const Plan& plan);
  bool runs_at_once(std::int64_t tokens) const;
  bool is_state(const std::string& input) const;

  Plan plan_;
  BindingInfo ids_;
  std::optional<BindingInfo> place_, mask_;
  // Of a model that two were merged to, as Optimum does: whether the caches hold something.
  std::optional<BindingInfo> branch_;
  std::string logits_;
  std::vector<std::string> given_;
  std::map<std::string, std::vector<std::int64_t>> given_shapes_;
  std::uint64_t times_given_ = 0;
  std::vector<Cache> caches_;  // the plan's states first
  std::size_t kept_ = 0;       // how many those are
  bool has_caches_ = false;    // what branch_ was given last
  Session session_;
  std::vector<std::pair<std::int64_t, std::int64_t>> takes_;  // at a time: least and most
  std::int64_t capacity_ = 0, position_ = 0;
  std::int64_t vocabulary_ = 0;
  std::int64_t most_rows_ = 1;
  bool in_flight_ = false;
  std::vector<float> values_;  // logits of 16 bits, widened
};

}  // namespace sinter::tools
