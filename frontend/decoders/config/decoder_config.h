// SPDX-License-Identifier: Apache-2.0
// What decides a decoder's graph, whatever file it comes from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sinter::frontend {

enum class NormKind {
  kRms,
  kRmsPlusOne,  // the file has weights minus one
  kLayer,       // LayerNorm with a weight, and a bias where the file has one
  kPlainLayer,  // LayerNorm without a weight
};

/// How a block (attention, then the MLP) joins the residual stream x.
enum class Residual {
  kPre,       // x + f(norm(x))
  kPost,      // x + norm(f(x))
  kSandwich,  // x + norm(f(norm(x)))
  kParallel,  // x + attention(norm(x)) + mlp(norm(x)), each with a norm of its own
  kShared,    // the same with one norm for both
  kSingle,    // x + f(norm(x)), f being attention, a layer with a state, or an MLP
};

/// Norms of queries and keys before they are rotated.
enum class HeadNorms {
  kNone,
  kEach,   // over each head, one weight for all heads
  kOwn,    // over each head, LayerNorm with a weight for each head
  kWidth,  // over all heads at once
};

enum class Activation { kSilu, kGelu, kGeluTanh, kRelu, kSquaredRelu };

/// Angles of rotary embedding: position * frequency, for each pair of elements.
struct Rotary {
  std::vector<float> frequencies;
  /// For texts of more than `original` tokens, if not empty.
  std::vector<float> long_frequencies;
  std::int64_t original = 0;
  double factor = 1;  // of cosines and sines
};

/// A mixture of experts in place of the MLP of layers whose file has a router.
struct ExpertsConfig {
  std::int64_t count = 0, chosen = 0;         // experts; of a token
  std::int64_t intermediate = 0, shared = 0;  // sizes of an expert, and of one for all tokens
  bool normalises = false;                    // shares of the chosen experts add up to 1
  bool is_sigmoid = false;                    // scores are sigmoids, else a softmax
  bool corrects = false;                      // scores + a bias decide, scores are shares
  double share_scale = 1;
  std::int64_t groups = 1, kept_groups = 1;  // of experts; those that a token can choose from
  bool shared_has_share = true;              // the one for all tokens is scaled by a sigmoid
  bool is_fused = false;                     // one matrix has gate and up, whose rows alternate
  bool by_columns = false;                   // plain matrices of experts are [inputs, outputs]
  double limit = 0;  // m: min(gate, m) * sigmoid(1.702 min(gate, m)) * (clip(up, -m, m) + 1); 0:
                     // activation(gate) * up
};

/// Multi-head latent attention: keys and values are products of `rank` numbers for each token.
struct LatentConfig {
  std::int64_t rank = 0;        // 0: attention is not latent
  std::int64_t query_rank = 0;  // the same of queries; 0: they are not
  std::int64_t turned = 0;      // elements of a head, of the last ones, that are rotated
};

/// What mixes tokens in layers whose file has no attention: a convolution along the last tokens,
/// and a state of fixed size for each head (ir/ops/recurrent/linear_attention.cpp).
enum class Mixer {
  kNone,        // all layers have attention
  kShortConv,   // LFM2's gated convolution, which has no further state
  kMamba,       // arXiv:2312.00752: channels are heads of values of one element
  kMamba2,      // arXiv:2405.21060
  kGatedDelta,  // arXiv:2412.06464
};
struct MixerConfig {
  Mixer mixer = Mixer::kNone;
  std::int64_t taps = 0;       // of the convolution; its state has one row less
  std::int64_t heads = 0;      // states
  std::int64_t key_heads = 0;  // heads of queries and of keys, which consecutive states share
  std::int64_t key_size = 0, value_size = 0;
  std::int64_t step_rank = 0;  // of Mamba: numbers that the lengths of steps are products of
  double least_step = 0, most_step = 0;  // bounds of Mamba-2's; 0: none
  bool norms_groups = false;    // Mamba-2's norm is over each head of keys' part, else whole
  bool norms_operands = false;  // of Mamba: keys, queries and lengths of steps, by their size
  double operand_epsilon = 0;
  bool has_logarithms = false;   // the file has log(-A) in place of A
  std::optional<bool> has_bias;  // of what is read and written; nothing: as the file has it

  std::int64_t values() const { return heads * value_size; }
  std::int64_t keys() const { return key_heads * key_size; }
};

/// What a graph is for: the next token, or something of whole texts, without caches.
enum class TextUse {
  kNextToken,
  kVectors,  // of each token
  kLabels,   // logits of the text's labels
  kAnswer,   // one logit: that of a token less that of another, behind the last token
};

/// How vectors of tokens become one of the text.
enum class TextPooling { kFirst, kMean, kLast };

struct TextConfig {
  TextUse use = TextUse::kNextToken;
  TextPooling pooling = TextPooling::kLast;  // of labels
  bool has_dense = false;         // labels are of norm(activation(dense x)), else of x itself
  bool is_bidirectional = false;  // a token sees those behind it, too; within a window both ways
  std::int64_t yes = 0, no = -1;  // tokens of an answer; -1: there is no other
};

struct DecoderLayer {
  std::int64_t window = 0;    // a token sees the last `window` tokens, itself included; 0: all
  std::optional<int> rotary;  // index into DecoderConfig::rotaries; nothing: queries and keys have
                              // no positions
};

struct DecoderConfig {
  std::string architecture;
  std::int64_t hidden = 0, intermediate = 0, heads = 0, kv_heads = 0, head_size = 0;
  std::int64_t value_size = 0;  // of a head
  std::int64_t vocabulary = 0;
  std::int64_t positions = 0;  // most tokens of a text
  std::vector<DecoderLayer> layers;
  std::vector<Rotary> rotaries;
  /// In the file, pairs of queries and keys that turn together are elements 2i and 2i + 1; else
  /// they are half of what turns apart.
  bool rotates_neighbours = false;

  NormKind norm = NormKind::kRms;
  double epsilon = 1e-6;
  Residual residual = Residual::kPre;
  HeadNorms head_norms = HeadNorms::kNone;
  Activation activation = Activation::kSilu;
  bool is_gated = true;          // activation(gate x) * (up x), else activation(up x)
  bool is_tied = false;          // the output layer is the embedding
  bool norms_embedding = false;  // in place of the first layer's norm in front of attention
  bool mixes_heads = false;  // rows of a fused q, k, v are [head, (q, k, v), size], else all q, ..
  /// Biases of linear layers; nothing: where the file has them.
  std::optional<bool> qkv_bias, output_bias, mlp_bias;

  double score_scale = 0;
  double embedding_scale = 1, residual_scale = 1, logit_scale = 1;
  double score_cap = 0, logit_cap = 0;  // cap * tanh(x / cap); 0: none
  double clip = 0;                      // largest magnitude of queries, keys and values; 0: any

  bool has_sinks = false;  // each head has the score of one more key, whose value is zero

  bool gates_attention = false;  // rows of queries are [head, (query, gate), size]: the output is
                                 // scaled by sigmoid(gate)

  ExpertsConfig experts;
  LatentConfig latent;
  MixerConfig mixer;
  TextConfig text;

  std::vector<std::string> left_out;  // beginnings of names of tensors that are of no use
  std::vector<std::string> notes;     // what was read otherwise than the file says, or ignored
};

}  // namespace sinter::frontend
