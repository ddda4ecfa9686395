// SPDX-License-Identifier: Apache-2.0
#include "runtime/grammar/grammar.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <list>
#include <mutex>
#include <optional>
#include <string>

#include <xgrammar/xgrammar.h>

#include "runtime/format_error.h"
#include "runtime/grammar/source.h"
#include "runtime/grammar/transfer.h"
#include "runtime/grammar/xgrammar_calls.h"
#include "runtime/sandbox/sandbox.h"

namespace sinter::grammar {
namespace {

constexpr std::size_t kMostText = std::size_t{64} << 10;  // maximum bytes of a constraint
// Limits in units of work (xgrammar_calls.h); a core does about 50 million per second.
constexpr std::int64_t kCompileUnits = 100'000'000;
constexpr std::int64_t kTextUnits = 5'000'000;  // maximum unused budget of a text
constexpr std::int64_t kTokenUnits = 500'000;   // added for each token of a text
constexpr std::size_t kMostKept = 64;           // maximum number of cached grammars
// The library's own cache compares only 32 bits of a rule's hash: two grammars might be confused.
constexpr bool kHasCache = false;
constexpr std::size_t kMostKeptBytes = std::size_t{256} << 20;
constexpr std::size_t kMostGrammarBytes = std::size_t{64} << 20;

std::string_view name_of(Constraint::Kind kind) {
  switch (kind) {
    case Constraint::Kind::kJsonObject: return "JSON object";
    case Constraint::Kind::kJsonSchema: return "JSON schema";
    case Constraint::Kind::kRegex: return "regular expression";
    case Constraint::Kind::kGrammar: return "grammar";
    case Constraint::Kind::kChoice: return "choice";
    case Constraint::Kind::kStructuralTag: return "structural tag";
  }
  return "constraint";
}

std::size_t bytes_of(const Constraint& constraint) {
  std::size_t bytes = constraint.text.size();
  for (const std::string& choice : constraint.choices) bytes += choice.size();
  return bytes;
}

xgrammar::CompiledGrammar compiled(xgrammar::GrammarCompiler& compiler, const Source& source) {
  return source.is_tag ? compiler.CompileStructuralTag(source.text)
                       : compiler.CompileGrammar(source.text);
}

std::vector<std::string> vocabulary_of(
    int vocabulary, const std::function<std::string_view(TokenId)>& token_bytes) {
  std::vector<std::string> tokens;
  tokens.reserve(static_cast<std::size_t>(vocabulary));
  for (TokenId token = 0; token < vocabulary; ++token) tokens.emplace_back(token_bytes(token));
  if (std::ranges::all_of(tokens, &std::string::empty))
    throw usage_error("a constraint needs the bytes of tokens, and no token has any");
  return tokens;
}

}  // namespace

struct Grammar::Impl {
  xgrammar::CompiledGrammar compiled;
};

Grammar::Grammar(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Grammar::~Grammar() = default;

namespace {

xgrammar::TokenizerInfo tokenizer_of(const std::vector<std::string>& tokens) {
  return {tokens, xgrammar::VocabType::RAW, static_cast<int>(tokens.size()),
          std::vector<std::int32_t>()};
}

// One thread, because warnings are collected per thread.
xgrammar::GrammarCompiler compiler_of(const xgrammar::TokenizerInfo& tokenizer) {
  return {tokenizer, 1, kHasCache};
}

xgrammar::CompiledGrammar compile_with(xgrammar::GrammarCompiler& compiler,
                                       const Constraint& constraint) {
  const Source source = source_of(constraint);
  std::int64_t units = kCompileUnits;
  std::optional<xgrammar::CompiledGrammar> result;
  call_xgrammar(units, [&] { result.emplace(compiled(compiler, source)); });
  if (result->MemorySizeBytes() > kMostGrammarBytes)
    throw usage_error("it takes {} MB: {} MB at most", result->MemorySizeBytes() >> 20,
                      kMostGrammarBytes >> 20);
  return std::move(*result);
}

/// Serializes strings for another process.
std::string packed(const std::vector<std::string>& texts) {
  std::string bytes;
  for (const std::string& text : texts) {
    const auto size = static_cast<std::uint32_t>(text.size());
    bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
    bytes += text;
  }
  return bytes;
}

std::vector<std::string> unpacked(std::string_view bytes) {
  std::vector<std::string> texts;
  while (bytes.size() >= sizeof(std::uint32_t)) {
    std::uint32_t size = 0;
    std::memcpy(&size, bytes.data(), sizeof size);
    bytes.remove_prefix(sizeof size);
    texts.emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(std::min<std::size_t>(size, bytes.size()));
  }
  return texts;
}

// Clients write grammars, so the library's work is bounded: by counted units where it counts them,
// and in any case by a separate process.
constexpr sandbox::Task kTask = {
    .name = "the grammar",
    .verb = "compiled",
    .prepare = [](std::string_view vocabulary) -> std::shared_ptr<void> {
      return std::make_shared<xgrammar::GrammarCompiler>(
          compiler_of(tokenizer_of(unpacked(vocabulary))));
    },
    .run =
        [](void* prepared, std::string_view input) {
          Constraint constraint;
          constraint.kind = static_cast<Constraint::Kind>(input.at(0));
          auto texts = unpacked(input.substr(1));
          constraint.text = std::move(texts.at(0));
          constraint.choices.assign(texts.begin() + 1, texts.end());
          return serialized(
              compile_with(*static_cast<xgrammar::GrammarCompiler*>(prepared), constraint));
        }};
constexpr sandbox::Limits kLimits = {.seconds = 2,
                                     .prepare_seconds = 60,
                                     .bytes = std::size_t{256} << 20,
                                     .answer_bytes = std::size_t{64} << 20,
                                     .at_once = 32,
                                     .waiting = 256};

}  // namespace

struct Compiler::Impl {
  struct Kept {
    Constraint constraint;
    std::shared_ptr<const Grammar> grammar;
    std::size_t bytes;
  };

  explicit Impl(const std::vector<std::string>& tokens)
      : tokenizer(tokenizer_of(tokens)), compiler(compiler_of(tokenizer)) {
    if (sandbox::is_started())
      worker = std::make_unique<sandbox::Worker>(kTask, packed(tokens), kLimits);
  }

  /// Returns the cached grammar, after a wait if another thread is compiling it. If it returns
  /// null, this thread must compile and then call end().
  std::shared_ptr<const Grammar> find_or_begin(const Constraint& constraint) {
    std::unique_lock lock(mutex);
    ended.wait(lock, [&] { return std::ranges::find(running, constraint) == running.end(); });
    const auto found = std::ranges::find(kept, constraint, &Kept::constraint);
    if (found == kept.end()) {
      running.push_back(constraint);
      return nullptr;
    }
    kept.splice(kept.begin(), kept, found);
    return found->grammar;
  }

  void end(const Constraint& constraint) {
    const std::scoped_lock lock(mutex);
    running.erase(std::ranges::find(running, constraint));
    ended.notify_all();
  }

  void keep(Kept grammar) {
    const std::scoped_lock lock(mutex);
    bytes += grammar.bytes;
    kept.push_front(std::move(grammar));
    while (kept.size() > kMostKept || bytes > kMostKeptBytes) {
      bytes -= kept.back().bytes;
      kept.pop_back();
    }
  }

  xgrammar::CompiledGrammar compile(const Constraint& constraint) {
    if (!worker) {
      const std::scoped_lock lock(compiles);
      return compile_with(compiler, constraint);
    }
    std::vector<std::string> texts = {constraint.text};
    texts.insert(texts.end(), constraint.choices.begin(), constraint.choices.end());
    return read_compiled(worker->run(static_cast<char>(constraint.kind) + packed(texts)),
                         tokenizer);
  }

  xgrammar::TokenizerInfo tokenizer;
  xgrammar::GrammarCompiler compiler;
  std::unique_ptr<sandbox::Worker> worker;
  std::mutex compiles;
  std::mutex mutex;  // guards the members below
  std::condition_variable ended;
  std::vector<Constraint> running;
  std::list<Kept> kept;
  std::size_t bytes = 0;
};

Compiler::Compiler(int vocabulary, const std::function<std::string_view(TokenId)>& token_bytes)
    : impl_(std::make_unique<Impl>(vocabulary_of(vocabulary, token_bytes))) {}
Compiler::~Compiler() = default;

std::shared_ptr<const Grammar> Compiler::compile(const Constraint& constraint) {
  return with_context(std::string(name_of(constraint.kind)), [&] {
    if (bytes_of(constraint) > kMostText)
      throw usage_error("it has {} bytes: {} at most", bytes_of(constraint), kMostText);
    if (auto found = impl_->find_or_begin(constraint)) return found;
    struct End {
      Impl& impl;
      const Constraint& constraint;
      End(Impl& of, const Constraint& begun) : impl(of), constraint(begun) {}
      End(const End&) = delete;
      End& operator=(const End&) = delete;
      ~End() { impl.end(constraint); }
    };
    const End end(*impl_, constraint);
    xgrammar::CompiledGrammar result = impl_->compile(constraint);
    const std::size_t bytes = result.MemorySizeBytes() + bytes_of(constraint);
    auto grammar = std::make_shared<const Grammar>(
        std::make_unique<const Grammar::Impl>(Grammar::Impl{std::move(result)}));
    impl_->keep({constraint, grammar, bytes});
    return std::shared_ptr<const Grammar>(std::move(grammar));
  });
}

struct Matcher::State {
  xgrammar::GrammarMatcher matcher;
};

Matcher::Matcher(std::shared_ptr<const Grammar> grammar, std::span<const TokenId> stops)
    : grammar_(std::move(grammar)), stops_(stops.begin(), stops.end()), units_(kTextUnits) {
  call_xgrammar(units_, [&] {
    state_ = std::make_unique<State>(State{xgrammar::GrammarMatcher(grammar_->impl().compiled)});
  });
  const int vocabulary = grammar_->impl().compiled.GetTokenizerInfo().GetVocabSize();
  mask_.resize((static_cast<std::size_t>(vocabulary) + 31) / 32);
}
Matcher::Matcher(Matcher&&) noexcept = default;
Matcher& Matcher::operator=(Matcher&&) noexcept = default;
Matcher::~Matcher() = default;

void Matcher::fill() {
  if (is_filled_) return;
  if (has_ended_) {
    std::ranges::fill(mask_, 0);
    is_filled_ = true;
    return;
  }
  std::array<std::int64_t, 1> shape = {static_cast<std::int64_t>(mask_.size())};
  DLTensor tensor{};
  tensor.data = mask_.data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 1;
  tensor.dtype = xgrammar::GetBitmaskDLType();
  tensor.shape = shape.data();
  call_xgrammar(units_, [&] {
    if (!state_->matcher.FillNextTokenBitmask(&tensor)) std::ranges::fill(mask_, ~std::uint32_t{0});
  });
  const int vocabulary = grammar_->impl().compiled.GetTokenizerInfo().GetVocabSize();
  if (vocabulary % 32 != 0) mask_.back() &= (std::uint32_t{1} << (vocabulary % 32)) - 1;
  const bool may_end = state_->matcher.IsCompleted();
  for (const TokenId stop : stops_) {
    const auto at = static_cast<std::size_t>(stop);
    const std::uint32_t bit = std::uint32_t{1} << (at % 32);
    mask_[at / 32] = may_end ? mask_[at / 32] | bit : mask_[at / 32] & ~bit;
  }
  is_filled_ = true;
}

std::span<const std::uint32_t> Matcher::mask() {
  fill();
  return mask_;
}

bool Matcher::is_stuck() {
  return std::ranges::all_of(mask(), [](std::uint32_t word) { return word == 0; });
}

void Matcher::accept(TokenId token) {
  if (has_ended_) throw internal_error("a text goes on behind its end");
  is_filled_ = false;
  if (std::ranges::find(stops_, token) != stops_.end()) {
    if (!state_->matcher.IsCompleted()) throw internal_error("a text ends where it may not");
    has_ended_ = true;
    return;
  }
  bool is_taken = false;
  units_ = std::min(units_ + kTokenUnits, kTextUnits);
  call_xgrammar(units_, [&] { is_taken = state_->matcher.AcceptToken(token); });
  if (!is_taken) throw internal_error("token {} is none that may come next", token);
  if (!state_->matcher.IsCompleted()) return;
  // The text ends if only stop tokens may follow.
  fill();
  auto rest = mask_;
  for (const TokenId stop : stops_) {
    const auto at = static_cast<std::size_t>(stop);
    rest[at / 32] &= ~(std::uint32_t{1} << (at % 32));
  }
  has_ended_ = std::ranges::all_of(rest, [](std::uint32_t word) { return word == 0; });
  if (has_ended_) is_filled_ = false;
}

}  // namespace sinter::grammar
