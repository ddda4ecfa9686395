// SPDX-License-Identifier: Apache-2.0
// Which tokens may come next in a text that a Constraint describes. By xgrammar, which nothing
// outside of this folder includes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <sinter/engine.h>

namespace sinter::grammar {

/// A constraint over a vocabulary's tokens, compiled. Immutable: threads share it.
class Grammar {
 public:
  struct Impl;
  explicit Grammar(std::unique_ptr<const Impl> impl);
  ~Grammar();
  Grammar(const Grammar&) = delete;
  Grammar& operator=(const Grammar&) = delete;

  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<const Impl> impl_;
};

/// Compiles constraints for one vocabulary. Members may be called from any thread; one constraint
/// is compiled at a time.
class Compiler {
 public:
  /// `token_bytes` as EngineOptions has it, called for each of `vocabulary` tokens; those without
  /// bytes are in no text. Throws Error(kUsage) if no token has bytes.
  Compiler(int vocabulary, const std::function<std::string_view(TokenId)>& token_bytes);
  ~Compiler();

  /// Those of the last are kept. Throws Error(kUsage) with the reason for a constraint that is
  /// malformed, asks for what is not supported, or takes too much work: some seconds of a core.
  std::shared_ptr<const Grammar> compile(const Constraint& constraint);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Where one text is. A state is a function of the tokens that were accepted.
class Matcher {
 public:
  /// `stops` end the text, whatever their bytes are. Of `grammar` a reference is kept.
  Matcher(std::shared_ptr<const Grammar> grammar, std::span<const TokenId> stops);
  Matcher(Matcher&&) noexcept;
  Matcher& operator=(Matcher&&) noexcept;
  ~Matcher();

  /// Bit t % 32 of word t / 32: whether token t may come next. Valid until the next call.
  std::span<const std::uint32_t> mask();
  /// Whether no token may.
  bool is_stuck();
  /// Takes a token that may come next. Throws Error(kInternal) for another, and behind the end.
  /// This and mask() throw Error(kUsage) if a text takes too much work, some milliseconds a token
  /// in the mean; then the text has no next token.
  void accept(TokenId token);
  /// A stop token came, or nothing else may come.
  bool has_ended() const { return has_ended_; }

 private:
  struct State;
  void fill();

  std::shared_ptr<const Grammar> grammar_;
  std::vector<TokenId> stops_;
  std::unique_ptr<State> state_;
  std::vector<std::uint32_t> mask_;
  std::int64_t units_;  // of work, that are left
  bool is_filled_ = false, has_ended_ = false;
};

/// Whether `mask` has the bit of `token`.
inline bool allows(std::span<const std::uint32_t> mask, TokenId token) {
  const auto at = static_cast<std::size_t>(token);
  return at / 32 < mask.size() && ((mask[at / 32] >> (at % 32)) & 1) != 0;
}

}  // namespace sinter::grammar
