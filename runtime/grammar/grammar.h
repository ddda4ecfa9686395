// SPDX-License-Identifier: Apache-2.0
// Structured output: the tokens that may come next in a text under a Constraint. Uses xgrammar,
// which only this folder includes.
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

/// A compiled constraint over a vocabulary's tokens. Immutable and thread-safe.
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

/// Compiles constraints for one vocabulary. Thread-safe; compiles one constraint at a time.
class Compiler {
 public:
  /// `token_bytes` as in EngineOptions, called for each of `vocabulary` tokens; tokens without
  /// bytes never match. Throws Error(kUsage) if no token has bytes.
  Compiler(int vocabulary, const std::function<std::string_view(TokenId)>& token_bytes);
  ~Compiler();

  /// Caches the most recent results. Throws Error(kUsage) with the reason if a constraint is
  /// malformed, unsupported or too expensive (more than some seconds of a core).
  std::shared_ptr<const Grammar> compile(const Constraint& constraint);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The matching state of one text, determined by the accepted tokens.
class Matcher {
 public:
  /// `stops` end the text, whatever their bytes. Shares ownership of `grammar`.
  Matcher(std::shared_ptr<const Grammar> grammar, std::span<const TokenId> stops);
  Matcher(Matcher&&) noexcept;
  Matcher& operator=(Matcher&&) noexcept;
  ~Matcher();

  /// Bit t % 32 of word t / 32: token t may come next. Valid until the next call.
  std::span<const std::uint32_t> mask();
  /// Whether no token may come next.
  bool is_stuck();
  /// Accepts a token that may come next. Throws Error(kInternal) for any other token, and after the
  /// end. This and mask() throw Error(kUsage) if a text exceeds its budget of work, on average some
  /// milliseconds per token. After that, no token is valid.
  void accept(TokenId token);
  /// A stop token was accepted, or only stop tokens may follow.
  bool has_ended() const { return has_ended_; }

 private:
  struct State;
  void fill();

  std::shared_ptr<const Grammar> grammar_;
  std::vector<TokenId> stops_;
  std::unique_ptr<State> state_;
  std::vector<std::uint32_t> mask_;
  std::int64_t units_;  // remaining budget of work
  bool is_filled_ = false, has_ended_ = false;
};

/// Whether token `token` is set in `mask`.
inline bool allows(std::span<const std::uint32_t> mask, TokenId token) {
  const auto at = static_cast<std::size_t>(token);
  return at / 32 < mask.size() && ((mask[at / 32] >> (at % 32)) & 1) != 0;
}

}  // namespace sinter::grammar
